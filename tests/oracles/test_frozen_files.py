"""The frozen files say where they came from, and stay small enough to live beside the code."""

import json

import pytest

from tests.golden.frozen import FOLDER, load

RELEASES = {
    "torch": "2.13.0",
    "transformers": "5.24.0",
    "diffusers": "0.42.1",
    "x-transformers": "2.31.10",
    "timm": "1.0.31",
    "positional-encodings": "6.0.3",
    "gluonts": "0.17.0",
    "keras-hub": "0.32.0",
    "mlx": "0.32.4",
    "neuralforecast": "3.3.0",
    "tensor2tensor": "1.15.7",
    "torchtune": "0.6.1",
    "pandas": "2.3.3",
}
# Files that are about an older release.
OLDER = {("multimodal", "transformers"): "4.57.1"}
FILES = {
    "rope": ("torch", "transformers"),
    "scaling": ("torch", "transformers"),
    "implementations": (),
    "turned": (),
    "sinusoidal": ("torch", "transformers", "diffusers"),
    "calendar": ("gluonts", "pandas"),
    "fourier": ("torch", "transformers", "diffusers"),
    "timestep": ("torch", "diffusers", "transformers"),
    "sinusoids": ("torch", "transformers", "diffusers", "x-transformers", "positional-encodings"),
    "usages": ("torch", "transformers"),
    "elsewhere": ("torch", "keras-hub", "mlx", "neuralforecast", "tensor2tensor", "torchtune"),
    "alibi": ("torch", "transformers", "x-transformers"),
    "relative": ("torch", "transformers", "timm", "x-transformers"),
    "sources": ("torch",),
    "masks": ("torch", "transformers"),
    "grids": ("torch", "transformers", "diffusers", "timm", "positional-encodings"),
    "learned": ("torch", "transformers", "timm"),
    "scores": ("torch", "transformers", "x-transformers"),
    "multimodal": ("torch", "transformers"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_the_releases_and_the_instruction_set_that_made_it(name: str) -> None:
    provenance = json.loads(str(load(name)["provenance"]))
    for distribution in FILES[name]:
        # PyTorch's version carries its build (+cpu).
        release = OLDER.get((name, distribution), RELEASES[distribution])
        assert provenance[distribution].partition("+")[0] == release
    assert provenance.get("cpu_capability") == ("DEFAULT" if "torch" in FILES[name] else None)
    assert provenance["libc"]


def test_every_file_has_its_script_and_the_trained_vectors_their_licence() -> None:
    assert {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.npz")} == {
        *(f"{name}.npz" for name in FILES),
        "minilm/tables.npz",
    }
    for name in (*FILES, "minilm"):
        assert (FOLDER / f"make_{name}.py").is_file()
    licence = (FOLDER / "minilm" / "LICENSE").read_text()
    assert "MIT License" in licence
    assert "Apache-2.0" in licence


def test_the_files_together_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.npz")) < 1_500_000
