"""Fourier features against Perceiver (transformers) and GLIGEN, Gaussian projections (diffusers): steps in float32."""

import numpy as np

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_fourier import BOXES, LATE, POINTS, TIMES, UNIT_POINTS
from tests.oracles.answers import Array, Query, posted
from tests.oracles.usages import proves

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


@proves("encodings/fourier", {"perceiver-imagenet": "perceiver.imagenet"})
def test_perceiver_on_imagenet(direct: Client, fourier: Numbers, usage: Usage, oracle: str) -> None:
    body = {"positions": np.array(POINTS, np.float32)}
    ours = posted(direct, FOURIER, body, coordinates="last-axis", **usage.parameters)
    close_to(ours["features"], fourier[oracle], 112 * np.pi)


@proves("encodings/fourier", {"gligen": "gligen"})
def test_gligen(direct: Client, fourier: Numbers, usage: Usage, oracle: str) -> None:
    body = {"positions": np.array(BOXES, np.float32)}
    ours = posted(direct, FOURIER, body, coordinates="last-axis", **usage.parameters)
    close_to(ours["features"], fourier[oracle], 100)


def nerf(point: Array, factor: float, bands: int, include_input: bool) -> Array:
    """One point's features in loops: for each octave the sines of all coordinates, then their cosines."""
    columns = list(point) if include_input else []
    for band in range(bands):
        for wave in (np.sin, np.cos):
            columns += [wave(factor * 2.0**band * float(x)) for x in point]
    return np.array(columns)


@proves(
    "encodings/fourier",
    {
        "nerf-positions": (np.pi, 10, False),
        "nerf-directions": (np.pi, 4, False),
        "nerf-code-positions": (1.0, 10, True),
        "nerf-code-directions": (1.0, 4, True),
    },
)
def test_nerf_in_loops(direct: Client, usage: Usage, oracle: tuple[float, int, bool]) -> None:
    points = np.array([[0.3, -0.7, 0.111], [1.0, 0.25, -0.5]])
    named: dict[str, Query] = {**usage.parameters, "coordinates": "last-axis", "dtype": "float64"}
    ours = posted(direct, FOURIER, {"positions": points}, **named)["features"]
    factor, bands, include_input = oracle
    theirs = np.array([nerf(point, factor, bands, include_input) for point in points])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.0**-53 * factor * 2.0**bands)


@proves("encodings/gaussian-fourier", {"score-sde": "log.0", "score-sde-flipped": "log.1"})
def test_gaussian_projections_of_logarithms(direct: Client, fourier: Numbers, usage: Usage, oracle: str) -> None:
    """With the library's weights in place of drawn ones; it has drawn them with their scale."""
    weights = fourier["log.weight"]
    named: dict[str, Query] = {name: value for name, value in usage.parameters.items() if name not in ("seed", "scale")}
    assert np.abs(weights).std() > 4  # of scale 16
    body = {"positions": np.log(np.array(LATE, np.float32)), "weights": weights}
    ours = posted(direct, "/v1/encodings/gaussian-fourier", body, dim=24, **named)["features"]
    close_to(ours, fourier[oracle], float(2 * np.pi * np.log(500) * np.abs(weights).max()))


@proves("encodings/gaussian-fourier", {"sam": "sam"})
def test_segment_anything(direct: Client, fourier: Numbers, usage: Usage, oracle: str) -> None:
    weights = fourier["sam.weight"]
    named: dict[str, Query] = {name: value for name, value in usage.parameters.items() if name != "seed"}
    body = {"positions": 2 * np.array(UNIT_POINTS, np.float32) - 1, "weights": weights}
    ours = posted(direct, "/v1/encodings/gaussian-fourier", body, dim=24, coordinates="last-axis", **named)["features"]
    close_to(ours, fourier[oracle], float(4 * np.pi * np.abs(weights).max()))


def test_gaussian_projection_with_the_librarys_weights(direct: Client, fourier: Numbers) -> None:
    weights = fourier["gaussian.weight"]
    body = {"positions": np.array(TIMES, np.float32), "weights": weights}
    ours = posted(direct, "/v1/encodings/gaussian-fourier", body, dim=24, layout="cos-sin")
    close_to(ours["features"], fourier["gaussian"], float(2 * np.pi * 3 * np.abs(weights).max()))
