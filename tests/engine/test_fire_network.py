"""FIRE's network: a bent line against its definition at many digits, and its weights."""

from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.networks import MOST_WEIGHTS, NETWORK, Network, bent
from service.engine.numbers.pairs import Pair
from service.engine.numbers.random_numbers import uniform
from tests.engine.answers import Array, answer, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS

FIRE = "biases/fire"
RANDOM = np.random.default_rng(5)


def weights(heads: int, hidden: int) -> dict[str, Array]:
    """Weights with zeros among them, so that some units never bend and some bend at 0."""
    drawn = {
        "weight_in": RANDOM.standard_normal(hidden),
        "bias_in": RANDOM.standard_normal(hidden),
        "weight_out": RANDOM.standard_normal((heads, hidden)),
        "bias_out": RANDOM.standard_normal(heads),
    }
    drawn["weight_in"][::5] = 0
    drawn["bias_in"][::4] = 0
    return drawn


def by_definition(network: dict[str, Array], head: int, x: mpf) -> mpf:
    hidden = zip(network["weight_in"].tolist(), network["bias_in"].tolist(), strict=True)
    active = [max(mpf(w) * x + mpf(b), mpf(0)) for w, b in hidden]
    last = network["weight_out"][head].tolist()
    return mpmath.fsum(mpf(v) * h for v, h in zip(last, active, strict=True)) + mpf(float(network["bias_out"][head]))


@pytest.mark.parametrize("hidden", [1, 7, 40])
def test_a_bent_line_is_the_network(hidden: int) -> None:
    network = weights(3, hidden)
    lines = bent(Network(**network))
    at = np.concatenate([[0.0, 1.0, 1e-9, 1e6], lines.places, np.abs(RANDOM.standard_normal(60))])
    with mpmath.workprec(PRECISION_BITS):
        for head in range(3):
            got = lines.of(Pair(at, np.zeros_like(at)), head)
            for x, high, low in zip(at.tolist(), got.high.tolist(), got.low.tolist(), strict=True):
                scale = 1 + sum(abs(float(v)) for array in network.values() for v in array.ravel()) * (1 + abs(x))
                assert abs(mpf(high) + mpf(low) - by_definition(network, head, mpf(x))) <= scale * mpf(2) ** -52


def share(query: int, key: int, c: float, threshold: float, eps: float) -> mpf:
    far = mpmath.log(1 + mpf(c) * max(query, mpf(threshold))) + mpf(eps)
    return mpmath.log(1 + mpf(c) * abs(query - key)) / far


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "chosen",
    [{"queries": 4, "keys": 7, "threshold": 4.5}, {"queries": 3, "keys": 5, "offset": 900, "c": 0.7, "eps": 1e-6}],
)
def test_biases_are_the_network_of_the_distances(chosen: dict[str, float], dtype: str) -> None:
    network = weights(3, 9)
    got = only(FIRE, network, output="bias", dtype=dtype, **chosen)
    heads, queries, keys = got.shape
    assert heads == 3
    first = int(chosen.get("offset", keys - queries))
    c, threshold, eps = (float(chosen.get(name, usual)) for name, usual in (("c", 0.1), ("threshold", 512), ("eps", 0)))
    with mpmath.workprec(PRECISION_BITS):
        for head in range(heads):
            rows = [
                [by_definition(network, head, share(first + i, j, c, threshold, eps)) for j in range(keys)]
                for i in range(queries)
            ]
            assert_rounded_once(got[head], rows, dtype)


def test_drawn_weights_are_pytorchs_distribution_and_what_the_bias_is_made_of() -> None:
    drawn = answer(FIRE, output="weights", heads=5, hidden=400, seed=9, dtype="float64")
    assert {name: array.shape for name, array in drawn.items()} == {
        "weight_in": (400,),
        "bias_in": (400,),
        "weight_out": (5, 400),
        "bias_out": (5,),
    }
    for name, bound in (("weight_in", 1), ("bias_in", 1), ("weight_out", 0.05), ("bias_out", 0.05)):
        assert np.abs(drawn[name]).max() < bound
        assert drawn[name].size < 9 or abs(drawn[name].std() - bound / 3**0.5) < bound / 12
    first = 2 * uniform(9, range(1), 400)[0] - 1
    np.testing.assert_array_equal(drawn["weight_in"], first)
    seeded = only(FIRE, length=6, output="bias", heads=5, hidden=400, seed=9)
    np.testing.assert_array_equal(seeded, only(FIRE, drawn, length=6, output="bias"))
    assert not np.array_equal(seeded, only(FIRE, length=6, output="bias", heads=5, hidden=400, seed=10))


