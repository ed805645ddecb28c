"""RoPE on several axes: handed cases, laws, the grids, and refusals."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from tests.engine.answers import DTYPE_NAMES, Array, answer, close, only, refused
from tests.oracles.exact import ulps_apart

ROPE_AXES = "encodings/rope-axes"
SCHEME = by_key("encodings", "rope-axes")
MROPE: dict[str, Any] = {"dim": 128, "sections": (16, 24, 24), "base": 1e6}


def facts(**parameters: object) -> dict[str, Any]:
    return dict(SCHEME.facts(SCHEME.params(**parameters), {}))


def notes(**parameters: object) -> list[str]:
    return SCHEME.notes(SCHEME.params(**parameters), {})


def at(positions: object, **parameters: object) -> dict[str, Array]:
    return answer(ROPE_AXES, {"positions": np.asarray(positions)}, **parameters)


# Cases


def test_e05_chunked_interleaved_and_their_bounds() -> None:
    def axes(*sections: int, rule: str) -> str:
        got = facts(dim=2 * sum(sections), sections=sections, section_rule=rule, columns="half")
        return str(got["axes_of_columns"])

    assert axes(24, 20, 20, rule="interleaved") == "thw" * 20 + "tttt"
    assert axes(16, 24, 24, rule="chunked") == "t" * 16 + "h" * 24 + "w" * 24
    assert axes(4, 2, 2, rule="interleaved") == "thwthwtt"
    angles = at([[5, 6, 7]], **MROPE, output="angles", dtype="float64")["angles"]
    close(
        angles[0, [0, 15, 16, 39, 40, 63]],
        [5, 0.1962094879, 0.1897366596, 1.324040441e-3, 1.244795587e-3, 8.686564325e-6],
        1e-10,
    )


def test_e06_sections_that_are_no_half_head() -> None:
    fault = refused(ROPE_AXES, dim=128, sections=(16, 24, 20), grid=(1, 1, 1))
    assert (fault.parameter, fault.requested, fault.limit) == ("sections", 60, 64)
    assert "sum to 60, expected 64" in fault.detail


def test_interleaved_sections_that_are_no_half_head_say_what_libraries_make_of_them() -> None:
    """H has 1, 4, 7 ... and W 2, 5, 8 ... as far as there are pairs; a sum that is right is taken as it is."""
    given: dict[str, Any] = {"section_rule": "interleaved", "grid": (1, 1, 1)}
    detail = refused(ROPE_AXES, dim=72, sections=(8, 12, 12), **given).detail
    assert detail.startswith("the sections sum to 32, expected 36: half of dim 72; such as 12,12,12, ")
    assert "such as 11,11,10" in refused(ROPE_AXES, dim=64, sections=(8, 12, 14), **given).detail
    own, spelled = (
        facts(dim=64, sections=sections, **given)["axes_of_columns"] for sections in ((8, 12, 12), (11, 11, 10))
    )
    assert own == spelled


# Laws

RULES: list[dict[str, Any]] = [
    {"sections": (2, 3, 3)},
    {"sections": (4, 2, 2), "section_rule": "interleaved"},
    {"sections": (3, 3, 2), "section_rule": "spatial-first", "section_order": (1, 2, 0)},
    {"sections": (4, 4), "section_rule": "alternating"},
    {"sections": (3, 3, 2, 0), "section_rule": "interleaved-ggml"},
    {"sections": (2, 2, 2, 2), "section_rule": "doubled"},
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("section_rule", "chunked"))
@pytest.mark.parametrize("arithmetic", ["exact", "float32", "ggml"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_equal_axes_are_rope_on_one(rule: dict[str, Any], arithmetic: str, dtype: str) -> None:
    positions = [0, 1, 257, 4095, 131071]
    common: dict[str, Any] = {"dim": 16, "base": 5e5, "arithmetic": arithmetic, "dtype": dtype}
    several = at(np.repeat(np.array(positions)[:, None], len(rule["sections"]), axis=1), **rule, **common)
    one = answer("encodings/rope", {"positions": np.array(positions)}, **common)
    for name in ("cos", "sin"):
        assert several[name].tobytes() == one[name].tobytes()


@pytest.mark.parametrize("rule", RULES[:-1], ids=lambda rule: rule.get("section_rule", "chunked"))
def test_each_axis_moves_its_own_columns_alone(rule: dict[str, Any]) -> None:
    axes = len(rule["sections"])
    letters = facts(dim=16, **rule, columns="half")["axes_of_columns"]
    names = {2: "hw", 3: "thw"}.get(axes, "0123")
    for axis in range(axes):
        position = [0] * axes
        position[axis] = 3
        moved = at([position], dim=16, **rule, output="angles")["angles"][0] != 0
        assert "".join(np.where(moved, names[axis], ".")) == "".join(
            letter if letter == names[axis] else "." for letter in letters
        )


def turned(x: Array, tables: dict[str, Array], first: Array, second: Array) -> Array:
    """The rotation by its definition, pair by pair."""
    out = x * tables["cos"]
    out[..., first] -= x[..., second] * tables["sin"][..., first]
    out[..., second] += x[..., first] * tables["sin"][..., second]
    return out


HALF, INTERLEAVED = (np.arange(8), np.arange(8, 16)), (np.arange(0, 16, 2), np.arange(1, 16, 2))


@pytest.mark.parametrize("rule", RULES[:-1], ids=lambda rule: rule.get("section_rule", "chunked"))
@pytest.mark.parametrize(("pairing", "members"), [("half", HALF), ("interleaved", INTERLEAVED)])
def test_a_rotation_keeps_norms_and_depends_on_differences_alone(
    rule: dict[str, Any], pairing: str, members: tuple[Array, Array]
) -> None:
    random = np.random.default_rng(3)
    axes = len(rule["sections"])
    here, there, shift = random.integers(0, 50, (3, 4, axes))
    q, k = random.standard_normal((2, 4, 16))

    def tables(positions: Array) -> dict[str, Array]:
        return at(positions, dim=16, **rule, pairing=pairing, dtype="float64")

    close(np.linalg.norm(turned(q, tables(here), *members), axis=1), np.linalg.norm(q, axis=1), 1e-13)
    products = [
        np.sum(turned(q, tables(here + by), *members) * turned(k, tables(there + by), *members), axis=1)
        for by in (shift * 0, shift)
    ]
    close(products[0], products[1], 1e-12)


def test_half_per_axis_is_half_within_each_section() -> None:
    positions = np.array([[3, 5], [11, 2]])
    both = at(positions, dim=16, sections=(4, 4), frequencies="per-axis", pairing="half-per-axis")
    for axis in (0, 1):
        one = answer("encodings/rope", {"positions": positions[:, axis]}, dim=8)
        assert np.array_equal(both["cos"][:, 8 * axis : 8 * axis + 8], one["cos"])
    q = np.random.default_rng(1).standard_normal((2, 16))
    first = np.concatenate([np.arange(4), np.arange(8, 12)])
    close(np.linalg.norm(turned(q, both, first, first + 4), axis=1), np.linalg.norm(q, axis=1), 1e-6)


def test_hunyuan_vl_is_no_rotation_and_says_so() -> None:
    q = np.random.default_rng(1).standard_normal((1, 16))
    doubled = at([[1, 2, 3, 4]], dim=16, sections=(2, 2, 2, 2), section_rule="doubled", dtype="float64")
    assert abs(np.linalg.norm(turned(q, doubled, *HALF)) - np.linalg.norm(q)) > 1e-3
    equal = at([[5, 5, 5, 5]], dim=16, sections=(2, 2, 2, 2), section_rule="doubled", dtype="float64")
    close(np.linalg.norm(turned(q, equal, *HALF)), np.linalg.norm(q), 1e-13)
    (note,) = notes(dim=16, sections=(2, 2, 2, 2), section_rule="doubled")
    assert "no rotation" in note


def test_v_jepa_2_turns_neighbours_by_tables_of_halves_and_is_no_rotation() -> None:
    q = np.random.default_rng(1).standard_normal((1, 24))
    tables = at([[1, 2, 3]], dim=24, sections=(4, 4, 4), frequencies="per-axis", pairing="half-per-axis",
                dtype="float64")  # fmt: skip
    neighbours = np.arange(0, 24, 2), np.arange(1, 24, 2)
    assert abs(np.linalg.norm(turned(q, tables, *neighbours)) - np.linalg.norm(q)) > 1e-3


# Grids


def test_a_grid_is_its_positions_row_by_row() -> None:
    common: dict[str, Any] = {"dim": 24, "sections": (4, 4, 4), "frequencies": "per-axis", "offset": 1}
    grid = answer(ROPE_AXES, **common, grid=(2, 3, 4))
    cells = np.stack([axis.reshape(-1) for axis in np.indices((2, 3, 4))], axis=-1) + 1
    del common["offset"]
    listed = at(cells, **common)
    assert np.array_equal(grid["cos"], listed["cos"])
    assert np.array_equal(grid["sin"], listed["sin"])


def test_patches_in_blocks_in_loops() -> None:
    expected = [
        (frame, 2 * block_row + row, 2 * block_column + column)
        for frame in range(2) for block_row in range(2) for block_column in range(3)
        for row in range(2) for column in range(2)
    ]  # fmt: skip
    common: dict[str, Any] = {"dim": 6, "sections": (1, 1, 1), "frequencies": "per-axis", "output": "angles"}
    got = only(ROPE_AXES, **common, grid=(2, 4, 6), spatial_merge_size=2)
    assert got.tolist() == [list(each) for each in expected]


@pytest.mark.parametrize(
    ("parameters", "rows", "columns"),
    [
        ({"coordinates": "integer"}, [0, 1], [0, 1, 2]),
        ({"coordinates": "centred"}, [-1, 0], [-2, -1, 0]),
        ({"coordinates": "centred", "offset": 10}, [9, 10], [8, 9, 10]),
        ({"coordinates": "unit-centres"}, [-1 / 2, 1 / 2], [-2 / 3, 0, 2 / 3]),
        ({"coordinates": "unit-ends"}, [-1, 1], [-1, 0, 1]),
        ({"base_size": (8, 12)}, [0, 4], [0, 4, 8]),
        ({"coordinates": "floor", "base_size": (5, 7)}, [0, 2], [0, 2, 4]),
        ({"interpolation_scale": (2.0, 0.5)}, [0, 0.5], [0, 2, 4]),
        ({"interpolation_scale": (4.0,)}, [0, 0.25], [0, 0.25, 0.5]),
        (
            {"coordinates": "share", "base_size": (8, 5), "interpolation_scale": (0.5, 3.125)},
            [-0.5, -0.25],
            [-0.5, -0.436, -0.372],
        ),
    ],
)
def test_coordinates(parameters: dict[str, Any], rows: list[float], columns: list[float]) -> None:
    got = only(ROPE_AXES, dim=4, sections=(1, 1), frequencies="per-axis", output="angles", dtype="float64",
               grid=(2, 3), **parameters)  # fmt: skip
    close(got, [[row, column] for row in rows for column in columns], 1e-15)


def test_a_line_of_one_patch_lies_where_a_linspace_of_one_does() -> None:
    common: dict[str, Any] = {"dim": 4, "sections": (1, 1), "frequencies": "per-axis", "output": "angles"}
    assert only(ROPE_AXES, **common, grid=(1, 2), coordinates="unit-ends").tolist() == [[-1, -1], [-1, 1]]
    assert only(ROPE_AXES, **common, grid=(1, 2), coordinates="unit-centres").tolist() == [[0, -0.5], [0, 0.5]]


@pytest.mark.parametrize(("place", "row"), [("first", 0), ("last", 4)])
def test_a_class_token_is_not_turned(place: str, row: int) -> None:
    common: dict[str, Any] = {"dim": 8, "sections": (2, 2), "frequencies": "per-axis", "grid": (2, 2), "offset": 1}
    got = answer(ROPE_AXES, **common, class_token=place)
    assert got["cos"].shape == (5, 8)
    assert (got["cos"][row] == 1).all()
    assert (got["sin"][row] == 0).all()
    assert np.array_equal(np.delete(got["cos"], row, axis=0), answer(ROPE_AXES, **common)["cos"])


@pytest.mark.parametrize("rest", ["first", "last"])
def test_channels_that_do_not_turn(rest: str) -> None:
    common: dict[str, Any] = {"dim": 10, "rotary_dim": 8, "sections": (2, 2), "grid": (2, 3)}
    plain, beside = answer(ROPE_AXES, **common), answer(ROPE_AXES, **common, rest=rest)
    where = slice(2, None) if rest == "first" else slice(None, 8)
    still = slice(0, 2) if rest == "first" else slice(8, None)
    for name, value in (("cos", 1), ("sin", 0)):
        assert np.array_equal(beside[name][:, where], plain[name])
        assert (beside[name][:, still] == value).all()


def test_a_stretched_base_in_float32_steps() -> None:
    """Cosmos: the base of an axis is a float64 power, and from there on all is float32."""
    got = only(ROPE_AXES, dim=128, sections=(22, 21, 21), frequencies="per-axis", ntk_factor=(2.0, 1.0, 1.0),
               arithmetic="float32", output="frequencies")  # fmt: skip
    bases = {44: 10000 * 2 ** (44 / 42), 42: 10000.0}
    expected = np.concatenate([
        1 / np.power(np.float64(bases[width]), np.arange(0, width, 2) / width) for width in (44, 42, 42)
    ])  # fmt: skip
    assert ulps_apart(got, expected.astype(np.float32)).max() <= 6
    close(got[:2], [1, float(np.float32(1 / bases[44] ** (2 / 44)))], 1e-7)


# What is said, and what is refused


def test_notes_and_resolved_parameters() -> None:
    assert notes(dim=8, sections=(2, 2)) == []
    assert "float32 step by step" in notes(dim=8, sections=(2, 2), arithmetic="float32")[0]
    assert "llama.cpp" in notes(dim=8, sections=(2, 2), arithmetic="ggml")[0]
    assert notes(dim=8, sections=(2, 2), output="angles", columns="half") == [
        "columns has no effect with output=angles"
    ]
    params = SCHEME.params(dim=8, sections=(2, 2), class_token="first", offset=1)
    assert SCHEME.notes(params, {"positions": np.zeros((1, 2))}) == [
        "offset has no effect with positions in the body",
        "class_token has no effect with positions in the body",
    ]
    shares = SCHEME.params(dim=8, sections=(2, 2), coordinates="share", base_size=(4, 4), interpolation_scale=(0.5,))
    assert [note.split()[0] for note in SCHEME.notes(shares, {"positions": np.zeros((1, 2))})] == [
        "coordinates", "base_size", "interpolation_scale"
    ]  # fmt: skip
    assert SCHEME.resolve(SCHEME.params(dim=8, sections=(2, 2)), {}).rotary_dim == 8


GRID: dict[str, Any] = {"grid": (2, 3)}


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({}, "grid", "missing"),
        ({"grid": (2, 3, 4)}, "grid", "shape"),
        ({"grid": (2**40, 2**40)}, "grid", "out_of_range"),
        ({"dim": 7, **GRID}, "dim", "odd"),
        ({"rotary_dim": 10, **GRID}, "rotary_dim", "out_of_range"),
        ({"rotary_dim": 7, **GRID}, "rotary_dim", "odd"),
        ({"section_order": (0, 0), **GRID}, "section_order", "value"),
        ({"section_order": (0,), **GRID}, "section_order", "value"),
        ({"section_rule": "alternating", "sections": (3, 1), **GRID}, "sections", "value"),
        ({"section_rule": "spatial-first", **GRID}, "sections", "value"),
        ({"section_rule": "interleaved-ggml", **GRID}, "sections", "value"),
        ({"section_rule": "doubled", "columns": "half", **GRID}, "section_rule", "conflict"),
        ({"section_rule": "doubled", "pairing": "interleaved", **GRID}, "section_rule", "conflict"),
        ({"pairing": "half-per-axis", "section_rule": "alternating", **GRID}, "pairing", "conflict"),
        ({"ntk_factor": (2.0,), **GRID}, "ntk_factor", "conflict"),
        ({"ntk_factor": (2.0, 1.0, 1.0), "frequencies": "per-axis", **GRID}, "ntk_factor", "shape"),
        ({"frequencies": "linear", **GRID}, "max_frequency", "missing"),
        ({"max_frequency": 5.0, **GRID}, "max_frequency", "conflict"),
        ({"base": 1e100, "frequencies": "rising", **GRID}, "base", "out_of_range"),
        ({"base": 0.5, "arithmetic": "float32", **GRID}, "base", "out_of_range"),
        ({"arithmetic": "float32", "frequencies": "rising", **GRID}, "arithmetic", "conflict"),
        ({"arithmetic": "ggml", "frequencies": "strided", **GRID}, "arithmetic", "conflict"),
        ({"arithmetic": "ggml", "frequencies": "per-axis", "ntk_factor": (2.0,), **GRID}, "arithmetic", "conflict"),
        ({"arithmetic": "float32", "coordinates": "unit-ends", **GRID}, "arithmetic", "conflict"),
        ({"arithmetic": "float32", "interpolation_scale": (2.0,), **GRID}, "arithmetic", "conflict"),
        ({"coordinates": "floor", **GRID}, "base_size", "missing"),
        ({"coordinates": "share", **GRID}, "base_size", "missing"),
        (
            {"coordinates": "share", "base_size": (8, 8), "interpolation_scale": (0.1,), **GRID},
            "interpolation_scale",
            "value",
        ),
        ({"interpolation_scale": (2.0, 1.0, 1.0), **GRID}, "interpolation_scale", "shape"),
        ({"arithmetic": "float32", "coordinates": "share", "base_size": (8, 8), **GRID}, "arithmetic", "conflict"),
        ({"coordinates": "share", "base_size": (8, 8), "offset": 1, **GRID}, "offset", "conflict"),
        ({"coordinates": "floor", "base_size": (2, 2**40), "grid": (2, 2**20)}, "base_size", "out_of_range"),
        (
            {"coordinates": "floor", "base_size": (2, 2**20), "output": "angles", "dtype": "float16", **GRID},
            "dtype",
            "out_of_range",
        ),
        ({"base_size": (2,), **GRID}, "base_size", "shape"),
        ({"coordinates": "unit-ends", "offset": 1, **GRID}, "offset", "conflict"),
        ({"spatial_merge_size": 2, **GRID}, "spatial_merge_size", "value"),
        ({"rest": "first", "output": "angles", **GRID}, "rest", "conflict"),
        ({"rest": "last", "columns": "half", **GRID}, "rest", "conflict"),
        ({"output": "angles", "dtype": "float16", "grid": (2, 2**39)}, "dtype", "out_of_range"),
        ({"output": "frequencies", "dtype": "float16", "frequencies": "rising", "base": 1e9}, "dtype", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ROPE_AXES, **{"dim": 8, "sections": (2, 2), **parameters})
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize(
    ("positions", "parameters", "named", "code"),
    [
        ([[1, 2]], GRID, "grid", "conflict"),
        ([[1, 2, 3]], {}, "/positions", "shape"),
        ([1, 2], {}, "/positions", "shape"),
        ([[1.0, 1e16]], {}, "/positions/0/1", "out_of_range"),
    ],
)
def test_positions_that_are_refused(positions: Any, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ROPE_AXES, {"positions": np.array(positions)}, dim=8, sections=(2, 2), **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_a_large_position_may_be_too_much_for_angles_in_float16() -> None:
    fault = refused(ROPE_AXES, {"positions": np.array([[1, 10**6]])}, dim=8, sections=(2, 2), output="angles",
                    dtype="float16")  # fmt: skip
    assert (fault.parameter, fault.code) == ("dtype", "out_of_range")
