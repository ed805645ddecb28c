"""RoPE on several axes with every scaling: laws, chunks, shifts, blocks, and refusals."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.errors import Refusal
from service.engine.rotation.rope_block import AXES_BLOCK
from service.engine.rotation.scaling_single import GGML_TYPES
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, answer, close, only, refused

ROPE, AXES = "encodings/rope", "encodings/rope-axes"
TURN, TURN_AXES = "apply/rope", "apply/rope-axes"
RANDOM = np.random.default_rng(11)
Q, K = RANDOM.standard_normal((2, 6, 5, 16)), RANDOM.standard_normal((2, 3, 5, 16))
AT = RANDOM.integers(0, 5000, (5, 3))
TRAINED: dict[str, Any] = {"original_max_position_embeddings": 4096}
RISING = tuple(1.05 + pair / 7 for pair in range(8))
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 8.3},
    "linear by position": {"rope_type": "linear", "factor": 8.3, "linear_scaling": "position"},
    "dynamic": {"factor": 2.0, "max_position_embeddings": 2048, "seq_len": 5001},
    "dynamic uniform": {"rope_type": "dynamic", "factor": 2.0, "dynamic_rule": "uniform"},
    "ntk": {"factor": 4.0},
    "ntk mixed": {"rope_type": "ntk", "factor": 4.0, "mixed_b": 0.6},
    "ntk_aware": {"factor": 4.0},
    "ntk_alpha": {"alpha": 1000.0},
    "ntk_by_parts": {"factor": 4.0, **TRAINED},
    "yarn": {"factor": 16.0, **TRAINED},
    "yarn between pairs": {
        "rope_type": "yarn", "factor": 16.0, "truncate": False, "mscale": 1.2, "mscale_all_dim": 0.4, **TRAINED,
    },
    "longrope": {"short_factor": RISING, "long_factor": RISING[::-1], "factor": 8.0, "seq_len": 5001, **TRAINED},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **TRAINED},
    "proportional": {"partial_rotary_factor": 0.5, "factor": 8.0},
    "frequencies": {"raw_frequencies": tuple(1 / (1 + pair) for pair in range(8)), "attention_factor": 1.5},
    "divisors": {"divisors": RISING, "attention_factor": 0.75},
}  # fmt: skip
CHUNKS = ((0, 2), (2, 4), (4, 5))  # the last one a step of decoding
RULES: dict[str, dict[str, Any]] = {
    "chunked": {"sections": (2, 3, 3)},
    "interleaved": {"sections": (4, 2, 2), "section_rule": "interleaved"},
    "spatial-first": {"sections": (3, 3, 2), "section_rule": "spatial-first", "section_order": (1, 2, 0)},
    "alternating": {"sections": (4, 4), "section_rule": "alternating"},
    "interleaved-ggml": {"sections": (3, 3, 2, 0), "section_rule": "interleaved-ggml"},
    "doubled": {"sections": (2, 2, 2, 2), "section_rule": "doubled"},
}


def scaled(name: str) -> dict[str, Any]:
    return {"rope_type": name, **SCALINGS[name]}


def on_one(given: dict[str, Any]) -> dict[str, Any]:
    """The same parameters as the scheme of one axis calls them."""
    return {("frequencies" if name == "raw_frequencies" else name): value for name, value in given.items()}


def arithmetics(name: str) -> list[str]:
    known = scaled(name)["rope_type"] in GGML_TYPES and name != "linear by position"
    return ["exact", "float32", *(["ggml"] if known else [])]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SCALINGS)
def test_equal_axes_are_the_scaled_rope_on_one(name: str, rule: str) -> None:
    positions = np.array([0, 1, 257, 4095, 131071])
    alike = np.repeat(positions[:, None], len(RULES[rule]["sections"]), axis=1)
    for arithmetic in arithmetics(name):
        common: dict[str, Any] = {"base": 5e5, "arithmetic": arithmetic}
        several = answer(AXES, {"positions": alike}, dim=16, **scaled(name), **RULES[rule], **common)
        one = answer(ROPE, {"positions": positions}, dim=16, **on_one(scaled(name)), **common)
        for wave in ("cos", "sin"):
            assert several[wave].tobytes() == one[wave].tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("name", SCALINGS)
def test_vectors_with_equal_axes_turn_as_on_one(name: str, dtype: str) -> None:
    positions = np.array([0, 1, 257, 4095, 4999])
    alike = np.repeat(positions[:, None], 3, axis=1)
    common: dict[str, Any] = {"dtype": dtype, "direction": "inverse", "angle_sign": "negative"}
    several = answer(TURN_AXES, {"q": Q, "k": K, "positions": alike}, **RULES["chunked"], **scaled(name), **common)
    one = answer(TURN, {"q": Q, "k": K, "positions": positions}, **on_one(scaled(name)), **common)
    assert several["q"].tobytes() == one["q"].tobytes()
    assert several["k"].tobytes() == one["k"].tobytes()


@pytest.mark.parametrize("name", SCALINGS)
def test_a_scaling_tells_its_facts_and_scales_each_pair_alike(name: str) -> None:
    """Position 1 on one axis at a time: the angles of its pairs are the scaled frequencies, the others' are 0."""
    scheme, given = by_key("encodings", "rope-axes"), {"dim": 16, **RULES["interleaved"], **scaled(name)}
    frequencies = only(ROPE, dim=16, **on_one(scaled(name)), output="frequencies", dtype="float64")
    angles = only(AXES, {"positions": np.eye(3)}, **given, output="angles", dtype="float64")
    assert np.array_equal(angles.sum(axis=0), frequencies)
    assert np.array_equal((angles != 0).sum(axis=0), frequencies != 0)
    assert np.array_equal(only(AXES, **given, output="frequencies", dtype="float64"), frequencies)
    one = by_key("encodings", "rope")
    facts = dict(scheme.facts(scheme.params(**given), {}))
    assert facts.pop("axes_of_columns") == "thwthwtt" * 2
    assert facts == one.facts(one.params(dim=16, **on_one(scaled(name))), {})


