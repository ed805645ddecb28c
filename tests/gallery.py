"""The pictures in the README: what the service answers at these addresses, kept in tests/golden/pictures.

`python -m tests.gallery` asks for them anew.
"""

from pathlib import Path

from service.formats import FORMATS
from tests.clients import in_process, settings

FOLDER = Path(__file__).parent / "golden" / "pictures"
# What made their bytes: other versions of matplotlib or zlib may draw or pack otherwise.
REVISION = FOLDER / "revision.txt"
PICTURES = {
    "sinusoidal": "/v1/encodings/sinusoidal.png?length=50&dim=128",
    "rope": "/v1/encodings/rope.png?length=64&dim=64",
    "alibi": "/v1/biases/alibi.png?heads=8&length=48",
    "t5-buckets": "/v1/biases/t5-buckets.png?length=48&max_distance=32",
    "sliding": "/v1/masks/sliding.png?length=40&window=10",
    "prefix": "/v1/masks/prefix.png?length=40&prefix=12&dtype=float32",
    "swin-index": "/v1/biases/swin-index.png?window=7,7",
    "sinusoidal-2d": "/v1/encodings/sinusoidal-2d.png?grid=24,24&dim=12&grid_axes=kept",
    "timestep": "/v1/encodings/timestep.png?length=100&dim=128",
    "learned": "/v1/encodings/learned.png?preset=gpt2&rows=48&length=48&dim=96&seed=7",
    "wavelengths": "/v1/analyses/wavelengths.png?dim=128&base=500000",
    "heads": "/v1/biases/alibi.png?heads=32&length=48",
    "attention": "/v1/analyses/attention.png?of=alibi&length=256&depth=14&residual=0.9&slope=0.0078125",
    "narrow": "/v1/encodings/rope.png?length=64&dim=64&picture_width=narrow",
    "dark": "/v1/encodings/sinusoidal.png?length=4096&dim=512&theme=dark",
}


def section() -> str:
    """The gallery as the README has it: two pictures a row, each with its address."""
    names = [name for name in PICTURES if name != "sinusoidal"]
    rows = [names[start : start + 2] for start in range(0, len(names), 2)]
    lines = ["| | |", "|---|---|"]
    for row in rows:
        cells = [f"![{name}]({FOLDER.relative_to(FOLDER.parents[2])}/{name}.png)<br>`{PICTURES[name]}`" for name in row]
        lines.append(f"| {' | '.join([*cells, ''][:2])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with in_process(settings()) as client:
        for name, address in PICTURES.items():
            reply = client.get(address)
            assert reply.status_code == 200, reply.text
            (FOLDER / f"{name}.png").write_bytes(reply.content)
    REVISION.write_text(FORMATS["png"].revision + "\n")


if __name__ == "__main__":
    main()
