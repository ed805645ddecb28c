"""A configuration under preset=llama.cpp, and the header that llama.cpp's own converter writes of it, have one plan.

`llama_cpp_headers.json` was made by running that converter (conversion/, as llama-cpp-python 0.3.36 carries it) on the
default configuration of model types and on scalings of them: rows are its keys of positions.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.models import Options, Plan, Use, resolve
from tests.models.plans import frequencies, plan, said, use, values

GGML = Options(preset="llama.cpp")
ROWS = json.loads((Path(__file__).parent / "llama_cpp_headers.json").read_text())
TOWERS = ("vision", "audio")


def of(use: Use) -> dict[str, Any]:
    """What both must say of a layer."""
    facts = {
        "encoding": use.encoding,
        "rotary_dim": use.facts.get("rotary_dim"),
        "attends": use.layer_type != "linear_attention" and not any("no attention" in note for note in use.notes),
        "pairing": values(use).get("pairing"),
        "slope": values(use).get("alibi_bias_max"),
        "window": use.window and (use.window.kind, use.window.size),
        "mask": use.addresses["mask"].href.partition("?")[0] if "mask" in use.addresses else None,
    }
    if use.encoding == "learned":
        return {**facts, "rows": values(use)["rows"]}
    return facts if facts["attends"] else {"attends": False}


def numbers(use: Use) -> list[float]:
    temperature = use.facts.get("temperature_parameters", {})
    return [
        *(np.sort(frequencies(use)).tolist() if use.encoding == "rope" else ()),
        use.facts.get("attention_factor") or 1.0,
        use.facts.get("softmax_factor") or 1.0,
        *(temperature.get(name, 0.0) for name in ("floor_scale", "attn_scale")),
    ]


def by_layer(plan: Plan) -> dict[Any, Use]:
    text = [use for use in plan.uses if not any(tower in use.role + use.scope for tower in TOWERS)]
    return {layer: use for use in text for layer in (use.layers if use.layers is not None else (use.role,))}


@pytest.mark.parametrize("row", ROWS, ids=[str(row["config"]["model_type"]) for row in ROWS])
def test_a_configuration_and_the_header_that_is_written_of_it(row: dict[str, Any]) -> None:
    ours, theirs = by_layer(resolve(row["config"], GGML)), by_layer(resolve(row["header"]))
    assert set(ours) == set(theirs)
    for mine, other in {(id(ours[at]), id(theirs[at])): (ours[at], theirs[at]) for at in ours}.values():
        assert of(mine) == of(other)
        assert numbers(mine) == pytest.approx(numbers(other), rel=2e-6)


def test_how_many_rows_there_are() -> None:
    types = Counter(row["config"]["model_type"] for row in ROWS)
    print(f"\n{len(ROWS)} headers of llama.cpp's converter, of {len(types)} model types, have the plan of their config")
    assert (len(ROWS), len(types)) >= (300, 75)


def test_longrope_is_as_loud_as_the_two_lengths_say() -> None:
    """conversion/phi.py: scale = max_pos_embds / orig_max_pos_embds, whatever the factor; minicpm.py writes none."""
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    block = {"type": "longrope", **lists, "factor": 16.0}
    lengths: dict[str, Any] = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    found = use("phi3", rope_scaling=block, options=GGML, **lengths)
    assert found.facts["attention_factor"] == pytest.approx((1 + np.log(32) / np.log(4096)) ** 0.5, rel=1e-12)
    scaled = {**block, "original_max_position_embeddings": 4096}
    sizes: dict[str, Any] = {"qk_rope_head_dim": 16, "max_position_embeddings": 131072}
    quiet = use("minicpm3", rope_scaling=scaled, options=GGML, **sizes)
    assert quiet.facts["attention_factor"] == 1.0
    assert said(quiet, "without an amplitude")
    unscaled = use("llama", rope_scaling=scaled, options=GGML)
    assert values(unscaled)["rope_type"] == "default"


def test_layers_that_slide_unscaled() -> None:
    """models/gemma3.cpp: freq_scale 1 of sliding layers, and the amplitude that cancels ggml's own of YaRN."""
    full = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "original_max_position_embeddings": 512}
    blocks = {"full_attention": full, "sliding_attention": {"rope_type": "yarn", **full, "rope_theta": 1e4}}
    sliding = use("gemma3_text", "sliding_attention", rope_parameters=blocks, head_dim=16, options=GGML)
    assert sliding.facts["attention_factor"] == pytest.approx(1 / (1 + 0.1 * np.log(8)))
    assert values(sliding)["divisors"] == [1.0] * 8
    blocks = {name: {**block, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
              for name, block in blocks.items()}  # fmt: skip
    options: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"] * 3, "options": GGML}
    assert values(use("gemma3_text", "sliding_attention", rope_parameters=blocks, **options))["rope_type"] == "default"


def test_olmo_3_slides_by_the_base_of_all() -> None:
    """models/olmo2.cpp: rope_freq_base_train_swa = rope_freq_base_train."""
    sliding = use("olmo3", "sliding_attention", rope_theta=1e6, options=GGML)
    assert values(sliding)["base"] == 1e6
    assert said(sliding, "turns sliding layers of olmo2 by the base of the others too")
    assert not said(use("olmo3", "sliding_attention", rope_theta=5e5, options=GGML), "by the base of the others")


def test_what_a_converter_drops_is_told() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "attention_factor": 1.3}
    assert said(use("qwen2", rope_scaling=yarn, options=GGML), "attention_factor is read by nothing in llama.cpp")
    assert said(use("cohere", rope_scaling=yarn, options=GGML), "writes no yarn for cohere")
    assert said(use("phi", rope_theta=1e6, options=GGML), "writes no base for phi: its files turn by 10000")
    assert said(use("nemotron", rope_scaling=yarn, options=GGML), "writes yarn as linear for nemotron")
    assert said(use("mistral4", options=GGML, qk_nope_head_dim=16, qk_rope_head_dim=16), "writes no temperature")


