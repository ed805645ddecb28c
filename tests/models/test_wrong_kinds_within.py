"""Values of the wrong kind for every key that a plan reads of the files that are kept here, at any depth.

A file is given as an object that remembers what was read of it, so keys within blocks of RoPE, by type of layer, within
parts, and keys that the file does not have are tried too. A wrong value is refused by its key, or it changes nothing.
"""

import copy
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import resolve
from tests.models.fixtures import fixtures
from tests.models.plans import refused
from tests.models.recording import recorded
from tests.models.test_wrong_kinds import FREE, shown

WRONG: tuple[Any, ...] = ("32", [64], {}, True, -1, 2**70)
SHARES = 12
YARN = {
    **{"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 64},
    **{"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0},
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
OF_PARTS: dict[str, dict[str, Any]] = {
    "blocks by type of layer": {
        "model_type": "gemma3_text",
        "rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
    },
    "lists of a block": {
        "model_type": "phi3",
        "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48},
    },
    "thinker and talker": {
        "model_type": "qwen2_5_omni",
        "thinker_config": {
            "text_config": {
                "hidden_size": 512,
                "num_attention_heads": 4,
                "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
            },
            "vision_config": {"hidden_size": 64, "num_heads": 4, "depth": 2},
            "audio_config": {"d_model": 64},
        },
        "talker_config": {"hidden_size": 512},
        "token2wav_config": {"dit_config": {"hidden_size": 64}},
    },
    "a tower that is turned": {
        "model_type": "llama4",
        "text_config": {"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 64}},
        "vision_config": {"rope_theta": 1e4},
    },
}
# Right values of keys that have none, or an object, in these files: truth values, parts and objects that may be empty.
RIGHT: dict[str, tuple[Any, ...]] = {
    **FREE,
    "is_decoder": (True,),
    "truncate": (True,),
    "text_config": ({},),
    "vision_config": ({},),
    "per_layer_config": ({},),
    # Read past its class by a tower of any picture: the sides of an example.
    "image_size": ([64],),
}
# A base and a multiplier of any size are numbers.
ANY_SIZE = (
    "theta",
    "freq_base",
    "freq_base_swa",
    "base_freq",
    "_base",
    "yarn_log_multiplier",
    "factor",
    "scale_linear",
)
# Said where the other name stands.
TWO_NAMES = ("num_attention_heads", "num_hidden_layers", "rope_type")


@lru_cache(maxsize=1)
def files() -> dict[str, dict[str, Any]]:
    return {**{name: fixture["config"] for name, fixture in fixtures().items()}, **OF_PARTS}


def owner(document: Any, path: tuple[str, ...]) -> Any:
    """The object that has the last key of a path; None where there is none."""
    for step in path[:-1]:
        document = document.get(step) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


def tried(path: tuple[str, ...], old: Any) -> Iterator[Any]:
    """The values that are wrong for a key that has this one."""
    for wrong in WRONG:
        kinds = (dict, bool, list, str)
        if any(isinstance(old, kind) and isinstance(wrong, kind) for kind in kinds) or wrong in RIGHT.get(path[-1], ()):
            continue
        if wrong == 2**70 and path[-1].endswith(ANY_SIZE):
            continue
        yield wrong


def wrongly_taken(document: dict[str, Any], usual: str, path: tuple[str, ...]) -> Iterator[str]:
    place = "/" + "/".join(path)
    for wrong in tried(path, owner(document, path).get(path[-1])):
        other = copy.deepcopy(document)
        owner(other, path)[path[-1]] = wrong
        try:
            answer = shown(resolve(other).document())
        except Refusal as refusal:
            where = refusal.faults[0].parameter
            elsewhere = where != place and not where.startswith(f"{place}/") and path[-1] not in TWO_NAMES
            if wrong in ("32", {}) and elsewhere:
                yield f"{place} {wrong!r} refused at {where}"
            continue
        if answer != usual:
            yield f"{place} {wrong!r}"


def taken(name: str) -> tuple[list[str], int]:
    """Wrong values that changed the plan of a file, or were refused elsewhere, and how many keys were tried."""
    document, seen = files()[name], set[tuple[str, ...]]()
    try:
        usual = shown(resolve(recorded(copy.deepcopy(document), (), seen)).document())
    except Refusal:
        return [], 0
    paths = [path for path in sorted(seen) if owner(document, path) is not None and path[-1] != "model_type"]
    return [f"{name}: {each}" for path in paths for each in wrongly_taken(document, usual, path)], len(paths)


@pytest.mark.parametrize("share", range(SHARES))
def test_values_of_the_wrong_kind_at_any_depth(share: int) -> None:
    found = [taken(name) for name in sorted(files())[share::SHARES]]
    print(f"\n{sum(keys for _, keys in found)} keys of {len(found)} files")
    assert sum(keys for _, keys in found) > 100
    assert [each for wrong, _ in found for each in wrong] == []


def test_numbers_of_a_header_that_cannot_be() -> None:
    header = {"general.architecture": "llama", "llama.embedding_length": 512, "llama.attention.head_count": 4}
    for key in ("scaling.factor", "scale_linear"):
        assert refused({**header, f"llama.rope.{key}": -1})[0] == f"/llama.rope.{key}"
    yarn = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.yarn_log_multiplier": -1, "dimension_count": 64}
    header = {"general.architecture": "deepseek2"} | {f"deepseek2.rope.{key}": value for key, value in yarn.items()}
    assert refused(header)[0] == "/deepseek2.rope.scaling.yarn_log_multiplier"


def test_a_class_that_is_no_name() -> None:
    assert refused({"model_type": "perceiver", "architectures": [64]})[0] == "/architectures/0"
    assert refused({"model_type": "perceiver", "architectures": "PerceiverModel"})[0] == "/architectures"
    lists: tuple[list[str] | None, ...] = (None, [])
    for named in lists:
        assert resolve({"model_type": "perceiver", "architectures": named}).uses


def test_a_header_that_is_no_object() -> None:
    assert refused({"gguf": "32"})[0] == "/gguf"
    assert resolve({"gguf": "a name", "model_type": "llama"}).uses
