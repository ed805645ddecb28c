"""A configuration under preset=llama.cpp, and the header that llama.cpp's own converter writes of it, have one plan.

`llama_cpp_headers.json` was made by running that converter (conversion/, as llama-cpp-python 0.3.36 carries it) on the
default configuration of model types, and on others: each scaling, a width of heads, a share of them, both, kinds of
layers, windows. Rows are its keys of positions.
"""

import json
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, Plan, Use, resolve
from tests.models.plans import frequencies, plan, said, use, values

GGML = Options(preset="llama.cpp")
PARTS = ("vision", "audio", "flow_head")
# Why a configuration and the header of its file do not say the same: whose rows, and what either side must say then.
# Nothing else is allowed to differ.
EXPLAINED: dict[str, tuple[str, str, str]] = {
    # No class of transformers computes with such a block; the converter, which builds no model, takes the base of it.
    "no class computes it": (
        r"(gemma4_text|mellum)/",
        r"refused: (rope_parameters has no full_attention|\w+ reads objects for each type of layer)",
        r"",
    ),
    # 4096 channels for 96 heads: half of 42 is odd, and ggml turns even widths alone.
    "no whole pairs": (
        r"glm4v?_moe/",
        r"refused: rotary_dim makes the rotated width 21",
        r"refused: embedding_length 4096 is no multiple of attention.head_count 96",
    ),
    # llama.cpp loads no file of these without sections, which the converter has from the configuration alone.
    "no sections": (
        r"(qwen2_vl|qwen2_5_vl|qwen3_vl|qwen3_vl_moe|qwen3_asr|paddleocr_vl|hunyuan_vl)/",
        r"without which llama.cpp loads no|refused: the sections that the class assumes do not fit",
        r"refused: .*rope.dimension_sections is missing: llama.cpp turns by axes",
    ),
    "no window": (
        r".*/nowindow",
        r"refused: .* loads no file of .* without a window",
        r"refused: .* loads no file of this kind without",
    ),
    # LongRoPE's factors are tensors, which no header has.
    "factors in tensors": (r"(phi3|phimoe|minicpm3)/long", r"", r"before the tensors rope_factors_short and rope_fact"),
    # The converter reads the whole and its text model as one object: the file has a width that its tensors have not.
    "keys of the whole": (
        r".*/(headdim|partial|yarn-partial|headdim-partial)",
        r"is read by no class here; llama.cpp's converter takes it for the text model|refused: rotary_dim .* width 21",
        r"",
    ),
    "falcon with alibi": (r"falcon/alibi", r"llama.cpp has RoPE alone for falcon", r""),
}
COUNTS = {
    "same": 1470,
    "no sections": 115,
    "no whole pairs": 28,
    "no class computes it": 26,
    "keys of the whole": 15,
    "factors in tensors": 4,
    "no window": 4,
    "falcon with alibi": 1,
}


def _rows() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """(configuration, header) by name; a header may be told as what it changes in the first of its type."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    firsts: dict[str, dict[str, Any]] = {}
    for row in json.loads((Path(__file__).parent / "llama_cpp_headers.json").read_text()):
        first = firsts.setdefault(row["name"].partition("/")[0], row.get("header", {}))
        kept = {key: value for key, value in first.items() if key not in row.get("gone", ())}
        assert row["name"] not in found
        found[row["name"]] = (row["config"], kept | row.get("changed", {}))
    return found


ROWS = _rows()


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
        return {**facts, "rows": values(use)["rows"], "rule": values(use)["offset_rule"]}
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
    text = [use for use in plan.uses if not any(part in use.role + use.scope for part in PARTS)]
    return {layer: use for use in text for layer in (use.layers if use.layers is not None else (use.role,))}


def answer(document: dict[str, Any], options: Options) -> tuple[Plan | None, list[str]]:
    """The plan, and everything that it says; or that it is refused."""
    try:
        found = resolve(document, options)
    except Refusal as error:
        return None, [f"refused: {error}"]
    return found, [*found.notes, *(note for use in found.uses for note in use.notes)]


def same(mine: Plan, other: Plan) -> bool:
    ours, theirs = by_layer(mine), by_layer(other)
    if set(ours) != set(theirs):
        return False
    pairs = {(id(ours[at]), id(theirs[at])): (ours[at], theirs[at]) for at in ours}.values()
    return all(of(a) == of(b) and numbers(a) == pytest.approx(numbers(b), rel=2e-6) for a, b in pairs)


def _any(words: str, notes: list[str]) -> bool:
    return not words or any(re.search(words, note) for note in notes)


@lru_cache(maxsize=1)
def compared() -> dict[str, list[str]]:
    """The names of rows by how the two plans compare: `same`, a kind of EXPLAINED, or `unexplained`."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, (config, header) in ROWS.items():
        mine, said = answer(config, GGML)
        other, told = answer(header, Options())
        if mine is not None and other is not None and same(mine, other):
            found["same"].append(name)
            continue
        kinds = [
            kind
            for kind, (names, ours, theirs) in EXPLAINED.items()
            if re.match(names, name) and _any(ours, said) and _any(theirs, told)
        ]
        found[kinds[0] if kinds else "unexplained"].append(name)
    return found


def test_a_configuration_and_the_header_that_is_written_of_it() -> None:
    found = compared()
    types = {name.partition("/")[0] for name in ROWS}
    counts = {kind: len(names) for kind, names in found.items()}
    told = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    print(f"\n{len(ROWS)} headers of llama.cpp's converter, of {len(types)} types, and their configurations: {told}")
    assert found["unexplained"] == []
    assert counts == COUNTS
    assert (len(ROWS), len(types)) >= (1600, 100)


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
