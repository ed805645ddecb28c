"""Calendar features against GluonTS: each by name, and those that a frequency string implies."""

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_calendar import FEATURES, FREQUENCIES, MOMENTS
from tests.oracles.answers import Array, asked, asked_in_json, posted

CALENDAR = "/v1/encodings/calendar"


@pytest.fixture(scope="module")
def gluonts() -> Numbers:
    return load("calendar")


def features(client: Client, gluonts: Numbers, **parameters: str) -> Array:
    named = {"unit": "microseconds", "dtype": "float64", **parameters}
    return posted(client, CALENDAR, {"positions": gluonts["moments"]}, **named)["features"]


def test_each_feature_by_name(direct: Client, gluonts: Numbers) -> None:
    got = features(direct, gluonts, features=",".join(FEATURES))
    expected = np.stack([gluonts[name] for name in FEATURES], axis=1)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15)
    indices = features(direct, gluonts, features=",".join(FEATURES), values="index")
    np.testing.assert_array_equal(indices, np.stack([gluonts[f"{name}.index"] for name in FEATURES], axis=1))


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_what_a_frequency_string_implies(direct: Client, gluonts: Numbers, frequency: str) -> None:
    got = features(direct, gluonts, frequency=frequency)
    np.testing.assert_allclose(got, gluonts[f"{frequency}.features"], rtol=0, atol=1e-15)
    facts = asked_in_json(direct, CALENDAR, length=1, frequency=frequency)["facts"]
    assert facts["seasonality"] == gluonts[f"{frequency}.seasonality"]


def test_timestamps_are_the_same_moments(direct: Client, gluonts: Numbers) -> None:
    written = ",".join(f"{at.isoformat()}Z" for at in MOMENTS)
    got = asked(direct, CALENDAR, timestamps=written, frequency="s", dtype="float64")["features"]
    np.testing.assert_allclose(got, gluonts["s.features"], rtol=0, atol=1e-15)


def test_a_plus_in_an_address_is_a_space(direct: Client) -> None:
    address = f"{CALENDAR}?features=hour-of-day&values=index&timestamps=2024-02-29T12:00:00"
    assert direct.get(f"{address}%2B05:30").json()["tensors"]["features"]["data"] == [[12]]
    refusal = direct.get(f"{address}+05:30")
    assert refusal.status_code == 422
    assert "%2B05:30" in refusal.json()["errors"][0]["detail"]
    assert refusal.json()["errors"][0]["parameter"] == "timestamps"