@pytest.mark.parametrize("name", ["linear", "ntk", "ntk_aware", "ntk_by_parts", "yarn", "llama3"])
def test_a_factor_of_one_is_no_scaling(name: str) -> None:
    plain = answer(AXES, {"positions": AT}, dim=16, **RULES["chunked"])
    one = answer(AXES, {"positions": AT}, dim=16, **RULES["chunked"], **{**scaled(name), "factor": 1.0})
    assert one["cos"].tobytes() == plain["cos"].tobytes()
    assert one["sin"].tobytes() == plain["sin"].tobytes()


@pytest.mark.parametrize("pairing", ["half", "interleaved", "half-per-axis"])
@pytest.mark.parametrize("name", SCALINGS)
def test_norms_grow_by_the_attention_factor_and_products_depend_on_differences(name: str, pairing: str) -> None:
    rule: dict[str, Any] = {**RULES["chunked"], **scaled(name), "pairing": pairing, "dtype": "float64"}
    scheme = by_key("apply", "rope-axes")
    factor: Any = scheme.facts(scheme.params(**rule), {"q": Q})["attention_factor"]
    here, there, by = RANDOM.integers(0, 60, (3, 5, 3))
    products = []
    for more in (by * 0, by):
        turned = answer(TURN_AXES, {"q": Q[:, :3], "positions": here + more}, **rule)["q"]
        keys = answer(TURN_AXES, {"q": K, "positions": there + more}, **rule)["q"]
        products.append(np.sum(turned * keys, axis=-1))
        close(np.linalg.norm(turned, axis=-1), factor * np.linalg.norm(Q[:, :3], axis=-1), 1e-13)
    close(products[0], products[1], 1e-12)
    assert np.abs(products[0] - factor**2 * np.sum(Q[:, :3] * K, axis=-1)).max() > 1e-3


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("name", SCALINGS)
def test_a_chunk_a_step_and_the_whole_are_the_same_bytes(name: str, dtype: str) -> None:
    for rule in RULES.values():
        at = RANDOM.integers(0, 5000, (5, len(rule["sections"])))
        given: dict[str, Any] = {**rule, **scaled(name), "arithmetic": arithmetics(name)[-1], "dtype": dtype}
        whole = only(TURN_AXES, {"q": Q, "positions": at}, **given)
        parts = [only(TURN_AXES, {"q": Q[:, :, i:j], "positions": at[i:j]}, **given) for i, j in CHUNKS]
        assert np.concatenate(parts, axis=2).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("name", SCALINGS)