def test_many_heads_draw_no_more_than_their_weights() -> None:
    wide = answer(FIRE, output="weights", heads=MOST_WEIGHTS, hidden=1, seed=9)
    assert wide["weight_out"].shape == (MOST_WEIGHTS, 1)
    few = answer(FIRE, output="weights", heads=3, hidden=1, seed=9)
    np.testing.assert_array_equal(few["weight_out"], wide["weight_out"][:3])


def test_facts_notes_and_what_is_shared() -> None:
    scheme = by_key("biases", "fire")
    params = scheme.params(length=3, output="bias", heads=2, seed=0)
    network = {"heads": 2, "hidden": 32, "network_bytes_per_head": 132}
    plane = {"queries": 3, "keys": 3, "offset": 0, "bias_bytes_per_head": 36}
    assert scheme.facts(params, {}) == plane | network
    half = scheme.params(length=3, output="bias", heads=2, seed=0, dtype="float16")
    assert scheme.facts(half, {})["bias_bytes_per_head"] == 18
    assert scheme.facts(scheme.params(output="weights", heads=2, seed=0), {}) == network
    assert scheme.notes(params, {}) == []
    own = weights(2, 4)
    assert scheme.notes(scheme.params(length=3, output="bias", hidden=5), own) == [
        "hidden has no effect with weights of your own"
    ]
    unused = scheme.params(length=3, seed=1, output="distance")
    assert scheme.notes(unused, {}) == ["seed has no effect with output=distance"]
    outputs = [({}, {}, "distance"), ({"seed": 1, "heads": 2}, {}, "bias"), ({}, own, "bias")]
    for chosen, brought, used in outputs:
        assert scheme.resolve(scheme.params(length=3, **chosen), brought).output == used
    assert scheme.sequence(params, {}) is not None
    assert scheme.sequence(scheme.params(length=3, output="bias"), own) is None
    assert scheme.sequence(scheme.params(output="weights", heads=2, seed=0), {}) is None
    weights_only = scheme.params(output="weights", heads=2, seed=0)
    assert scheme.resolve(weights_only, {}) == weights_only
    assert scheme.state_bytes(params, {}) > scheme.state_bytes(scheme.params(length=3), {}) == 0


@pytest.mark.parametrize(
    ("parameters", "inputs", "named", "code"),
    [
        ({"output": "bias", "length": 3}, {}, "seed", "missing"),
        ({"output": "bias", "length": 3, "seed": 1}, {}, "heads", "missing"),
        ({"output": "bias", "length": 3, "seed": 1, "heads": 2, "dtype": "float64"}, {}, "dtype", "conflict"),
        ({"output": "bias", "length": 3, "seed": 1}, weights(2, 3), "seed", "conflict"),
        ({"output": "bias", "length": 3, "seed": 1, "heads": 300, "hidden": 100}, {}, "heads", "too_large"),
        ({"output": "bias", "length": 3}, weights(300, 100), "/tensors/weight_out", "too_large"),
        ({"output": "bias", "length": 3, "heads": 4}, weights(2, 3), "/tensors/weight_out", "shape"),
        ({"output": "bias", "length": 3}, {"bias_in": np.ones(3)}, "/tensors/weight_in", "missing"),
        ({"output": "bias", "length": 3}, weights(2, 3) | {"bias_in": np.ones(4)}, "/tensors/bias_in", "shape"),
        ({"output": "bias", "length": 3}, weights(2, 3) | {"bias_out": np.ones(3)}, "/tensors/bias_out", "shape"),
        ({"output": "bias", "length": 3}, weights(2, 3) | {"weight_out": np.ones(3)}, "/tensors/weight_out", "shape"),
        ({"length": 3, "output": "distance"}, weights(2, 3), "output", "conflict"),
        (
            {"output": "bias", "length": 3, "dtype": "float16"},
            weights(2, 3) | {"bias_out": np.array([1e5, 0])},
            "dtype",
            "out_of_range",
        ),
        (
            {"output": "weights", "dtype": "float16"},
            weights(2, 3) | {"bias_out": np.array([1e5, 0])},
            "dtype",
            "out_of_range",
        ),
    ],
)
def test_refusals(parameters: dict[str, Any], inputs: dict[str, Array], named: str, code: str) -> None:
    fault = refused(FIRE, inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
    if code == "too_large":
        assert (fault.limit, fault.requested) == (MOST_WEIGHTS, 30_000)


def test_the_names_are_those_of_the_inputs() -> None:
    assert [array.name for array in by_key("biases", "fire").inputs] == list(NETWORK)
