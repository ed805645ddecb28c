"""InternLM's own block of RoPE: a base, and a type."""

from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, resolve
from tests.models.plans import frequencies, inv_freq, said, sources

SIZES: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}


def internlm(length: int = 128, **keys: Any) -> Any:
    config = {"model_type": "internlm", **SIZES, "max_position_embeddings": 2048, **keys}
    (found,) = resolve(config, Options(assume="internlm", length=length)).uses
    return found


def test_the_base_of_internlm() -> None:
    found = internlm(rotary={"base": 20000, "type": "origin"})
    assert sources(found)["base"] == ("config", "/rotary/base")
    np.testing.assert_allclose(frequencies(found), inv_freq(20000.0, 16), rtol=1e-6)
    assert said(internlm(), "rotary is missing: earlier code of InternLM turns unscaled")
    assert not said(internlm(rope_scaling={"type": "linear", "factor": 2.0}), "rotary is missing")


@pytest.mark.parametrize(("length", "factor"), [(2048, None), (4096, None), (4096, 2.0)])
def test_internlm_grows(length: int, factor: float | None) -> None:
    more = {} if factor is None else {"scaling_factor": factor}
    found = internlm(length, rotary={"base": 10000, "type": "dynamic", **more})
    s = factor or 1.0
    # The code of its repositories: base ((s n / L) - (s - 1)) ** (dim / (dim - 2)) for n > L.
    base = 10000.0 * (s * length / 2048 - (s - 1)) ** (16 / 14)
    np.testing.assert_allclose(frequencies(found), inv_freq(base, 16), rtol=1e-6)


@pytest.mark.parametrize(
    ("block", "where", "words"),
    [
        ({"base": 10000, "type": "dynamc"}, "/type", "did you mean dynamic?"),
        ({"base": 10000, "type": "zzz"}, "/type", "none of rotary's types: origin, dynamic"),
        ({"base": 10000, "type": 1}, "/type", "a string is needed"),
        ({"base": 10000}, "/type", "type is missing"),
        ({"type": "origin"}, "/base", "base is missing"),
        ({"base": "x", "type": "origin"}, "/base", "base is x"),
        ({"bse": 1, "base": 10000, "type": "origin"}, "/bse", "did you mean base?"),
        ({"zzzzz": 1, "base": 10000, "type": "origin"}, "/zzzzz", "known are base, type, scaling_factor"),
    ],
)
def test_blocks_that_internlm_cannot_read(block: dict[str, Any], where: str, words: str) -> None:
    with pytest.raises(Refusal) as found:
        internlm(rotary=block)
    (fault,) = found.value.faults
    assert fault.parameter == f"/rotary{where}"
    assert words in fault.detail