def test_chunks_of_every_pairing_on_one_axis(name: str, dtype: str) -> None:
    """Vectors and tables: a prefill in two chunks and a step, at offsets, arithmetics and signs taken in turn."""
    given, known = on_one(scaled(name)), arithmetics(name)
    ways = product(("half", "interleaved"), (None, "half", "interleaved"))
    arrangements: list[dict[str, Any]] = [
        {"pairing": pairing, "output_pairing": output, "arithmetic": known[index % len(known)]}
        for index, (pairing, output) in enumerate(ways)
    ]
    xpos: list[dict[str, Any]] = [
        {"arithmetic": arithmetic, "xpos_scale_base": 512.0} for arithmetic in ("exact", "float32")
    ]
    for index, arrangement in enumerate([*arrangements, *xpos]):
        own: dict[str, Any] = {**given, **arrangement, "angle_sign": ("positive", "negative")[index % 2]}
        own["dtype"] = dtype
        whole = answer(TURN, {"q": Q, "k": K}, **own, offset=4093)
        parts = [answer(TURN, {"q": Q[..., i:j, :], "k": K[..., i:j, :]}, **own, offset=4093 + i) for i, j in CHUNKS]
        for wave in ("q", "k"):
            assert np.concatenate([part[wave] for part in parts], axis=2).tobytes() == whole[wave].tobytes()
        own.pop("output_pairing", None)
        table = answer(ROPE, **own, dim=16, offset=4093, length=5)
        rows = [answer(ROPE, **own, dim=16, offset=4093 + i, length=j - i) for i, j in CHUNKS]
        for wave in ("cos", "sin"):
            assert np.concatenate([row[wave] for row in rows]).tobytes() == table[wave].tobytes()


SERIES: dict[str, dict[str, Any]] = {
    "shared": {},
    "strided": {},
    "per-axis": {"ntk_factor": (2.0,)},
    "rising": {"angle_factor": "pi", "base": 50.0},
    "linear": {"max_frequency": 7.0},
}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("frequencies", SERIES)
@pytest.mark.parametrize("rule", RULES)
def test_chunks_of_every_arrangement_on_several_axes(rule: str, frequencies: str, dtype: str) -> None:
    at = RANDOM.integers(0, 5000, (5, len(RULES[rule]["sections"])))
    pairings = ["half", "interleaved", *(["half-per-axis"] if rule == "chunked" else [])]
    for pairing in pairings:
        given: dict[str, Any] = {**RULES[rule], **SERIES[frequencies], "frequencies": frequencies, "pairing": pairing}
        given["dtype"] = dtype
        if rule == "doubled" and (frequencies != "shared" or pairing != "half"):
            assert refused(TURN_AXES, {"q": Q, "positions": at}, **given).parameter == "section_rule"
            continue
        whole = only(TURN_AXES, {"q": Q, "positions": at}, **given)
        parts = [only(TURN_AXES, {"q": Q[:, :, i:j], "positions": at[i:j]}, **given) for i, j in CHUNKS]
        assert np.concatenate(parts, axis=2).tobytes() == whole.tobytes()


# Where turned vectors go


