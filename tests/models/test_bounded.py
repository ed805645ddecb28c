"""Long files: what is done for each key or entry is little, and what is said of them is short."""

from collections.abc import Callable
from typing import Any

import pytest

from service.models import gguf_header, reading, resolve, rope_keys
from tests.models.plans import plan, refusal, said

MANY = {f"zz_{place}": 1 for place in range(3000)}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[int]]:
    """How often a function of a module is called."""

    def count(owner: Any, name: str) -> list[int]:
        calls, real = [0], getattr(owner, name)

        def counting(*given: Any) -> Any:
            calls[0] += 1
            return real(*given)

        monkeypatch.setattr(owner, name, counting)
        return calls

    return count


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_many_keys_that_nothing_reads(counted: Callable[[Any, str], list[int]], key: str) -> None:
    compared = counted(rope_keys, "nearest")
    keys: dict[str, Any] = {key: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4, **MANY}}
    [use] = plan("llama", **keys).uses
    assert compared[0] <= 64
    assert len(use.notes) <= 12
    assert said(use, "2992 more keys of the block are none that transformers knows")
    assert said(use, f"/{key}/zz_7 is no key")


def test_few_keys_that_nothing_reads() -> None:
    [use] = plan("llama", rope_scaling={"rope_type": "linear", "factor": 2.0, "zz": 1}).uses
    assert [note for note in use.notes if "no key" in note] == [
        "/rope_scaling/zz is no key that transformers knows: ignored"
    ]


def test_many_keys_beside_types_of_layer() -> None:
    nested = {"full_attention": {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e4}}
    uses = plan("mellum", layer_types=["full_attention"] * 6, rope_parameters={**nested, **MANY}).uses
    [note] = [note for note in uses[0].notes if "beside the types" in note]
    assert note.endswith("zz_6 and 2993 more beside the types of layer have no effect")


@pytest.mark.parametrize("key", ["short_factor", "long_factor"])
def test_long_lists_are_counted_first(counted: Callable[[Any, str], list[int]], key: str) -> None:
    looked = counted(rope_keys, "numeric")
    lists = {"short_factor": [1.0] * 8, "long_factor": [1.0] * 8, key: [1.0] * 100_000}
    fault = refusal("llama", rope_scaling={"rope_type": "longrope", **lists})
    assert (fault.parameter, fault.requested, fault.limit) == (f"/rope_scaling/{key}", 100_000, 512)
    assert fault.detail == f"{key} has 100000 entries; an entry for each pair that turns is needed"
    assert looked[0] < 100


@pytest.mark.parametrize(
    ("name", "keys", "place"),
    [
        ("mllama_text_model", {"cross_attention_layers": [1] * 100_000}, "/cross_attention_layers"),
        ("gpt_neo", {"attention_types": [[["global"], 1]] * 100_000}, "/attention_types"),
        (
            "qwen2_vl_text",
            {"rope_scaling": {"type": "mrope", "mrope_section": [1] * 513}},
            "/rope_scaling/mrope_section",
        ),
    ],
)
def test_lists_by_layer(counted: Callable[[Any, str], list[int]], name: str, keys: dict[str, Any], place: str) -> None:
    looked = counted(reading, "whole")
    assert refusal(name, **keys).parameter == place
    assert looked[0] < 100


def test_many_keys_of_a_header(counted: Callable[[Any, str], list[int]]) -> None:
    compared = counted(gguf_header, "nearest")
    header = {"general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 64,
              "llama.attention.head_count": 4, **{f"llama.rope.{key}": 1 for key in MANY}}  # fmt: skip
    found = resolve(header)
    assert compared[0] <= 64
    notes = [note for use in found.uses for note in use.notes] + list(found.notes)
    assert "2992 more keys of rotation are read by nothing" in notes
    assert sum("is read by nothing" in note for note in notes) == 8
