"""Calendar features of GluonTS, frozen: `python -m tests.golden.make_calendar`.

`moments` are days, hours, minutes and seconds around the turns of years, months and weeks (microseconds since 1970);
`frequency.features` (moments, features) and `frequency.seasonality` are what the library has for a frequency string,
`name` and `name.index` (moments,) its features one by one. `frequency.lags` are its lags, of each of LAGS, and `age`,
`age.linear` its ages of AGES steps, float32.
"""

from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, save

FREQUENCIES = ("QE", "ME", "W", "W-WED", "D", "B", "h", "6h", "5h", "min", "15min", "s", "QS", "MS")
FEATURES = (
    "second-of-minute",
    "minute-of-hour",
    "hour-of-day",
    "day-of-week",
    "day-of-month",
    "day-of-year",
    "month-of-year",
    "week-of-year",
)
LAGS = (*FREQUENCIES, "YE", "3ME", "2W", "3D", "10D", "2B", "3h", "12h", "7min", "30min", "45min", "30s", "7s", "90s")
AGES = 40
TURNS = [
    *(datetime(year, 12, 31, 23, 59, 59) for year in (1969, 1999, 2004, 2015, 2019, 2020, 2023, 2024, 2026, 2099)),
    *(datetime(year, 2, 28, 23, 59, 59) for year in (1900, 1972, 2000, 2023, 2024, 2100)),
    datetime(2024, 6, 30, 11, 29, 30),
    datetime(1716, 5, 17, 6, 7, 8),
]
STEPS = [timedelta(), timedelta(seconds=1), timedelta(hours=9, minutes=37), timedelta(days=1), timedelta(days=4)]
MOMENTS = [turn + step for turn in TURNS for step in STEPS]


def build() -> Numbers:
    """Everything the file holds, by name."""
    pandas: Any = import_module("pandas")
    library: Any = import_module("gluonts.time_feature")
    epoch = datetime(1970, 1, 1)
    arrays: Numbers = {"moments": np.array([(at - epoch) // timedelta(microseconds=1) for at in MOMENTS])}
    index = pandas.PeriodIndex(MOMENTS, freq="s")
    for name in FEATURES:
        feature = name.replace("-", "_")
        arrays[name] = np.asarray(getattr(library, feature)(index), np.float64)
        arrays[f"{name}.index"] = np.asarray(getattr(library, f"{feature}_index")(index), np.int64)
    for frequency in FREQUENCIES:
        features = library.time_features_from_frequency_str(frequency)
        arrays[f"{frequency}.features"] = np.stack([np.asarray(each(index), np.float64) for each in features], axis=1)
        arrays[f"{frequency}.seasonality"] = np.array(library.get_seasonality(frequency))
    for frequency in LAGS:
        arrays[f"{frequency}.lags"] = np.array(library.get_lags_for_frequency(frequency), np.int64)
    age: Any = import_module("gluonts.transform").AddAgeFeature
    for name, log_scale in (("age", True), ("age.linear", False)):
        feature = age(target_field="target", output_field="age", pred_length=0, log_scale=log_scale)
        arrays[name] = feature.map_transform({"target": np.zeros(AGES, np.float32)}, True)["age"][0]
    return arrays


if __name__ == "__main__":
    save("calendar", build(), "gluonts", "pandas", "numpy")
