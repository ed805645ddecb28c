"""Draw the picture at the head of the README from the service's own answer.

pip install matplotlib && python -m tests.pictures
"""

import io
from pathlib import Path

import numpy as np

from tests.clients import TRANSPORTS, settings

ADDRESS = "/v1/encodings/sinusoidal.npy?length=50&dim=128"
PICTURE = Path(__file__).parent.parent / "service" / "web" / "sinusoidal.png"


def main() -> None:
    """Position by channel, red for 1 and blue for -1."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only whoever draws needs it

    with TRANSPORTS["in-process"](settings()) as client:
        table = np.load(io.BytesIO(client.get(ADDRESS).content))
    figure = Figure(figsize=(9, 3.6), dpi=100, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set(
        xlabel="channel (sin, cos, sin, cos, …)", ylabel="position", title="sinusoidal, 50 positions of 128 channels"
    )
    figure.colorbar(image, ax=axes, label="value")
    figure.savefig(PICTURE, metadata={"Software": None})


if __name__ == "__main__":
    main()
