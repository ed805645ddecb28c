"""Files that are read as a type they do not name: nothing of that type's own sizes, and what was not read is said."""

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Fault, Refusal
from service.models import Options, Plan, resolve
from tests.models.plans import frequencies, inv_freq, sources, values

SIZES: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}


def read(assume: str, name: str = "foo", length: int = 128, **keys: Any) -> Plan:
    return resolve({"model_type": name, **keys}, Options(assume=assume, length=length))


def refused(assume: str, **keys: Any) -> Fault:
    with pytest.raises(Refusal) as found:
        read(assume, **keys)
    (fault,) = found.value.faults
    return fault


def test_older_names_of_sizes_are_read() -> None:
    found = read("llama", n_embd=2560, n_head=32, n_layer=24, strange=1, vocab_size=7, _name=1)
    assert found.uses[0].layers == tuple(range(24))
    assert sources(found.uses[0])["dim"] == ("rewritten", "/n_embd")
    assert values(found.uses[0])["dim"] == 80
    assert found.notes[1:] == ("llama does not read strange",)
    wide = read("llama", **SIZES, kv_channels=96).uses[0]
    assert sources(wide)["dim"] == ("config", "/kv_channels")


@pytest.mark.parametrize(
    ("assume", "keys", "pointer", "words"),
    [
        ("llama", {}, "/num_hidden_layers", "num_hidden_layers, hidden_size, num_attention_heads are missing"),
        ("llama", {"text_config": SIZES}, "/num_hidden_layers", "text_config has it: send that object alone"),
        ("bert", SIZES, "/max_position_embeddings", "max_position_embeddings is missing"),
        ("gemma", SIZES, "/head_dim", "the sizes that gemma has by default are not those of another model"),
        ("vit", {**SIZES, "patch_size": 16}, "/image_size", "image_size is missing"),
        ("llava", {"text_config": SIZES}, "/vision_config/image_size", "image_size is missing"),
        ("llama", {**SIZES, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "/max_position_embeddings", ""),
    ],
)
def test_sizes_of_the_assumed_class_are_not_taken(assume: str, keys: Any, pointer: str, words: str) -> None:
    fault = refused(assume, **keys)
    assert (fault.parameter, fault.code) == (pointer, "missing")
    assert words in fault.detail


@pytest.mark.parametrize(
    ("key", "value", "reader"),
    [
        ("alibi", True, "falcon"),
        ("rotary_pct", 0.5, "gpt_neox"),
        ("rope_ratio", 2, "chatglm"),
        ("rotary_dim", 32, "gptj"),
        ("rotary_emb_base", 20000, "qwen"),
        ("position_encoding_2d", True, None),
    ],
)
def test_keys_that_decide_and_are_not_read(key: str, value: Any, reader: str | None) -> None:
    fault = refused("llama", **SIZES, **{key: value})
    assert (fault.parameter, fault.code) == (f"/{key}", "conflict")
    assert f"{key} is {value}, and llama does not read it" in fault.detail
    assert (reader or f"{value}, and llama does not read it; leave") in fault.detail


def test_keys_that_decide_nothing_here() -> None:
    found = read("llama", **SIZES, alibi=False, rotary_pct=1.0, rope_ratio=1, rotary_dim=None)
    assert found.notes[1:] == ("llama does not read alibi, rotary_pct, rope_ratio",)
    strange: dict[str, Any] = {f"x{place:02}": 1 for place in range(20)}
    many = read("llama", **SIZES, **strange)
    assert many.notes[1].endswith("x15 and 4 more")
    # A class that reads the key takes it.
    assert values(read("gpt_neox", **SIZES, rotary_pct=0.5).uses[0])["partial_rotary_factor"] == 0.5


def test_other_defaults_are_said() -> None:
    found = read("mistral", **SIZES)
    assert "not stated, and taken as in mistral: /sliding_window 4096" in found.notes


def test_a_part_that_is_assumed() -> None:
    text = {"model_type": "zzz", **SIZES, "strange": 1}
    found = resolve({"model_type": "llava", "text_config": text}, Options(assume="llama"))
    (words,) = [use for use in found.uses if use.scope == "/text_config"]
    assert (words.model_type, values(words)["dim"]) == ("llama", 16)
    assert found.assumed == "llama"
    assert found.notes == (
        "/text_config/model_type zzz is not known: /text_config is read by the keys alone, as llama",
        "llama does not read strange in /text_config",
    )
    assert refused("llava", text_config={"model_type": "zzz"}).detail.endswith(
        "the whole is read as llava already, and parts within must name a known type"
    )


def test_the_larger_baichuan_has_alibi() -> None:
    sizes = {"hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 40}
    fault = refused("baichuan", name="baichuan", **sizes)
    assert (fault.parameter, fault.code) == ("/hidden_size", "unsupported")
    assert "/v1/biases/alibi?heads=40" in fault.detail
    smaller = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32}
    assert values(read("baichuan", name="baichuan", **smaller).uses[0])["dim"] == 128


@pytest.mark.parametrize("length", [1, 2047, 2048, 2049, 4096, 4097, 5000, 8193])
def test_qwen_raises_its_base_beyond_the_trained_length(length: int) -> None:
    keys = {**SIZES, "seq_length": 2048, "use_dynamic_ntk": True}
    found = read("qwen", name="qwen", length=length, **keys).uses[0]
    # modeling_qwen.py: get_ntk_alpha, and base * alpha ** (dim / (dim - 2)).
    alpha = max(2 ** ceil(log2(length / 2048) + 1) - 1, 1)
    np.testing.assert_allclose(frequencies(found), inv_freq(10_000.0 * alpha ** (16 / 14), 16), rtol=1e-6)
    assert (sources(found)["alpha"] == ("rewritten", "/seq_length")) if alpha > 1 else ("alpha" not in values(found))
    plain = read("qwen", name="qwen", length=length, **{**keys, "use_dynamic_ntk": False}).uses[0]
    np.testing.assert_allclose(frequencies(plain), inv_freq(10_000.0, 16), rtol=1e-6)
