"""Scalings, amplitudes and temperatures of GGUF headers: what llama-context.cpp and models/ make of them."""

from math import floor, log
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from tests.models.plans import answers, frequencies, inv_freq, sources, values
from tests.models.test_gguf_architectures import YARN, header, uses

LOG = "rope.scaling.yarn_log_multiplier"
PLAIN = 1 + 0.1 * log(8)


def one(name: str, **keys: Any) -> Use:
    (use,) = uses(name, **keys)
    return use


def loudness(name: str, **keys: Any) -> tuple[float, float]:
    """The amplitude of the tables, and the factor on the scores."""
    use = one(name, **{**YARN, **keys})
    return use.facts["attention_factor"], use.facts.get("softmax_factor", 1.0)


@pytest.mark.parametrize(
    ("name", "keys", "amplitude", "factor"),
    [
        # llama-context.cpp: get_mscale(factor, 1), times attn_factor.
        ("llama", {}, PLAIN, 1.0),
        ("llama", {"rope.scaling.attn_factor": 0.5}, 0.5 * PLAIN, 1.0),
        # A key that only some loaders read (models/mistral3.cpp, deepseek2.cpp, deepseek32.cpp).
        ("llama", {LOG: 0.0707}, PLAIN, 1.0),
        # models/mistral3.cpp: the whole of mscale_all_dim, and no factor on the scores.
        ("mistral3", {LOG: 1.0}, 1.0, 1.0),
        ("mistral3", {LOG: 0.5}, PLAIN / (1 + 0.05 * log(8)), 1.0),
        # models/deepseek2.cpp: a tenth of it; mscale is the same there alone.
        ("deepseek2", {LOG: 0.0707}, 1.0, (1 + 0.0707 * log(8)) ** 2),
        ("deepseek2", {}, PLAIN, PLAIN**2),
        ("mistral4", {LOG: 0.1}, 1.0, PLAIN**2),
        ("mistral4", {LOG: 0.05}, PLAIN / (1 + 0.05 * log(8)), PLAIN**2),
        ("deepseek32", {LOG: 0.1, "rope.scaling.attn_factor": 2.0}, 2.0, (2 * PLAIN) ** 2),
        # models/glm-dsa.cpp has the factor, and reads no multiplier.
        ("glm-dsa", {LOG: 0.1}, PLAIN, PLAIN**2),
        ("deepseek2", {"rope.scaling.factor": 1.0}, 1.0, 1.0),
        # The same code, of a linear factor: attn_factor_org is 1 + 0.1 ln(factor).
        ("deepseek2", {"rope.scaling.type": "linear"}, 1.0, PLAIN**2),
        ("deepseek2", {"rope.scaling.type": "linear", "rope.scaling.attn_factor": 0.5}, 0.5, (0.5 * PLAIN) ** 2),
    ],
)
def test_amplitudes(name: str, keys: dict[str, Any], amplitude: float, factor: float) -> None:
    sizes = {"rope.dimension_count": 16}
    assert loudness(name, **sizes, **keys) == pytest.approx((amplitude, factor), rel=1e-14)