@pytest.mark.parametrize("name", SCALINGS)
def test_a_shift_moves_what_is_turned_and_undoing_undoes_the_attention_factor(name: str) -> None:
    rule: dict[str, Any] = {**RULES["interleaved"], **scaled(name), "dtype": "float64"}
    there = only(TURN_AXES, {"q": Q, "positions": AT}, **rule)
    moved = only(TURN_AXES, {"q": there, "positions": AT - 7, "from_positions": AT}, **rule, direction="shift")
    close(moved, only(TURN_AXES, {"q": Q, "positions": AT - 7}, **rule), 1e-11)
    close(only(TURN_AXES, {"q": there, "positions": AT}, **rule, direction="inverse"), Q, 1e-13)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("address", [TURN, TURN_AXES])
def test_an_attention_factor_on_vectors_is_rounded_with_them(address: str, dtype: str) -> None:
    more: dict[str, Any] = RULES["chunked"] if address == TURN_AXES else {}
    at = AT if address == TURN_AXES else AT[:, 0]
    given: dict[str, Any] = {**more, "rotary_dim": 16, "rope_type": "divisors", "divisors": RISING}
    x = Q.astype(DTYPES[dtype])
    wide = np.concatenate([x, x], axis=-1)
    got = only(address, {"q": wide, "positions": at}, **given, attention_factor=0.7, attention_on="vectors")
    factor = DTYPES[dtype].type(0.7)
    expected = only(address, {"q": (x * factor).astype(x.dtype), "positions": at}, **given)
    assert got[..., :16].tobytes() == expected.tobytes()
    assert got[..., 16:].tobytes() == x.tobytes()
    back = only(
        address, {"q": got, "positions": at}, **given, attention_factor=0.7, attention_on="vectors", direction="inverse"
    )
    turned_back = only(address, {"q": got, "positions": at}, **given, direction="inverse")[..., :16]
    over = (turned_back * DTYPES[dtype].type(1 / 0.7)).astype(x.dtype)
    assert back[..., :16].tobytes() == over.tobytes()
    shifted = only(
        address,
        {"q": got, "positions": at + 1, "from_positions": at},
        **given,
        attention_factor=0.7,
        attention_on="vectors",
        direction="shift",
    )
    plain = {**given, "direction": "shift"}
    assert shifted.tobytes() == only(address, {"q": got, "positions": at + 1, "from_positions": at}, **plain).tobytes()


def permuted(x: Array, members: tuple[Array, Array], wanted: tuple[Array, Array]) -> Array:
    out = x.copy()
    for given, place in zip(members, wanted, strict=True):
        out[..., place] = x[..., given]
    return out


FIRST = np.array([0, 1, 4, 5, 6, 10, 11, 12])
MEMBERS = {
    "half": (np.arange(8), np.arange(8, 16)),
    "interleaved": (np.arange(0, 16, 2), np.arange(1, 16, 2)),
    "half-per-axis": (FIRST, FIRST + np.array([2, 2, 3, 3, 3, 3, 3, 3])),
}


@pytest.mark.parametrize("pairing", MEMBERS)
@pytest.mark.parametrize("wanted", MEMBERS)
def test_an_output_pairing_is_a_permutation_of_what_is_turned(pairing: str, wanted: str) -> None:
    given: dict[str, Any] = {**RULES["chunked"], **scaled("yarn"), "pairing": pairing}
    plain = only(TURN_AXES, {"q": Q, "positions": AT}, **given)
    moved = only(TURN_AXES, {"q": Q, "positions": AT}, **given, output_pairing=wanted)
    assert moved.tobytes() == permuted(plain, MEMBERS[pairing], MEMBERS[wanted]).tobytes()
    back = {**given, "pairing": wanted, "output_pairing": pairing, "direction": "inverse"}
    close(only(TURN_AXES, {"q": moved, "positions": AT}, **back), Q, 1e-12)


