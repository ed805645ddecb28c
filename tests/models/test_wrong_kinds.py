"""Values of the wrong kind for every key that a plan reads, over every known type: refused by the key's pointer.

A key is read where a plan cites it, or where its number changes the plan; each of the wrong values is tried for it.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import resolve
from service.models.families.positions import _measured
from service.models.known import model_type, names
from tests.models.plans import refused

WRONG: tuple[Any, ...] = ("32", [64], {}, True, -1, None)
SHARES = 24
# Lists of any length, -1 for "as many as there are", and words beside truth values: what these keys may be.
FREE: dict[str, tuple[Any, ...]] = {
    "position_buckets": (-1, None),
    "max_relative_positions": (-1, None),
    "clamp_len": (-1,),
    "speech_encoder_left_chunk_num": (-1,),
    "left_chunk_num": (-1,),
}


@lru_cache(maxsize=1)
def types() -> tuple[str, ...]:
    return names()


def shown(plan: Any) -> str:
    """What a plan says, whatever the origin of its values."""
    kept = ("parameters", "facts", "addresses", "layers", "window", "encoding")
    text = json.dumps([{key: use[key] for key in kept} for use in plan["uses"]], sort_keys=True)
    return text.replace('"config"', '"class default"').replace('"rewritten"', '"class default"')


def keys(name: str, plan: Any) -> Iterator[tuple[str, Any]]:
    """Keys that hold a number, or a list of numbers: the class's, and those that the plan cites."""
    own = {**_measured()["fields"].get(name, {}), **model_type(name).fields}
    cited = {each["key"].removeprefix("/") for use in plan["uses"] for each in use["parameters"].values()}
    for key in sorted({*own, *cited}):
        value = own.get(key)
        numbers = value if isinstance(value, list) else [value]
        if "/" not in key and numbers and all(type(each) in (int, float) for each in numbers):
            yield key, value


def taken(name: str) -> list[str]:
    """Wrong values that changed the plan, or that it did not refuse by their key."""
    try:
        plan = resolve({"model_type": name}).document()
    except Refusal:
        return []
    usual, found = shown(plan), []
    for key, value in keys(name, plan):
        for wrong in WRONG:
            if wrong in FREE.get(key, ()) or (isinstance(wrong, list) and isinstance(value, list)):
                continue
            try:
                other = resolve({"model_type": name, key: wrong}).document()
            except Refusal as refusal:
                place = refusal.faults[0].parameter
                if wrong in ("32", {}) and place.split("/")[1] != key:
                    found.append(f"{name}: {key} {wrong!r} refused at {place}")
                continue
            if wrong is not None and shown(other) != usual:
                found.append(f"{name}: {key} {wrong!r}")
    return found


@pytest.mark.parametrize("share", range(SHARES))
def test_values_of_the_wrong_kind(share: int) -> None:
    assert [each for name in types()[share::SHARES] for each in taken(name)] == []


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"model_type": "exaone4", "sliding_window_pattern": "LLXG"}, "/sliding_window_pattern"),
        ({"model_type": "recurrent_gemma", "block_types": ["recurrent", "attn"]}, "/block_types/1"),
        (
            {"model_type": "sam2_hiera_det_model", "window_positional_embedding_background_size": [7, 7, 7]},
            "/window_positional_embedding_background_size",
        ),
    ],
)
def test_lists_and_words_of_the_wrong_kind(config: dict[str, Any], place: str) -> None:
    assert refused(config)[0] == place
