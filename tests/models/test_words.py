"""Words and flags that decide what a class does with positions: known ones, misspelt ones, and those without effect."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Options, resolve
from service.models.context import Preset

ESM = {"model_type": "esm", "pad_token_id": 1}
QWEN = {
    "hidden_size": 2560,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
}


@pytest.mark.parametrize(("word", "encoding"), [("rotary", "rope"), ("absolute", "learned"), (None, "none")])
def test_esm_by_its_word(word: str | None, encoding: str) -> None:
    (use,) = resolve(ESM | {"position_embedding_type": word}, Options()).uses
    assert use.encoding == encoding


@pytest.mark.parametrize(
    ("word", "hint"), [("rotery", "did you mean rotary?"), ("relative_key", "rotary and absolute are known")]
)
def test_a_word_that_no_code_reads_is_refused(word: str, hint: str) -> None:
    with pytest.raises(Refusal, match=f"is {word}, which no code reads.*{hint.replace('?', '.')}") as refused:
        resolve(ESM | {"position_embedding_type": word}, Options())
    assert refused.value.faults[0].parameter == "/position_embedding_type"


def test_a_key_of_mpts_attention_that_is_misspelt_is_refused() -> None:
    with pytest.raises(Refusal, match="did you mean alibi_bias_max") as refused:
        resolve({"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_mx": 16}}, Options())
    assert refused.value.faults[0].parameter == "/attn_config/alibi_bias_mx"


def axes(kind: str, flag: bool | None, preset: Preset) -> tuple[str, list[str]]:
    """The address of the tables on several axes, and what is said of the flag."""
    block: dict[str, Any] = {"rope_type": "default", "mrope_section": [24, 20, 20]}
    if flag is not None:
        block["mrope_interleaved"] = flag
    config = QWEN | {"model_type": kind, "rope_theta": 5e6, "rope_scaling": block}
    (use,) = resolve(config, Options(preset=preset)).uses
    return use.addresses["axes"].href, [note for note in use.notes if "mrope_interleaved" in note]


@pytest.mark.parametrize("kind", ["qwen3_vl_text", "qwen2_vl_text"])
@pytest.mark.parametrize("flag", [True, False, None])
def test_vllm_weaves_sections_by_the_flag_and_transformers_by_the_class(kind: str, flag: bool | None) -> None:
    woven = kind == "qwen3_vl_text"
    href, notes = axes(kind, flag, "transformers-5.24")
    assert ("section_rule=interleaved" in href) == woven
    assert bool(notes) == (flag is not None and flag != woven)
    href, notes = axes(kind, flag, "vllm")
    assert ("section_rule=interleaved" in href) == bool(flag)
    assert bool(notes) == (bool(flag) != woven)
