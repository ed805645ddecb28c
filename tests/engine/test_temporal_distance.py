"""Sinusoids of distances in time against the sinusoidal encoding of each, and against datetime's own differences."""

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.scheme import Usage
from service.engine.timestamps import instant
from tests.engine.answers import DTYPE_NAMES, Array, only, refused
from tests.oracles.usages import proves

DISTANCE, SINUSOIDAL = "biases/temporal-distance", "encodings/sinusoidal"
STAMPS = (
    "2024-02-29T12:00:00Z",
    "2024-02-29T08:30:00-05:00",
    "2024-03-01T00:00:00.25+05:45",
    "1999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59Z",
)
UNIT_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_each_pair_is_the_encoding_of_its_distance(dtype: str) -> None:
    times = np.array([[0.0, 0.5, 7.25], [-3.0, 2.0**40, 1e-3]])
    got = only(DISTANCE, {"positions": times}, dim=5, dtype=dtype, layout="sin-cos")
    assert got.shape == (2, 3, 3, 5)
    distances = times[:, :, None] - times[:, None, :]
    expected = only(SINUSOIDAL, {"positions": distances}, dim=5, dtype=dtype, layout="sin-cos")
    assert got.tobytes() == expected.tobytes()
    listed = only(DISTANCE, positions="0,0.5,7.25", dim=5, dtype=dtype, layout="sin-cos")
    assert listed.tobytes() == got[0].tobytes()


def test_instants_are_datetimes() -> None:
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    for text in STAMPS:
        apart = datetime.fromisoformat(text) - epoch
        assert instant(text) == (apart.days * 86400 + apart.seconds) * 10**6 + apart.microseconds


@pytest.mark.parametrize("unit", UNIT_SECONDS)
def test_timestamps_are_apart_as_datetimes_are(unit: str) -> None:
    got = only(DISTANCE, timestamps=STAMPS, unit=unit, dim=4, dtype="float64")
    at = [datetime.fromisoformat(text) for text in STAMPS]
    whole = np.array([[(q - k).days * 86400 + (q - k).seconds for k in at] for q in at], np.float64)
    fraction = np.array([[(q - k).microseconds for k in at] for q in at], np.float64)
    if unit == "seconds":
        distances = whole + fraction / 1e6
        same = only(SINUSOIDAL, {"positions": distances[:4, :4]}, dim=4, dtype="float64")
        np.testing.assert_allclose(got[:4, :4], same, rtol=0, atol=1e-6)
    scale = UNIT_SECONDS[unit]
    slow = np.sin((whole / scale + fraction / 1e6 / scale) / 100)
    bound = 4e-16 * np.abs(whole).max() / scale + 1e-12
    np.testing.assert_allclose(got[..., 2], slow, rtol=0, atol=max(bound, 1e-9))
    scheme = by_key("biases", "temporal-distance")
    params = scheme.params(timestamps=STAMPS[:2], unit=unit, dim=4)
    stated = scheme.facts(params, {})
    assert stated["times"] == 2
    assert stated["largest_distance"] == pytest.approx(5400 / scale)
    assert scheme.notes(params, {}) == []


@proves(DISTANCE, {"Transformer Hawkes Process's temporal encoding, of distances": 512})
def test_transformer_hawkes_processes_encoding(usage: Usage, oracle: int) -> None:
    """Its time / 10000^(2 floor(i/2) / d), sines at even and cosines at odd channels, written again."""
    times = np.array([0.0, 0.3, 4.5])
    got = only(DISTANCE, {"positions": times}, dim=oracle, dtype="float64", **usage.parameters)
    vector = np.array([10000.0 ** (2.0 * (i // 2) / oracle) for i in range(oracle)])
    angles = (times[:, None] - times)[..., None] / vector
    expected = np.where(np.arange(oracle) % 2 == 0, np.sin(angles), np.cos(angles))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("parameters", "inputs", "named", "code"),
    [
        ({}, {}, "positions", "missing"),
        ({"positions": "1,2"}, {"positions": np.array([1.0])}, "positions", "repeated"),
        ({"positions": "1,2", "timestamps": STAMPS}, {}, "positions", "conflict"),
        ({"timestamps": STAMPS}, {"positions": np.array([1.0])}, "/positions", "conflict"),
        ({}, {"positions": np.array(1.0)}, "/positions", "shape"),
        ({"positions": (-(2.0**53), 2.0**53)}, {}, "positions", "out_of_range"),
        ({"timestamps": STAMPS, "unit": "microseconds"}, {}, "unit", "out_of_range"),
        ({}, {"positions": np.array([-(2.0**53), 2.0**53])}, "/positions", "out_of_range"),
        ({"positions": "1,2", "dim": 3, "odd_width": "refuse"}, {}, "dim", "odd"),
    ],
)
def test_refusals(parameters: dict[str, Any], inputs: dict[str, Array], named: str, code: str) -> None:
    fault = refused(DISTANCE, inputs, **{"dim": 4, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_what_has_no_effect_and_what_is_shared() -> None:
    scheme = by_key("biases", "temporal-distance")
    listed = scheme.params(positions="1,2", unit="hours", dim=4)
    assert scheme.notes(listed, {}) == ["unit has no effect with positions"]
    assert scheme.sequence(listed, {}) is not None
    brought = {"positions": np.ones((2, 2, 3))}
    params = scheme.params(dim=4)
    assert scheme.sequence(params, brought) is None
    assert scheme.tensors(params, brought)["encoding"].axes == ("batch_0", "batch_1", "query", "key", "channel")
    assert scheme.facts(params, brought) == {"times": 3, "largest_distance": 0.0, "table_bytes_per_channel": 36}