def test_keys_that_are_not_read_are_told() -> None:
    betas = {"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 2.0}
    for name, fast, slow in (("mistral3", 4.0, 2.0), ("grok", 4.0, 2.0), ("qwen2", 32.0, 1.0)):
        plan = resolve(header(name, **YARN, **betas))
        assert (values(plan.uses[0])["beta_fast"], values(plan.uses[0])["beta_slow"]) == (fast, slow)
        note = f"llama.cpp does not read {name}.rope.scaling.yarn_beta_fast for this architecture"
        assert (note in plan.notes) == (name == "qwen2")
    assert values(one("grok", **YARN))["beta_fast"] == 8.0  # models/grok.cpp: defaults for old files
    sections = resolve(header("llama", **{"rope.dimension_sections": [4, 4, 0, 0]}))
    assert "llama.cpp does not read llama.rope.dimension_sections for this architecture" in sections.notes
    assert (values(sections.uses[0])["pairing"], values(sections.uses[0])["dim"]) == ("interleaved", 16)


def test_half_a_ramp() -> None:
    assert values(one("grok", **YARN, **{"rope.scaling.yarn_ext_factor": 1.0}))["rope_type"] == "yarn"
    with pytest.raises(Refusal, match=r"only a whole ramp, 1, can be answered"):
        one("grok", **YARN, **{"rope.scaling.yarn_ext_factor": 0.5})
    assert values(one("qwen2", **YARN, **{"rope.scaling.yarn_ext_factor": 0.5}))["rope_type"] == "yarn"


@pytest.mark.parametrize(
    ("name", "keys", "amplitude"),
    [
        # ggml_rope_ext of the sliding layers: freq_scale 1, and the amplitude that was to cancel ggml's own.
        ("mimo2", YARN, 1 / PLAIN),
        ("mimo2", {**YARN, "rope.scaling.attn_factor": 0.5}, 0.5 / PLAIN),
        ("mimo2", {"rope.scaling.attn_factor": 0.5}, 0.5),
        ("mimo2", {**YARN, "rope.scaling.factor": 1.0}, 1.0),
        ("mimo2", {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, 1.0),
        # models/laguna.cpp, olmo2.cpp, mellum.cpp: "SWA layers use plain RoPE", attn_factor 1 too.
        ("laguna", {**YARN, "rope.scaling.attn_factor": 0.5}, 1.0),
        ("olmo2", YARN, 1.0),
        ("mellum", YARN, 1.0),
    ],
)
def test_sliding_layers_that_no_scaling_reaches(name: str, keys: dict[str, Any], amplitude: float) -> None:
    sliding, full = uses(name, **keys)
    assert sliding.facts["attention_factor"] == pytest.approx(amplitude, rel=1e-14)
    assert np.abs(frequencies(sliding) / inv_freq(1e4, 16) - 1).max() < 1e-6
    scaled = values(full)["rope_type"] in ("yarn", "linear")
    assert scaled == ("rope.scaling.type" in keys)


def test_sliding_layers_that_are_scaled_too() -> None:
    for name in ("gemma2", "gpt-oss", "spark2_5", "granite_swa", "dots3note"):
        assert {values(use)["rope_type"] for use in uses(name, **YARN)} == {"yarn"}, name


def test_factors_of_other_kinds() -> None:
    """freq_scale is 1 / factor of any kind but none, and of a factor of 0 it is 1."""
    of = {"rope.scaling.factor": 4.0}
    assert values(one("llama", **of))["rope_type"] == "linear"
    assert values(one("llama", **of, **{"rope.scaling.type": "longrope"}))["factor"] == 4.0
    assert values(one("llama", **of, **{"rope.scaling.type": "none"}))["rope_type"] == "default"
    assert values(one("llama", **{"rope.scaling.factor": 0.0}))["rope_type"] == "default"
    assert values(one("llama", **{"rope.scaling.type": "linear"}))["rope_type"] == "default"
    louder = values(one("llama", **of, **{"rope.scaling.attn_factor": 1.5}))
    assert (louder["rope_type"], louder["divisors"], louder["attention_factor"]) == ("divisors", [4.0] * 8, 1.5)


def test_divisors_beside_other_scalings() -> None:
    """ggml divides by the tensor first, and multiplies by freq_scale then."""
    tensor = {"rope_freqs.weight": [1, 1, 1, 2, 2, 8, 8, 8]}
    (scaled,) = resolve({**header("llama", **{"rope.scaling.factor": 4.0}), **tensor}).uses
    assert values(scaled)["divisors"] == [4, 4, 4, 8, 8, 32, 32, 32]
    (louder,) = resolve({**header("llama", **{"rope.scaling.attn_factor": 1.5}), **tensor}).uses
    assert (values(louder)["divisors"], values(louder)["attention_factor"]) == (tensor["rope_freqs.weight"], 1.5)
    with pytest.raises(Refusal, match="no scheme here has both") as refused:
        resolve({**header("llama", **YARN), **tensor})
    assert refused.value.faults[0].parameter == "/rope_freqs.weight"
    with pytest.raises(Refusal) as refused:
        resolve({**header("llama", **{"rope.scaling.factor": 4.0}), "rope_freqs.weight": [1, "x"]})
    assert refused.value.faults[0].parameter == "/rope_freqs.weight/1"


def test_alpha() -> None:
    """models/hunyuan-vl.cpp: base times alpha^(d / (d - 2)); HunYuan's dense models have the same loader."""
    for name in ("hunyuan_vl", "hunyuan-dense"):
        use = one(name, **{"rope.scaling.alpha": 1000.0})
        base = 1e4 * 1000.0 ** (16 / 14)
        assert values(use)["base"] == float(np.float32(1e4) * np.float32(1000.0 ** (16 / 14)))
        assert sources(use)["base"] == ("rewritten", f"/{name}.rope.scaling.alpha")
        assert np.abs(frequencies(use) / inv_freq(base, 16) - 1).max() < 1e-6
    wider = one("hunyuan-dense", **{"rope.scaling.alpha": 10.0, "attention.key_length": 32})
    assert values(wider)["base"] == pytest.approx(1e4 * 10 ** (32 / 30), rel=1e-7)
    assert values(one("hunyuan-dense", **{"rope.scaling.alpha": 0.0}))["base"] == 1e4
    plan = resolve(header("llama", **{"rope.scaling.alpha": 1000.0}))
    assert values(plan.uses[0])["base"] == 1e4
    assert "llama.cpp does not read llama.rope.scaling.alpha for this architecture" in plan.notes
    with pytest.raises(Refusal, match="more than 2 channels") as refused:
        one("hunyuan-dense", **{"rope.scaling.alpha": 10.0, "attention.key_length": 2})
    assert refused.value.faults[0].parameter == "/hunyuan-dense.rope.scaling.alpha"
    with pytest.raises(Refusal, match="too large for float32"):
        one("hunyuan-dense", **{"rope.scaling.alpha": 1e300})


def warmth(use: Use) -> np.ndarray[Any, Any]:
    return next(iter(answers(use.addresses["temperature"]).values())).ravel()


def test_temperatures() -> None:
    """llama-graph.cpp, llm_graph_input_attn_temp: ln(floor((p + offset) / length) + 1) scale + 1."""
    still = [use for use in uses("llama4") if use.encoding == "none"]
    assert still
    for use in still:
        assert use.facts["temperature_parameters"] == {"schedule": "llama4", "floor_scale": 8192, "attn_scale": 0.1}
    assert all("temperature" not in use.addresses for use in uses("llama4") if use.encoding == "rope")
    off = uses("llama4", **{"attention.sliding_window": 0})
    assert all("temperature" not in use.addresses for use in off)
    scale = {"attention.temperature_scale": 0.3}
    for name, keys, length in (
        ("mistral3", {}, 512),
        ("mistral3", YARN, 64),
        ("mistral4", {"attention.temperature_length": 7, "rope.dimension_count": 8}, 7),
        ("deepseek2", {"attention.temperature_length": 50, "rope.dimension_count": 8}, 50),
    ):
        use = one(name, **scale, **keys)
        assert use.facts["temperature_parameters"]["floor_scale"] == length
        expected = [log(floor(p / length) + 1) * 0.3 + 1 for p in range(128)]
        assert warmth(use) == pytest.approx(expected, rel=1e-7)
    assert "temperature" not in one("mistral3").addresses
    assert "temperature" not in one("mistral3", **{"attention.temperature_scale": 0.0}).addresses
    assert "temperature" not in one("llama", **scale).addresses
    with pytest.raises(Refusal) as refused:
        one("deepseek2", **scale, **{"rope.dimension_count": 8})
    assert refused.value.faults[0].parameter == "/deepseek2.attention.temperature_length"
