"""Vectors turned by vLLM and keras-hub, frozen: the presets of their names, in every number format.

In 16 bits every rounding is where the library has it, so the numbers are equal but for the few whose frequencies differ
by an ulp or two; in float32 they differ by what that does to an angle.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from service.engine.rotation.rope_block import AXES_BLOCK, ROPE_BLOCK
from service.engine.scheme import Usage
from tests.engine.answers import Array, answer, only
from tests.golden.frozen import Numbers, load
from tests.golden.make_turned import (
    AXES,
    BASE,
    DIM,
    FACTOR,
    FORMATS,
    KERAS,
    LENGTH,
    POSITIONS,
    TRAINED,
    VLLM,
    vectors,
)
from tests.oracles.exact import ulps_apart
from tests.oracles.usages import proves

ROPE, TURN, TURN_AXES = "encodings/rope", "apply/rope", "apply/rope-axes"
EPS = 2.0**-24


@pytest.fixture(scope="module")
def turned() -> Numbers:
    """What `tests/golden/make_turned.py` describes."""
    return load("turned")


def read(array: Array, dtype: str) -> Array:
    """Frozen vectors in their number format."""
    return array if dtype == "float32" else array.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)


def compare(ours: Array, theirs: Array, dtype: str, at: Array = POSITIONS, *, apart: float = 0.0) -> None:
    """(positions, heads, channels) of each; the largest frequency is 1, and what turns is below 4.

    Of numbers of 16 bits a share `apart` may differ.
    """
    assert ours.dtype == theirs.dtype
    if dtype == "float32":
        # Four ulp of a frequency (theirs and ours) move its angle by as much.
        bound = 4 * 1.5 * (at * 8 * EPS + 8 * EPS)[:, None, None]
        assert (np.abs(ours - theirs) <= bound).all()
    else:
        assert (ours != theirs).mean() <= apart


def block_of(name: str) -> dict[str, Any]:
    """The service's parameters for a block of vLLM's, whose lengths and lists stand elsewhere in its configuration."""
    block = {key: value for key, value in VLLM[name].items() if key != "max_trained_positions"}
    pasted = AXES_BLOCK if "mrope_section" in block else ROPE_BLOCK
    found = {**pasted.parameters(block), "base": BASE}
    if name == "dynamic":
        found |= {"max_position_embeddings": TRAINED, "seq_len": LENGTH}
    if name.startswith("longrope"):
        found |= {"max_position_embeddings": LENGTH, "seq_len": TRAINED if name == "longrope_short" else LENGTH}
    if name == "mrope_yarn":
        # vLLM reads the ends of the ramp at the length of its table, which is four times the trained one.
        found["original_max_position_embeddings"] = 4 * TRAINED
    return found if name != "gptj" else {**found, "pairing": "interleaved"}


ON_ONE = [name for name, block in VLLM.items() if "mrope_section" not in block]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ON_ONE)
@proves(TURN, {"vllm": "vllm"})
def test_vllm_turns(turned: Numbers, usage: Usage, oracle: str, name: str, dtype: str) -> None:
    given: dict[str, Any] = {**usage.parameters, **block_of(name), "axes": "length-heads"}
    x, theirs = vectors(dtype), read(turned[f"{oracle}.{name}.{dtype}"], dtype)
    ours = only(TURN, {"q": x, "positions": POSITIONS}, **given)
    # vLLM's short cache ends at the trained length.
    longest = TRAINED if name == "longrope_short" else LENGTH
    rows = longest > POSITIONS
    compare(ours[rows], theirs[rows], dtype, POSITIONS[rows])
    assert (ours[1:] != x[1:]).mean() > 0.2


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", [name for name in VLLM if name not in ON_ONE])
@proves(TURN_AXES, {"vllm": "vllm"})
def test_vllm_turns_on_several_axes(turned: Numbers, usage: Usage, oracle: str, name: str, dtype: str) -> None:
    given: dict[str, Any] = {**usage.parameters, **block_of(name), "axes": "length-heads"}
    theirs = read(turned[f"{oracle}.{name}.{dtype}"], dtype)
    ours = only(TURN_AXES, {"q": vectors(dtype), "positions": AXES.T}, **given)
    compare(ours, theirs, dtype, AXES.max(axis=0))


@pytest.mark.parametrize("name", [name for name in ON_ONE if not name.startswith("longrope")])
@proves(ROPE, {"vllm": "vllm"})
def test_vllms_tables(turned: Numbers, usage: Usage, oracle: str, name: str) -> None:
    given: dict[str, Any] = {**usage.parameters, **block_of(name), "dim": DIM, "columns": "half"}
    ours = answer(ROPE, {"positions": POSITIONS}, **given)
    for wave in ("cos", "sin"):
        theirs = turned[f"{oracle}.{name}.{wave}"]
        assert np.abs(ours[wave] - theirs).max() <= 1.5 * LENGTH * 8 * EPS
        assert (ulps_apart(ours[wave], theirs) <= 1).mean() > 0.8


@proves(ROPE, {"vllm": "vllm.linear_by_3"})
def test_vllm_divides_positions_and_not_frequencies(turned: Numbers, usage: Usage, oracle: str) -> None:
    given: dict[str, Any] = {**usage.parameters, **block_of("linear_by_3"), "dim": DIM, "columns": "half"}
    apart = {}
    for rule in (usage.parameters["linear_scaling"], "frequency"):
        ours = answer(ROPE, {"positions": POSITIONS}, **{**given, "linear_scaling": rule})
        apart[rule] = max(ulps_apart(ours[wave], turned[f"{oracle}.{wave}"]).max() for wave in ("cos", "sin"))
    assert apart["position"] <= 1 < apart["frequency"]


KERAS_HUB: dict[str, dict[str, Any]] = {
    "plain": {},
    "linear": {"rope_type": "linear", "factor": FACTOR},
    "dynamic": {"rope_type": "dynamic", "factor": FACTOR},
    "yarn": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": TRAINED},
    "yarn_real_ends": {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": TRAINED,
        "truncate": False,
    },
}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", KERAS)
@proves(TURN, {"keras-hub": "keras"})
def test_keras_hub_turns(turned: Numbers, usage: Usage, oracle: str, name: str, dtype: str) -> None:
    given: dict[str, Any] = {**usage.parameters, **KERAS_HUB[name], "base": BASE, "axes": "length-heads"}
    theirs = read(turned[f"{oracle}.{name}.{dtype}"], dtype)
    ours = only(TURN, {"q": vectors(dtype), "positions": POSITIONS}, **given)
    # Its frequencies are base^(-2k/d), not 1 / base^(2k/d): an ulp or two apart.
    compare(ours, theirs, dtype, apart=5e-3)
    if name.startswith("yarn") and dtype != "float32":
        once = only(TURN, {"q": vectors(dtype), "positions": POSITIONS}, **{**given, "attention_on": "tables"})
        assert (once != theirs).mean() > 0.1


@pytest.mark.parametrize("name", KERAS)
@proves(ROPE, {"keras-hub": "keras"})
def test_keras_hubs_frequencies(turned: Numbers, usage: Usage, oracle: str, name: str) -> None:
    ours = only(ROPE, **usage.parameters, **KERAS_HUB[name], base=BASE, dim=DIM, output="frequencies")
    # It finds the ends of the ramp in float32: where they are not rounded to pairs, pairs between them notice.
    within = 16 if name == "yarn_real_ends" else 2
    assert ulps_apart(ours, turned[f"{oracle}.{name}.inv_freq"]).max() <= within
