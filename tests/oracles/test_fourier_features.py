"""Fourier features against Perceiver (transformers) and GLIGEN, Gaussian projections (diffusers): steps in float32."""

import numpy as np

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_fourier import BOXES, POINTS, TIMES
from tests.oracles.answers import Array, posted

FOURIER = "/v1/encodings/fourier"
ULP = 2.0**-23


def close_to(ours: Array, theirs: Array, largest_angle: float) -> None:
    """Within what three roundings of a float32 angle, and one of the sine, may do."""
    assert ours.dtype == theirs.dtype == np.float32
    assert np.abs(ours.astype(np.float64) - theirs).max() <= 2 * ULP * largest_angle + ULP


def test_perceiver(direct: Client, fourier: Numbers) -> None:
    ours = posted(
        direct,
        FOURIER,
        {"positions": np.array(POINTS, np.float32)},
        bands=7,
        spacing="linear",
        resolution=224,
        layout="sin-cos",
        include_input="first",
        coordinates="last-axis",
    )
    close_to(ours["features"], fourier["perceiver"], 112 * np.pi)


def test_gligen(direct: Client, fourier: Numbers) -> None:
    named = {"spacing": "geometric", "angle_factor": "one", "coordinates": "last-axis"}
    ours = posted(direct, FOURIER, {"positions": np.array(BOXES, np.float32)}, bands=8, base=100, **named)
    close_to(ours["features"], fourier["gligen"], 100)


def test_gaussian_projection_with_the_librarys_weights(direct: Client, fourier: Numbers) -> None:
    weights = fourier["gaussian.weight"]
    body = {"positions": np.array(TIMES, np.float32), "weights": weights}
    ours = posted(direct, "/v1/encodings/gaussian-fourier", body, dim=24, layout="cos-sin")
    close_to(ours["features"], fourier["gaussian"], float(2 * np.pi * 3 * np.abs(weights).max()))