def test_models_that_llama_cpp_has_not() -> None:
    words = "llama.cpp's converter has no class for nanochat"
    assert any(words in note for note in plan("nanochat", options=GGML).notes)
    assert not any(words in note for note in plan("nanochat").notes)
    alibi = plan("falcon", alibi=True, options=GGML)
    assert any("llama.cpp has RoPE alone for falcon" in note for note in alibi.notes)
    assert not any("RoPE alone" in note for note in plan("falcon", options=GGML).notes)


def test_an_origin_is_in_the_configuration() -> None:
    yarn = {"rope_type": "yarn", "factor": 40, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}
    found = use("deepseek_v3", rope_scaling=yarn, options=GGML)
    assert found.facts["attention_factor"] == 1.0
    assert found.parameters["factor"].key == "/rope_scaling/factor"
    assert (found.parameters["beta_fast"].source, found.parameters["beta_fast"].key) == ("class default", "/model_type")
    assert found.parameters["rope_type"].source == "config"


def test_the_share_of_gemma_4() -> None:
    """conversion/gemma.py: [1.0] * n_rot_full + [1e30] * n_unrot_full; in the file they are float32."""
    full = use("gemma4_text", "full_attention", options=GGML)
    assert values(full)["divisors"] == [1.0] * 64 + [1e30] * 192
    header = {
        "general.architecture": "gemma4",
        "gemma4.rope.dimension_count": 512,
        "gemma4.rope.freq_base": 1e6,
        "gemma4.attention.sliding_window": 0,
    }
    tensor = [1.0] * 64 + [1.0000000150474662e30] * 192
    (found,) = resolve({**header, "rope_freqs.weight": tensor}).uses
    assert frequencies(found).tobytes() == frequencies(full).tobytes()
