"""Calendar features, lags and ages against GluonTS: each by name, and those that a frequency string implies."""

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_calendar import AGES, FEATURES, FREQUENCIES, LAGS, MOMENTS
from tests.oracles.answers import Array, asked, asked_in_json, posted
from tests.oracles.usages import proves

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


@proves(
    "encodings/calendar",
    {
        "gluonts-monthly": ("ME", "QE"),
        "gluonts-weekly": ("W",),
        "gluonts-daily": ("D", "B"),
        "gluonts-hourly": ("h",),
        "gluonts-minutely": ("min",),
        "gluonts-secondly": ("s",),
    },
)
def test_features_of_a_usage(direct: Client, gluonts: Numbers, usage: Usage, oracle: tuple[str, ...]) -> None:
    got = features(direct, gluonts, **usage.parameters)
    for frequency in oracle:
        np.testing.assert_allclose(got, gluonts[f"{frequency}.features"], rtol=0, atol=1e-15)


HOURLY = ("hour-of-day", "day-of-week", "day-of-month", "day-of-year")


@proves("encodings/calendar", {"GluonTS *_index features, hourly": HOURLY})
def test_indices_of_a_usage(direct: Client, gluonts: Numbers, usage: Usage, oracle: tuple[str, ...]) -> None:
    expected = np.stack([gluonts[f"{name}.index"] for name in oracle], axis=1)
    np.testing.assert_array_equal(features(direct, gluonts, **usage.parameters), expected)


@proves("encodings/calendar", {"informer-marks": None})
def test_informers_marks(direct: Client, gluonts: Numbers, usage: Usage, oracle: None) -> None:
    """Month, day, weekday, hour and quarter of an hour, as Informer's time_features takes them from pandas."""
    assert oracle is None
    expected = [[at.month, at.day, at.weekday(), at.hour, at.minute // 15] for at in MOMENTS]
    np.testing.assert_array_equal(features(direct, gluonts, **usage.parameters), expected)


CYCLIC = "cyclical pairs of the hour, weekday, day and day of the year"


@proves("encodings/calendar", {CYCLIC: (24, 7, 31, 366)})
def test_cyclical_pairs(direct: Client, gluonts: Numbers, usage: Usage, oracle: tuple[int, ...]) -> None:
    got = features(direct, gluonts, **usage.parameters)
    indices = features(direct, gluonts, frequency="h", values="index")
    for column, period in enumerate(oracle):
        angles = 2 * np.pi * indices[:, column] / period
        np.testing.assert_allclose(got[:, 2 * column], np.sin(angles), rtol=0, atol=3e-15)
        np.testing.assert_allclose(got[:, 2 * column + 1], np.cos(angles), rtol=0, atol=3e-15)


PERIODS = {
    "minute-of-hour": 60,
    "hour-of-day": 24,
    "day-of-week": 7,
    "day-of-month": 31,
    "day-of-year": 366,
    "month-of-year": 12,
    "week-of-year": 53,
}


@proves("encodings/cyclic", PERIODS)
def test_periods_of_a_usage(direct: Client, usage: Usage, oracle: int) -> None:
    """The pairs of a calendar's index, and of the formula."""
    got = asked(direct, "/v1/encodings/cyclic", length=oracle + 1, dtype="float64", **usage.parameters)["encoding"]
    angles = 2 * np.pi * np.arange(oracle + 1) / oracle
    np.testing.assert_allclose(got, np.stack([np.sin(angles), np.cos(angles)], axis=1), rtol=0, atol=3e-15)
    np.testing.assert_array_equal(got[0], got[oracle])


LAGS_OF = {
    "gluonts-hourly": "h",
    "gluonts-15min": "15min",
    "gluonts-daily": "D",
    "gluonts-business": "B",
    "gluonts-weekly": "W",
    "gluonts-monthly": "ME",
}


@proves("encodings/lags", LAGS_OF)
def test_lags_of_a_usage(direct: Client, gluonts: Numbers, usage: Usage, oracle: str) -> None:
    got = asked(direct, "/v1/encodings/lags", **usage.parameters)["lags"]
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, gluonts[f"{oracle}.lags"])


@pytest.mark.parametrize("frequency", LAGS)
def test_lags_of_every_frequency(direct: Client, gluonts: Numbers, frequency: str) -> None:
    theirs = gluonts[f"{frequency}.lags"]
    np.testing.assert_array_equal(asked(direct, "/v1/encodings/lags", frequency=frequency)["lags"], theirs)
    few = asked(direct, "/v1/encodings/lags", frequency=frequency, num_lags=9, length=3, offset=50)["index"]
    np.testing.assert_array_equal(few, np.arange(50, 53)[:, None] - theirs[:9])


@proves("encodings/age", {"gluonts": "age", "gluonts-linear": "age.linear"})
def test_ages_of_a_usage(direct: Client, gluonts: Numbers, usage: Usage, oracle: str) -> None:
    got = asked(direct, "/v1/encodings/age", length=AGES, **usage.parameters)["age"]
    # Their logarithm is one of float32.
    np.testing.assert_allclose(got[:, 0], gluonts[oracle], rtol=2.0**-22, atol=0)