def test_the_last_channels_turn_as_the_first_would() -> None:
    rule: dict[str, Any] = {"sections": (2, 2, 2), "rotary_dim": 12}
    last = only(TURN_AXES, {"q": Q, "positions": AT}, **rule, rotary_channels="last")
    alone = only(TURN_AXES, {"q": Q[..., 4:], "positions": AT}, sections=(2, 2, 2))
    assert np.array_equal(last[..., :4], Q[..., :4])
    assert last[..., 4:].tobytes() == alone.tobytes()


def test_a_share_of_the_head_turns() -> None:
    given: dict[str, Any] = {"dim": 32, "sections": (4, 2, 2), "section_rule": "interleaved"}
    share = answer(AXES, {"positions": AT}, **given, partial_rotary_factor=0.5)
    assert np.array_equal(share["cos"], answer(AXES, {"positions": AT}, **given, rotary_dim=16)["cos"])
    assert share["cos"].shape == (5, 16)


def test_negative_angles_have_negative_sines() -> None:
    plain = answer(AXES, {"positions": AT}, dim=16, **RULES["chunked"])
    negative = answer(AXES, {"positions": AT}, dim=16, **RULES["chunked"], angle_sign="negative")
    assert np.array_equal(negative["cos"], plain["cos"])
    assert np.array_equal(negative["sin"], -plain["sin"])


def test_a_scaling_goes_with_a_grid_and_its_interpolation() -> None:
    """Twice the interpolation is linear scaling by two: (i / 2) w = i (w / 2)."""
    given: dict[str, Any] = {"dim": 16, "sections": (4, 4), "grid": (3, 5), "dtype": "float64"}
    scale = answer(AXES, **given, interpolation_scale=(2.0,), rope_type="linear", factor=4.0)
    factor = answer(AXES, **given, rope_type="linear", factor=8.0)
    assert np.array_equal(scale["sin"], factor["sin"])
    strided = only(AXES, dim=16, sections=(4, 4), frequencies="strided", output="frequencies", dtype="float64")
    over = only(AXES, dim=16, sections=(4, 4), frequencies="strided", output="frequencies", dtype="float64",
                rope_type="linear", factor=4.0)  # fmt: skip
    assert np.array_equal(over * 4, strided)


# What is filled in, noted, read from a block, and refused


