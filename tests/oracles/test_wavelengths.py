"""Wavelengths of rotary embeddings: 2 pi over the frequencies, with mpmath and from transformers' own frequencies."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine.scheme import Usage
from tests.api.problems import refused
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import TABLES
from tests.oracles.answers import Query, asked, asked_in_json
from tests.oracles.exact import rounded
from tests.oracles.usages import proves

WAVELENGTHS = "/v1/analyses/wavelengths"


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("dim", "base"), [(128, 1e4), (80, 5e5), (6, 1.5)])
def test_they_are_rounded_once(direct: Client, dtype: str, dim: int, base: float) -> None:
    answered = asked(direct, WAVELENGTHS, dim=dim, base=base, dtype=dtype)["wavelengths"]
    with mpmath.workdps(60):
        waves = [2 * mpmath.pi * mpf(base) ** (mpf(2 * pair) / dim) for pair in range(dim // 2)]
        expected = [rounded(wave, dtype) for wave in waves]
    assert answered.astype(np.float64).tolist() == [float(each) for each in expected]


@proves("analyses/wavelengths", {"Sinusoidal tables of the paper and RoPE with base 10000": 10000.0})
def test_they_are_those_of_the_frequencies_of_transformers(
    direct: Client, rope: Numbers, usage: Usage, oracle: float
) -> None:
    cases = [(name, case) for name, case in TABLES.items() if case.base == oracle]
    assert cases
    for name, _ in cases:
        answered = asked(direct, WAVELENGTHS, dim=2 * len(rope[f"{name}.inv_freq"]), **usage.parameters)["wavelengths"]
        # Its exponents and powers are rounded to float32: up to some eight ulps.
        assert np.allclose(answered * rope[f"{name}.inv_freq"].astype(np.float64), 2 * np.pi, rtol=2.0**-20, atol=0)


def test_a_scaling_lengthens_the_long_ones(direct: Client) -> None:
    llama3: dict[str, Query] = {
        "base": 500000,
        "rope_type": "llama3",
        "factor": 8,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        "original_max_position_embeddings": 8192,
    }
    plain = asked(direct, WAVELENGTHS, dim=128, base=500000)["wavelengths"]
    scaled = asked(direct, WAVELENGTHS, dim=128, **llama3)["wavelengths"]
    assert (scaled[plain < 2048] == plain[plain < 2048]).all()
    assert scaled[plain > 8192] == pytest.approx(8 * plain[plain > 8192], rel=1e-15)


def test_facts_count_the_waves_that_training_never_saw_whole(direct: Client) -> None:
    facts = asked_in_json(direct, WAVELENGTHS, dim=128, trained_length=4096)["facts"]
    assert facts["shortest"] == 2 * np.pi
    assert facts["longest"] == pytest.approx(2 * np.pi * 1e4 ** (126 / 128), rel=1e-12)
    assert facts["longer_than_trained"] == 18  # 2 pi 10000^(k / 64) > 4096 from k = 46 on
    assert (facts["pairs_turned_within_trained"], facts["channels_turned_within_trained"]) == (46, 92)
    picture = direct.get(f"{WAVELENGTHS}.svg?dim=128&trained_length=4096").text
    assert picture != direct.get(f"{WAVELENGTHS}.svg?dim=128").text


def test_what_has_no_wave_is_refused(direct: Client) -> None:
    still = direct.get(f"{WAVELENGTHS}?dim=128&rope_type=proportional&partial_rotary_factor=0.25")
    assert refused(still, "invalid-parameters")["errors"][0]["parameter"] == "rope_type"
    narrow = direct.get(f"{WAVELENGTHS}?dim=128&base=1e9&dtype=float16")
    assert refused(narrow, "invalid-parameters")["errors"][0]["parameter"] == "dtype"
