"""The two-stage rule for tables made with float32 throughout, and the one-stage rule for exact ones.

PyTorch's inverse frequencies differ by up to two ulp between CPUs, and a position multiplies that
difference: a single tolerance from end to end would have to be so loose at position 131071 that it would
let anything pass. So:

 (i)   the inverse frequencies are compared by ulp;
 (ii)  the tables are compared where the inverse frequencies are the same bits: then the angle is the same
       float32 and only the last rounding of cos and sin differs, by one ulp;
 (iii) `arithmetic=exact` is compared with the real-number formula rounded once, for equality.
"""

from collections.abc import Sequence

import numpy as np

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import POSITIONS, Table
from tests.oracles import oracle_rope
from tests.oracles.answers import Query, asked
from tests.oracles.exact import from_bfloat16_bits, rounded, rounded_rows, ulps_apart

ROPE = "/v1/encodings/rope"


def parameters(case: Table) -> dict[str, Query]:
    """The service's parameters for a library's rotary module."""
    given: dict[str, Query] = {"dim": case.head_dim, "base": case.base}
    if case.partial_rotary_factor != 1:
        given["partial_rotary_factor"] = case.partial_rotary_factor
    return given


def of_case(numbers: Numbers, name: str) -> Numbers:
    """The frozen arrays of one case, without its prefix."""
    return {key.removeprefix(f"{name}."): array for key, array in numbers.items() if key.startswith(f"{name}.")}


def check_frequencies(client: Client, case: Table, frozen: Numbers) -> None:
    """(i): two ulp at most in float32 arithmetic, and the real numbers rounded once in exact arithmetic."""
    ours = asked(client, ROPE, **parameters(case), output="frequencies", arithmetic="float32")
    assert ours["frequencies"].shape == (case.rotary_dim // 2,)
    assert ulps_apart(ours["frequencies"], frozen["inv_freq"]).max() <= 2

    exact = oracle_rope.frequencies(case.rotary_dim, case.base)
    for dtype in ("float32", "float16", "bfloat16"):
        shown = asked(client, ROPE, **parameters(case), output="frequencies", dtype=dtype)
        assert shown["frequencies"].tolist() == [rounded(value, dtype) for value in exact], dtype


def check_library(frozen: Numbers) -> None:
    """(ii) without the service: the library's tables follow from its inverse frequencies by the recipe."""
    angles = POSITIONS.astype(np.float32)[:, None] * frozen["inv_freq"]
    assert angles.dtype == np.float32
    for name, wave in {"cos": np.cos, "sin": np.sin}.items():
        recomputed = wave(angles.astype(np.float64)).astype(np.float32)
        assert np.abs(recomputed.astype(np.float64) - frozen[name]).max() <= 1.2e-7


def check_float32_tables(client: Client, case: Table, frozen: Numbers) -> None:
    """(ii): one ulp where the inverse frequencies are the same bits, which most must be."""
    wanted: dict[str, Query] = {**parameters(case), "positions": POSITIONS.tolist(), "columns": "half"}
    wanted["arithmetic"] = "float32"
    ours = asked(client, ROPE, **parameters(case), output="frequencies", arithmetic="float32")
    same = ours["frequencies"] == frozen["inv_freq"]
    assert same.mean() > 0.75
    tables = asked(client, ROPE, **wanted)
    bfloat16 = asked(client, ROPE, **wanted, dtype="bfloat16")
    for name in ("cos", "sin"):
        assert ulps_apart(tables[name][:, same], frozen[name][:, same]).max() <= 1
        # One rounding to bfloat16 of equal float32 numbers is equal; the library's bits are beside it.
        equal = tables[name] == frozen[name]
        assert equal.mean() > 0.75
        assert (bfloat16[name] == from_bfloat16_bits(frozen[f"{name}_bfloat16"]))[equal].all()


def check_exact_tables(client: Client, case: Table, positions: Sequence[int]) -> None:
    """(iii): the correctly rounded real-number tables in the three narrow dtypes, one ulp in float64."""
    rows = [oracle_rope.cos_sin(position, case.rotary_dim, case.base) for position in positions]
    exact = {"cos": [cos for cos, _ in rows], "sin": [sin for _, sin in rows]}
    wanted: dict[str, Query] = {**parameters(case), "positions": list(positions), "columns": "half"}
    for dtype in ("float32", "float16", "bfloat16"):
        tables = asked(client, ROPE, **wanted, dtype=dtype)
        for name, table in exact.items():
            assert np.array_equal(tables[name], rounded_rows(table, dtype)), (name, dtype)
    tables = asked(client, ROPE, **wanted, dtype="float64")
    for name, table in exact.items():
        assert ulps_apart(tables[name], rounded_rows(table, "float64"), "float64").max() <= 1
