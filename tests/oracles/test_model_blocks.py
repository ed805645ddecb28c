"""Odd RoPE blocks of every model type: what the class builds of them against the plan.

Keys at the top of the file beside objects by layer, objects for classes that read one block, null, lengths in the wrong
place. Where transformers builds a module, the plan has its frequencies or is a refusal; where transformers fails, the
plan is a refusal or says so. Nothing else is right.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, Use, resolve
from tests.models.plans import frequencies
from tests.oracles.live_models import Array, Known, rotary_classes
from tests.oracles.test_model_plans import LABELS, NOT_COVERED, natural, said

pytestmark = pytest.mark.oracle

LINEAR: Mapping[str, Any] = {"rope_type": "linear", "factor": 2.0}
YARN: Mapping[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
PLAIN: Mapping[str, Any] = {"rope_type": "default", "rope_theta": 1e4}
OTHER: Mapping[str, Any] = {"rope_theta": 5e6}
UNTURNED = ("linear_attention", "conv", "recurrent", "moe", "mlp")


def nest(config: Any, first: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """An object for each type of layer that the class has, or for two where it has none."""
    own = getattr(config, "_rope_type_labels", None) or sorted(set(getattr(config, "layer_types", None) or ()))
    labels = [label for label in own or ("full_attention", "sliding_attention") if label not in UNTURNED]
    return {label: dict(rest if place else first) for place, label in enumerate(labels)}


def two(first: Mapping[str, Any]) -> dict[str, Any]:
    return {"full_attention": dict(first), "sliding_attention": dict(PLAIN)}


def blocks(config: Any) -> dict[str, dict[str, Any]]:
    """Odd files by name."""
    part, theta, bare = {"partial_rotary_factor": 0.5}, {"rope_theta": 5e5}, {"rope_type": "yarn", "factor": 4.0}
    short = {"original_max_position_embeddings": 1024}
    linear, yarn = {**LINEAR, **OTHER}, {**YARN, **OTHER}
    return {
        "a share at the top": part,
        "a share at the top of linear": {**part, "rope_scaling": LINEAR},
        "a share at the top of yarn": {**part, "rope_scaling": YARN},
        "a base at the top": theta,
        "a factor of yarn": {"rope_scaling": {**YARN, "attention_factor": 1.5}},
        "objects, one linear": {"rope_parameters": nest(config, linear, PLAIN)},
        "objects, one yarn": {"rope_parameters": nest(config, yarn, PLAIN)},
        "objects, one yarn with a factor": {"rope_parameters": nest(config, {**yarn, "attention_factor": 1.5}, PLAIN)},
        "objects, one yarn without a length": {"rope_parameters": nest(config, {**bare, **OTHER}, PLAIN)},
        "objects and a share, the first scaled": {**part, "rope_parameters": nest(config, linear, PLAIN)},
        "objects and a share, the last scaled": {**part, "rope_parameters": nest(config, PLAIN, linear)},
        "objects and a share, none scaled": {**part, "rope_parameters": nest(config, PLAIN, PLAIN)},
        "objects without bases, and one at the top": {**theta, "rope_parameters": nest(config, LINEAR, {})},
        "objects without types": {**theta, "rope_parameters": nest(config, {}, {})},
        "objects without bases": {"rope_parameters": nest(config, LINEAR, {"rope_type": "default"})},
        "objects with the older type": {
            "rope_parameters": nest(config, {"type": "linear", "factor": 2.0, **OTHER}, PLAIN)
        },
        "objects in rope_scaling": {"rope_scaling": nest(config, linear, PLAIN)},
        "two objects": {"rope_parameters": two(linear)},
        "two unscaled objects": {"rope_parameters": two(PLAIN)},
        "two objects in rope_scaling": {"rope_scaling": two(linear)},
        "one object": {"rope_parameters": {"full_attention": linear}},
        "one object beside a block": {"rope_parameters": {**linear, "full_attention": linear}},
        "a block with the older type": {"rope_scaling": {"type": "linear", "factor": 2.0}, **OTHER},
        "a base of null": {"rope_theta": None},
        "a base of null beside linear": {"rope_theta": None, "rope_scaling": LINEAR},
        "a base of null in the block": {"rope_parameters": {"rope_type": "default", "rope_theta": None}},
        "a base of null in a linear block": {"rope_parameters": {**LINEAR, "rope_theta": None}},
        "a base of null in an object": {"rope_parameters": nest(config, {"rope_theta": None}, PLAIN)},
        "a head of null, linear": {"head_dim": None, "rope_scaling": LINEAR},
        "a head of null, yarn": {"head_dim": None, "rope_scaling": YARN},
        "a head of null, dynamic": {"head_dim": None, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
        "a head of null, objects": {"head_dim": None, "rope_parameters": nest(config, yarn, PLAIN)},
        "a share of null": {"partial_rotary_factor": None},
        "a length at the top": {**short, "rope_scaling": bare},
        "a length at the top and in the block": {**short, "rope_scaling": YARN},
        "a length at the top of objects": {**short, "rope_parameters": nest(config, {**bare, **OTHER}, PLAIN)},
    }


# A null that these classes refuse by its type, and one by which a whole model has no rotary module to fail.
BESIDE = ("gemma4_vision", "qwen2_vl_vision", "olmo_hybrid")


@pytest.fixture(scope="module")
def known() -> dict[str, Known]:
    return {name: each for name, each in rotary_classes().items() if name not in NOT_COVERED}


def held(name: str, known: Known, given: Mapping[str, Any]) -> str | None:
    """Why the plan of these keys is wrong; None where it is right."""
    document = json.loads(json.dumps({**said(name), **given}))
    try:
        uses = resolve({"model_type": name, **document}, Options()).uses
    except Refusal:
        return None
    notes = [note for use in uses for note in use.notes]
    try:
        built = known.build(**copy.deepcopy(document))
        theirs = built.frequencies()
    except Exception as error:  # whatever stops the library
        fails = any("transformers fails" in note for note in notes)
        return None if fails or name in BESIDE else f"transformers fails, the plan answers: {error}"[:120]
    for label, wanted in theirs.items():
        use = found(uses, LABELS.get(label or "", label))
        if use is None or use.encoding == "rope-axes" or name == "ernie4_5_vl_moe_text":
            continue
        ours: Array = frequencies(use)
        if ours.shape != wanted.shape or not np.allclose(ours, natural(wanted), rtol=1e-5):
            return f"{label}: {ours.shape} {ours[:2]}, and transformers {wanted.shape} {wanted[:2]}"
        factor = use.facts["attention_factor"]
        if name != "phimoe" and not np.isclose(factor, built.factor(label), rtol=1e-12):
            return f"{label}: factor {factor}, and transformers {built.factor(label)}"
    return None


def found(uses: tuple[Use, ...], label: str | None) -> Use | None:
    """The use of a type of layer, or the only one; a type that no layer has is of none."""
    turning = [use for use in uses if use.scope == "" and use.encoding in ("rope", "rope-axes")]
    alike: Iterator[Use] = (use for use in turning if label is None or use.layer_type in (label, None))
    return next(alike, None)


@pytest.mark.parametrize("name", list(blocks(None)))
def test_an_odd_block_of_every_type(known: dict[str, Known], name: str) -> None:
    wrong = {}
    for model_type, each in known.items():
        try:
            config = each.build(**said(model_type)).config
        except Exception:  # its defaults cannot be built: test_model_plans lists it
            continue
        why = held(model_type, each, blocks(config)[name])
        if why is not None:
            wrong[model_type] = why
    assert not wrong


PHIMOE: Mapping[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
        "short_mscale": 1.243,
        "long_mscale": 2.0,
    },
}


@pytest.mark.parametrize("length", [4096, 4097, 131072])
def test_a_trained_length_that_phimoe_reads_past(known: dict[str, Known], length: int) -> None:
    torch = __import__("torch")
    built = known["phimoe"].build(**copy.deepcopy(dict(PHIMOE)))
    cos, _ = built.module(torch.zeros(1, 1, 1), torch.tensor([[0, length - 1]]))
    (use,) = resolve({"model_type": "phimoe", **PHIMOE}, Options(length=length)).uses
    assert use.facts["attention_factor"] == 1.243
    assert np.isclose(cos[0, 0, 0].item(), 1.243)