def test_what_a_scaling_assumes_is_stated() -> None:
    scheme = by_key("encodings", "rope-axes")
    whole: Any = scheme.resolve(scheme.params(dim=16, **RULES["chunked"], **scaled("yarn")), {})
    assert (whole.beta_fast, whole.beta_slow, whole.truncate, whole.ramp) == (32, 1, True, "channels")
    assert (whole.rotary_dim, whole.partial_rotary_factor, whole.sections) == (16, None, (2, 3, 3))
    idle = scheme.params(dim=16, **RULES["chunked"], factor=2.0)
    assert scheme.notes(idle, {}) == ["factor has no effect with rope_type=default"]
    turned: Any = by_key("apply", "rope-axes").resolve(
        by_key("apply", "rope-axes").params(**RULES["chunked"], **scaled("proportional")), {"q": Q}
    )
    assert (turned.partial_rotary_factor, turned.output_pairing) == (0.5, "half")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"mrope_section": [2, 1, 1]}, {"sections": [2, 1, 1]}),
        ({"type": "mrope", "mrope_section": [2, 1, 1]}, {"rope_type": "default", "sections": [2, 1, 1]}),
        (
            {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True},
            {"rope_type": "default", "sections": [2, 1, 1], "section_rule": "interleaved"},
        ),
        ({"mrope_section": [2, 2], "mrope_interleaved": False}, {"sections": [2, 2], "section_rule": "chunked"}),
        (
            {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [1, 1, 1, 1]},
            {"rope_type": "ntk_alpha", "alpha": 1000.0, "sections": [1, 1, 1, 1], "section_rule": "doubled"},
        ),
        (
            {"mrope_section": [2, 2], "xdrope_section": [2, 2], "rope_theta": 1e6, "mrope_interleaved": None},
            {"base": 1e6, "sections": [2, 2], "section_rule": "doubled"},
        ),
        ({"rope_type": "axial", "rope_theta": 100.0}, {"rope_type": "default", "base": 100.0}),
        ({"type": "yarn", "factor": 4, "mrope_section": None}, {"rope_type": "yarn", "factor": 4}),
    ],
)
def test_a_block_tells_of_axes_too(block: dict[str, Any], expected: dict[str, Any]) -> None:
    assert AXES_BLOCK.parameters(block) == expected
    assert set(block) <= set(AXES_BLOCK.keys)


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ({"mrope_section": [2, 2], "xdrope_section": [1, 3]}, "xdrope_section"),
        ({"mrope_section": [2, 2], "mrope_interleaved": 1}, "mrope_interleaved"),
    ],
)
def test_blocks_that_contradict_themselves(block: dict[str, Any], named: str) -> None:
    with pytest.raises(Refusal) as caught:
        AXES_BLOCK.parameters(block)
    assert caught.value.faults[0].parameter == named


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"sections": None}, "sections", "missing"),
        ({"rope_type": "linear"}, "factor", "missing"),
        ({**scaled("yarn"), "frequencies": "per-axis"}, "rope_type", "conflict"),
        ({**scaled("linear"), "frequencies": "linear", "max_frequency": 5.0}, "rope_type", "conflict"),
        ({"rope_type": "frequencies"}, "raw_frequencies", "missing"),
        ({"raw_frequencies": (1.0, 2.0)}, "raw_frequencies", "conflict"),
        ({"rope_type": "frequencies", "raw_frequencies": (1.0, 2.0)}, "raw_frequencies", "shape"),
        ({**scaled("dynamic"), "arithmetic": "ggml"}, "rope_type", "conflict"),
        ({**scaled("divisors"), "divisors": RISING[:3]}, "divisors", "shape"),
        ({**scaled("yarn"), "base": 1.0}, "base", "out_of_range"),
        ({"rotary_dim": 16, "partial_rotary_factor": 1.0}, "partial_rotary_factor", "conflict"),
        ({"partial_rotary_factor": 0.75}, "sections", "sum"),
    ],
)
def test_refusals(parameters: dict[str, Any], named: str, code: str) -> None:
    for address, inputs in ((AXES, {}), (TURN_AXES, {"q": Q})):
        width = {"dim": 16} if address == AXES else {}
        fault = refused(address, {"positions": AT, **inputs}, **width, **{**RULES["chunked"], **parameters})
        assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize(
    ("arrays", "parameters", "named", "code"),
    [
        ({"from_positions": AT}, {}, "/tensors/from_positions", "conflict"),
        ({}, {"direction": "shift"}, "/tensors/from_positions", "missing"),
        ({"from_positions": AT[:4]}, {"direction": "shift"}, "/tensors/from_positions", "shape"),
        ({"positions": None, "from_positions": AT}, {"direction": "shift"}, "/positions", "missing"),
        ({}, {"turning": "neighbours", "output_pairing": "half"}, "output_pairing", "conflict"),
        (
            {},
            {"direction": "inverse", "rope_type": "divisors", "divisors": RISING, "attention_factor": 0.0},
            "direction",
            "conflict",
        ),
        ({}, {"section_rule": "alternating", "sections": (4, 4), "output_pairing": "half-per-axis"}, "output_pairing",
         "conflict"),
    ],
)  # fmt: skip
def test_refusals_of_vectors(arrays: dict[str, Any], parameters: dict[str, Any], named: str, code: str) -> None:
    given = {name: array for name, array in {"q": Q, "positions": AT, **arrays}.items() if array is not None}
    if parameters.get("section_rule") == "alternating":
        given["positions"] = AT[:, :2]
    fault = refused(TURN_AXES, given, **{**RULES["chunked"], **parameters})
    assert (fault.parameter, fault.code) == (named, code)
