"""The analyses again, with loops and sixty digits, and their laws."""

import io
from fractions import Fraction
from types import ModuleType
from typing import Any, NoReturn

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from service.engine import by_key
from service.engine.analyses import attention as attention_module
from service.engine.analyses import decay as decay_module
from service.engine.analyses import extrapolation as extrapolation_module
from service.engine.analyses import shift as shift_module
from service.engine.analyses import similarity as similarity_module
from service.engine.scheme import Usage
from tests.api.problems import refused
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.oracles.answers import Query, asked, asked_in_json, posted, posted_json
from tests.oracles.exact import as_fraction, spacing
from tests.oracles.usages import proves

Reals = list[mpf] | list[Fraction]
SIMILARITY, DECAY, SHIFT = "/v1/analyses/similarity", "/v1/analyses/decay", "/v1/analyses/shift"
NORM, PERMUTATION = "/v1/analyses/norm", "/v1/analyses/permutation"
EXTRAPOLATION, ATTENTION = "/v1/analyses/extrapolation", "/v1/analyses/attention"
BINARY = {"Content-Type": "application/octet-stream"}


def faithful(answered: NDArray[Any], expected: Reals, dtype: str = "float32") -> None:
    """Every value within one unit in the last place of the real one."""
    values = answered.astype(np.float64).ravel().tolist()
    assert len(values) == len(expected)
    for value, real in zip(values, expected, strict=True):
        exact = as_fraction(real)
        assert abs(Fraction(value) - exact) <= spacing(abs(exact), dtype), (value, real)


def frequencies(dim: int, base: float = 1e4, shift: float = 0) -> list[mpf]:
    return [mpf(base) ** (-mpf(k) / (mpf(dim) / 2 - mpf(shift))) for k in range(dim // 2)]


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def faulty(client: Client, address: str, array: NDArray[Any] | None = None) -> str:
    """What is refused: a parameter, or a place in the body."""
    answer = client.get(address) if array is None else client.post(address, content=npy(array), headers=BINARY)
    fault = refused(answer, "invalid-parameters")["errors"][0]
    return str(fault.get("parameter") or fault["pointer"])


# What libraries compute


@proves("analyses/similarity", {"Sinusoidal tables of the paper": "distilbert_d96"})
def test_similarity_is_that_of_a_librarys_table(direct: Client, sinusoidal: Numbers, usage: Usage, oracle: str) -> None:
    table, at = sinusoidal[f"{oracle}.table"].astype(np.float64), sinusoidal[f"{oracle}.positions"].astype(int)
    answered = asked(direct, SIMILARITY, length=512, dim=table.shape[1], **usage.parameters)["similarity"]
    # The module computes in float64 and rounds its table to float32.
    assert np.allclose(answered[np.ix_(at, at)], table @ table.T, rtol=0, atol=table.shape[1] * 2.0**-24)


@proves(
    "analyses/decay",
    {"RoFormer, Llama 2, GPT-NeoX (base 10000)": ("llama_d80", 80), "Llama 3 (base 500000)": ("llama31", 128)},
)
def test_decay_is_that_of_a_librarys_frequencies(
    direct: Client, rope: Numbers, usage: Usage, oracle: tuple[str, int]
) -> None:
    name, dim = oracle
    speeds = rope[f"{name}.inv_freq"].astype(np.float64)
    answered = asked(direct, DECAY, length=40, dim=dim, **usage.parameters)["score"]
    assert np.allclose(answered, np.cos(np.arange(40)[:, None] * speeds).mean(axis=1), rtol=0, atol=40 * 2.0**-22)


@proves("analyses/decay", {"ALiBi, as BLOOM and MPT have it": ("bloom", "mpt")})
def test_decay_is_that_of_a_librarys_slopes(
    direct: Client, alibi: Numbers, usage: Usage, oracle: tuple[str, str]
) -> None:
    answered = asked(direct, DECAY, length=40, heads=6, **usage.parameters)["score"]
    for library in oracle:
        slopes = alibi[f"{library}.6.slopes"]
        assert np.allclose(answered, -slopes[:, None] * np.arange(40), rtol=6 * 2.0**-24, atol=0)


@proves(
    "analyses/shift",
    {
        "Sinusoidal tables of the paper": "distilbert_d96",
        "tensor2tensor, fairseq and Marian: all sines, then all cosines": "marian_d128",
    },
)
def test_the_matrix_shifts_a_librarys_table(direct: Client, sinusoidal: Numbers, usage: Usage, oracle: str) -> None:
    table, at = sinusoidal[f"{oracle}.table"].astype(np.float64), sinusoidal[f"{oracle}.positions"].astype(int)
    for start, row in zip(at[:-1].tolist(), table, strict=False):
        for stop, after in zip(at.tolist(), table, strict=True):
            chosen: dict[str, Query] = {"dim": table.shape[1], "shift": stop - start, "length": 1}
            matrix = asked(direct, SHIFT, **chosen, **usage.parameters)["matrix"]
            assert np.allclose(matrix @ row, after, rtol=0, atol=2.0**-22)


@proves(
    "analyses/norm",
    {
        "The encodings of the paper and of RoFormer, in Hugging Face form": "half",
        "The same with the pairs of GPT-J and of Meta's Llama": "interleaved",
    },
)
def test_the_norms_of_what_libraries_add_and_turn(
    direct: Client, sinusoidal: Numbers, rope: Numbers, usage: Usage, oracle: str
) -> None:
    x = np.random.default_rng(9).standard_normal((3, 96))
    answered = posted(direct, NORM, {"x": x}, **usage.parameters)
    added = x + sinusoidal["distilbert_d96.table"][:3].astype(np.float64)
    cos, sin = (rope[f"llama_d96.{wave}"][:3, :48].astype(np.float64) for wave in ("cos", "sin"))
    a, b = (x[:, :48], x[:, 48:]) if oracle == "half" else (x[:, 0::2], x[:, 1::2])
    turned_a, turned_b = a * cos - b * sin, b * cos + a * sin
    dot = (a * turned_a + b * turned_b).sum(axis=1)
    norm = np.linalg.norm(x, axis=1)
    assert np.allclose(answered["sinusoidal_norm"], np.linalg.norm(added, axis=1), rtol=2.0**-21, atol=0)
    assert np.allclose(answered["rope_norm"], norm, rtol=2.0**-23, atol=0)
    assert np.allclose(answered["rope_cosine"], dot / norm**2, rtol=0, atol=2.0**-21)


@proves("analyses/permutation", {"Attention with and without the sinusoidal encoding of the paper": "distilbert_d96"})
def test_attention_with_a_librarys_table(direct: Client, sinusoidal: Numbers, usage: Usage, oracle: str) -> None:
    x = np.random.default_rng(8).standard_normal((3, 96))
    answered = posted(direct, PERMUTATION, {"x": x}, **usage.parameters)
    assert np.allclose(answered["plain"], attention(x), rtol=0, atol=2.0**-22)
    assert np.allclose(answered["encoded"], attention(x + sinusoidal[f"{oracle}.table"][:3]), rtol=0, atol=2.0**-18)


@proves(
    "analyses/extrapolation",
    {"Llama 2, GPT-NeoX (base 10000)": ("llama_d96", 1e4), "Llama 3 (base 500000)": ("llama_d96", 5e5)},
)
def test_angles_of_a_librarys_frequencies(
    direct: Client, rope: Numbers, usage: Usage, oracle: tuple[str, float]
) -> None:
    name, base = oracle
    # The series of another base is the power of the one that the library has.
    speeds = rope[f"{name}.inv_freq"].astype(np.float64) ** (np.log(base) / np.log(1e4))
    chosen: dict[str, Query] = {"dim": 96, "trained_length": 100, "length": 400, "dtype": "float64"}
    answered = asked(direct, EXTRAPOLATION, **chosen, **usage.parameters)
    assert np.allclose(answered["turns"][0], 399 * speeds / (2 * np.pi), rtol=2.0**-19, atol=0)
    whole = 99 * speeds >= 2 * np.pi
    assert (answered["unseen"][0][whole] == 0).all()
    assert (answered["unseen"][0][399 * speeds < 2 * np.pi] == 300 / 400).all()


@proves(
    "analyses/attention",
    {
        "The causal mask alone: NoPE": "none",
        "The fourth of eight heads with ALiBi": "alibi",
        "RoPE of a head of 128 channels": "rope",
    },
)
def test_attention_as_models_have_it(direct: Client, alibi: Numbers, usage: Usage, oracle: str) -> None:
    answered = asked(direct, ATTENTION, length=30, depth=3, **usage.parameters)["profile"]
    behind = np.arange(30)[:, None] - np.arange(30)
    speeds = 10000.0 ** -(np.arange(64) / 64)
    scores = {
        "none": 0.0 * behind,
        "alibi": -float(alibi["mpt.8.slopes"][3]) * behind,
        # Queries and keys of ones, turned, their product divided by sqrt(128).
        "rope": 2 * np.cos(behind[..., None] * speeds).sum(axis=-1) / np.sqrt(128),
    }[oracle]
    weights = np.where(behind >= 0, np.exp(scores), 0)
    layer = (weights / weights.sum(axis=1, keepdims=True) + np.eye(30)) / 2
    for depth in range(3):
        assert np.allclose(answered[depth], np.linalg.matrix_power(layer, depth + 1)[-1], rtol=2.0**-22, atol=0)


# Similarity


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("length", "dim", "base"), [(7, 6, 1e4), (5, 34, 1.5), (40, 128, 1e6)])
def test_similarity_is_a_sum_of_cosines_of_the_distance(
    direct: Client, dtype: str, length: int, dim: int, base: float
) -> None:
    for measure, scale in (("dot", 1), ("cosine", dim // 2)):
        answered = asked(direct, SIMILARITY, length=length, dim=dim, base=base, measure=measure, dtype=dtype)
        with mpmath.workdps(60):
            by_distance = [sum(mpmath.cos(d * w) for w in frequencies(dim, base)) / scale for d in range(length)]
        expected = [by_distance[abs(p - q)] for p in range(length) for q in range(length)]
        faithful(answered["similarity"], expected, dtype)


def test_similarity_of_a_table_is_its_dot_products(direct: Client) -> None:
    table = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    exact = [[Fraction(float(each)) for each in row] for row in table]
    dots = [sum((a * b for a, b in zip(p, q, strict=True)), Fraction(0)) for p in exact for q in exact]
    faithful(posted(direct, SIMILARITY, {"x": table}, dtype="float64")["similarity"], dots, "float64")
    cosines = posted(direct, SIMILARITY, {"x": table}, measure="cosine")["similarity"]
    norms = np.linalg.norm(table.astype(np.float64), axis=1)
    assert np.allclose(
        cosines, np.array(dots, np.float64).reshape(5, 5) / np.outer(norms, norms), rtol=3e-7, atol=1e-12
    )
    assert cosines.diagonal().tolist() == [1.0] * 5
    shown = posted_json(direct, SIMILARITY, {"tensors": {"x": table.tolist()}})
    assert shown["similarity"].tolist() == posted(direct, SIMILARITY, {"x": table})["similarity"].tolist()


def test_the_similarity_of_a_sinusoidal_table_is_that_of_its_rows(direct: Client) -> None:
    chosen: dict[str, Query] = {"length": 9, "dim": 12, "frequency_shift": 1}
    table = asked(direct, "/v1/encodings/sinusoidal", dtype="float64", **chosen)["encoding"]
    assert np.allclose(
        asked(direct, SIMILARITY, **chosen)["similarity"],
        posted(direct, SIMILARITY, {"x": table})["similarity"],
        rtol=2e-7,
        atol=0,
    )


def test_similarity_says_what_has_no_effect(direct: Client) -> None:
    answer = direct.post(f"{SIMILARITY}?base=500&length=9", content=npy(np.ones((2, 3))), headers=BINARY).json()
    assert answer["notes"] == [
        "length has no effect with a table in the body",
        "base has no effect with a table in the body",
    ]
    assert answer["facts"] == {"rows": 2, "channels": 3}
    assert asked_in_json(direct, SIMILARITY, length=2, dim=4)["facts"] == {"norm_squared": 2}


@pytest.mark.parametrize(("query", "parameter"), [("dim=4", "length"), ("length=4", "dim"), ("length=4&dim=5", "dim")])
def test_similarity_needs_a_length_and_an_even_width(direct: Client, query: str, parameter: str) -> None:
    assert faulty(direct, f"{SIMILARITY}?{query}") == parameter


def test_similarity_is_bounded(direct: Client) -> None:
    assert faulty(direct, f"{SIMILARITY}?length=32769&dim=128") == "length"
    assert asked(direct, f"{SIMILARITY}", length=2, dim=65536)["similarity"][0, 0] == 32768


@pytest.mark.parametrize(
    ("query", "array", "place"),
    [
        ("", np.ones((2, 2, 2)), "/tensors/x"),
        ("", np.ones(3), "/tensors/x"),
        ("", np.array([[1.0, np.inf]]), "/tensors/x"),
        ("", np.array([[1.0, 1e30]]), "/tensors/x"),
        ("", np.ones((1025, 1)), "/tensors/x"),
        ("measure=cosine", np.array([[1.0, 2.0], [0.0, 0.0]]), "/tensors/x/1"),
    ],
)
def test_similarity_refuses_tables(direct: Client, query: str, array: NDArray[Any], place: str) -> None:
    assert faulty(direct, f"{SIMILARITY}?{query}", array) == place


# Decay


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("dim", "base"), [(6, 1e4), (80, 5e5)])
def test_the_decay_of_rope(direct: Client, dtype: str, dim: int, base: float) -> None:
    answered = asked(direct, DECAY, length=30, dim=dim, base=base, dtype=dtype)
    score, bound = [], []
    with mpmath.workdps(60):
        for distance in range(30):
            turns = [mpmath.expj(distance * w) for w in frequencies(dim, base)]
            score.append(mpmath.re(sum(turns)) / len(turns))
            bound.append(sum(abs(sum(turns[: j + 1])) for j in range(len(turns))) / len(turns))
    faithful(answered["score"], score, dtype)
    faithful(answered["bound"], bound, dtype)


def test_rope_and_sinusoids_of_one_width_decay_alike(direct: Client) -> None:
    rope = asked(direct, DECAY, length=300, dim=34)
    sinusoidal = asked(direct, DECAY, of="sinusoidal", length=300, dim=34)
    assert list(sinusoidal) == ["score"]
    assert sinusoidal["score"].tolist() == rope["score"].tolist()


def test_interpolated_scores_are_those_of_shorter_distances(direct: Client) -> None:
    plain = asked(direct, DECAY, length=25, dim=16, dtype="float64")["score"]
    scaled = asked(direct, DECAY, length=97, dim=16, dtype="float64", rope_type="linear", factor=4)["score"]
    assert np.allclose(scaled[::4], plain, rtol=1e-14, atol=1e-15)


def test_half_a_head_turns(direct: Client) -> None:
    half = asked(direct, DECAY, length=9, dim=32, rotary_dim=16)["score"]
    assert half.tolist() == asked(direct, DECAY, length=9, dim=16)["score"].tolist()


def test_the_decay_of_alibi_is_its_slopes(direct: Client) -> None:
    slopes = asked(direct, "/v1/biases/alibi-slopes", heads=6)["slopes"]
    answered = asked(direct, DECAY, of="alibi", length=20, heads=6)["score"]
    assert answered.tolist() == (-slopes[:, None] * np.arange(20, dtype=np.float32)).tolist()


def test_the_decay_of_t5_is_the_last_row_of_its_bias(direct: Client) -> None:
    chosen: dict[str, Query] = {"length": 150, "num_buckets": 16, "max_distance": 64, "direction": "causal"}
    table = np.random.default_rng(2).standard_normal((16, 3)).astype(np.float32)
    bias = posted(direct, "/v1/biases/t5", {"table": table}, **chosen)["bias"]
    answered = posted(direct, DECAY, {"table": table}, of="t5", heads=3, **chosen)["score"]
    assert answered.tolist() == bias[:, -1, ::-1].tolist()
    drawn = asked(direct, DECAY, of="t5", heads=3, seed=5, **chosen)["score"]
    assert drawn.tolist() == asked(direct, "/v1/biases/t5", heads=3, seed=5, **chosen)["bias"][:, -1, ::-1].tolist()


def test_decay_says_what_has_no_effect(direct: Client) -> None:
    assert asked_in_json(direct, DECAY, length=2, dim=8, heads=3)["notes"] == ["heads has no effect with of=rope"]
    shown = asked_in_json(direct, DECAY, of="alibi", length=2, heads=3, base=7, seed=1)
    assert shown["notes"] == ["seed has no effect with of=alibi", "base has no effect with of=alibi"]
    assert shown["facts"] == {"heads": 3}


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("length=2", "dim"),
        ("length=2&of=t5&seed=1", "heads"),
        ("length=2&of=sinusoidal&dim=7", "dim"),
        ("length=2&dim=7", "dim"),
        ("length=16385&dim=128", "length"),
        ("length=16777217&of=alibi&heads=1", "length"),
        ("length=2&of=t5&heads=1", "seed"),
        ("length=2&of=t5&heads=1&seed=1&num_buckets=3", "num_buckets"),
        ("length=2&dim=8&rope_type=linear", "factor"),
    ],
)
def test_decay_refuses(direct: Client, query: str, parameter: str) -> None:
    assert faulty(direct, f"{DECAY}?{query}") == parameter


def test_only_t5_has_a_table(direct: Client) -> None:
    answer = direct.post(f"{DECAY}?length=2&dim=8", content=npy(np.ones((2, 2))), headers=BINARY)
    assert answer.json()["notes"] == ["the table in the body has no effect with of=rope"]


# Shift


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("shift", "layout"), [(1, "interleaved"), (-3, "sin-cos"), (1000, "cos-sin"), (0, "sin-cos")])
def test_the_matrix_leads_from_each_position_to_the_next(direct: Client, dtype: str, shift: int, layout: str) -> None:
    chosen: dict[str, Query] = {"dim": 6, "layout": layout, "dtype": dtype}
    answered = asked(direct, SHIFT, shift=shift, length=11, offset=5, **chosen)
    matrix = answered["matrix"].astype(np.float64)
    here, there = (
        asked(direct, "/v1/encodings/sinusoidal", length=11, offset=at, **chosen)["encoding"].astype(np.float64)
        for at in (5, 5 + shift)
    )
    ulp = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    assert np.abs(here @ matrix.T - there).max() < 8 * ulp
    residual = np.array(
        [
            max(
                abs(
                    sum((Fraction(m) * Fraction(x) for m, x in zip(line, row, strict=True)), Fraction(0))
                    - Fraction(want)
                )
                for line, want in zip(matrix.tolist(), after, strict=True)
            )
            for row, after in zip(here.tolist(), there.tolist(), strict=True)
        ]
    )
    faithful(answered["residual"], residual.tolist(), dtype)
    assert np.abs(matrix @ matrix.T - np.eye(6)).max() < 4 * ulp


def test_shifts_add_up(direct: Client) -> None:
    one, two, three = (asked(direct, SHIFT, dim=34, shift=k, dtype="float64")["matrix"] for k in (1, 2, 3))
    assert np.allclose(one @ two, three, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("dim=7", "dim"),
        ("dim=4098", "dim"),
        ("dim=8&length=300000", "length"),
        (f"dim=8&shift={2**53}&offset=1", "shift"),
    ],
)
def test_shift_refuses(direct: Client, query: str, parameter: str) -> None:
    assert faulty(direct, f"{SHIFT}?{query}") == parameter


# Norm


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("offset", [0, 5, 10**6])
def test_what_adding_and_turning_do_to_a_vector(direct: Client, pairing: str, offset: int) -> None:
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    answered = posted(direct, NORM, {"x": x}, offset=offset, pairing=pairing)
    expected: dict[str, list[mpf]] = {name: [] for name in answered}
    with mpmath.workdps(60):
        for position, row in enumerate(x.tolist(), offset):
            before = [mpf(each) for each in row]
            turns = [(mpmath.sin(position * w), mpmath.cos(position * w)) for w in frequencies(6)]
            added = [a + b for a, b in zip(before, sum(turns, ()), strict=True)]
            turned = list(before)
            for k, (sine, cosine) in enumerate(turns):
                i, j = (k, k + 3) if pairing == "half" else (2 * k, 2 * k + 1)
                turned[i], turned[j] = before[i] * cosine - before[j] * sine, before[j] * cosine + before[i] * sine
            expected["norm"].append(mpmath.norm(before))
            for name, after in (("sinusoidal", added), ("rope", turned)):
                expected[f"{name}_norm"].append(mpmath.norm(after))
                dot = mpmath.fdot(before, after)
                expected[f"{name}_cosine"].append(dot / mpmath.norm(before) / mpmath.norm(after))
    for name, values in expected.items():
        faithful(answered[name], values)
    assert answered["rope_norm"].tolist() == answered["norm"].tolist()


def test_adding_changes_the_norm_and_turning_does_not(direct: Client) -> None:
    answered = posted(direct, NORM, {"x": np.array([[3.0, 4.0]])})
    # (3, 4) + (sin 0, cos 0) = (3, 5)
    assert answered["sinusoidal_norm"].tolist() == [np.float32(34**0.5)]
    assert answered["rope_norm"].tolist() == answered["norm"].tolist() == [5.0]


def test_what_is_added_away_has_no_direction(direct: Client) -> None:
    answered = posted(direct, NORM, {"x": np.array([[0.0, -1.0]])})
    assert answered["sinusoidal_norm"].tolist() == [0.0]
    assert answered["sinusoidal_cosine"].tolist() == [0.0]
    assert answered["rope_cosine"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("array", "place"),
    [
        (np.ones((2, 3)), "/tensors/x"),
        (np.ones(4), "/tensors/x"),
        (np.ones((2, 2, 2)), "/tensors/x"),
        (np.ones((2, 131074)), "/tensors/x"),
        (np.array([[np.nan, 1.0]]), "/tensors/x"),
        (np.array([[1.0, 1.0], [0.0, 0.0]]), "/tensors/x/1"),
    ],
)
def test_norm_refuses(direct: Client, array: NDArray[Any], place: str) -> None:
    assert faulty(direct, NORM, array) == place


# Permutation


def attention(x: NDArray[Any]) -> NDArray[np.float64]:
    scores = x @ x.T / np.sqrt(x.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True) @ x
    return found


@pytest.mark.parametrize("order", [None, [3, 0, 4, 1, 2]])
def test_attention_alone_does_not_see_the_order(direct: Client, order: list[int] | None) -> None:
    x = np.random.default_rng(4).standard_normal((5, 6)).astype(np.float32)
    chosen: dict[str, Query] = {} if order is None else {"order": order}
    places = [4, 3, 2, 1, 0] if order is None else order
    answered = posted(direct, PERMUTATION, {"x": x}, **chosen)
    encoding = asked(direct, "/v1/encodings/sinusoidal", length=5, dim=6, dtype="float64")["encoding"]
    assert answered["plain"].tobytes() == answered["plain_shuffled"].tobytes()
    assert np.allclose(answered["plain"], attention(x.astype(np.float64)), rtol=2e-7, atol=1e-12)
    assert np.allclose(answered["encoded"], attention(x + encoding), rtol=2e-7, atol=1e-12)
    shuffled = np.empty((5, 6))
    shuffled[places] = attention(x[places] + encoding)
    assert np.allclose(answered["encoded_shuffled"], shuffled, rtol=2e-7, atol=1e-12)
    assert np.abs(answered["encoded"] - answered["encoded_shuffled"]).max() > 0.1


def test_the_difference_is_that_of_the_outputs(direct: Client) -> None:
    shown = direct.post(f"{PERMUTATION}?order=1,0", content=npy(np.array([[1.0, 0], [0, 2]])), headers=BINARY).json()
    assert shown["facts"] == {"order": [1, 0]}
    plain, encoded = shown["tensors"]["difference"]["data"]
    outputs, shuffled = (np.array(shown["tensors"][name]["data"]) for name in ("encoded", "encoded_shuffled"))
    assert plain == 0
    assert encoded == pytest.approx(np.abs(outputs - shuffled).max(), rel=1e-6)


@pytest.mark.parametrize(
    ("query", "array", "place"),
    [
        ("", np.ones((513, 2)), "/tensors/x"),
        ("", np.ones((2, 2, 2)), "/tensors/x"),
        ("", np.ones((129, 64)), "/tensors/x"),
        ("", np.array([[1.0, 1025.0]]), "/tensors/x"),
        ("order=0,0", np.ones((2, 2)), "order"),
        ("order=0,1,2", np.ones((2, 2)), "order"),
    ],
)
def test_permutation_refuses(direct: Client, query: str, array: NDArray[Any], place: str) -> None:
    assert faulty(direct, f"{PERMUTATION}?{query}", array) == place


# Extrapolation


@pytest.mark.parametrize(("dim", "base", "trained", "length"), [(16, 1e4, 100, 350), (8, 50.0, 7, 23)])
def test_which_angles_training_never_saw(direct: Client, dim: int, base: float, trained: int, length: int) -> None:
    chosen: dict[str, Query] = {"dim": dim, "base": base, "trained_length": trained, "length": length}
    answered = asked(direct, EXTRAPOLATION, dtype="float64", **chosen)
    factor = length / trained
    scalings: list[dict[str, Query]] = [
        {},
        {"rope_type": "linear", "factor": factor},
        {"rope_type": "ntk_aware", "factor": factor},
        {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": trained},
    ]
    for method, scaling in enumerate(scalings):
        found = asked(
            direct, "/v1/encodings/rope", dim=dim, base=base, output="frequencies", dtype="float64", **scaling
        )
        for pair, speed in enumerate(found["frequencies"].tolist()):
            own = base ** (-2 * pair / dim)
            reach = (trained - 1) * own
            angles = [position * speed for position in range(length)]
            unseen = [a for a in angles if reach < 2 * np.pi and a % (2 * np.pi) > reach * (1 + 1e-9)]
            assert answered["unseen"][method, pair] == len(unseen) / length, (method, pair)
            assert answered["turns"][method, pair] == pytest.approx((length - 1) * speed / (2 * np.pi), rel=1e-12)


def test_interpolation_leaves_next_to_nothing_unseen(direct: Client) -> None:
    chosen: dict[str, Query] = {"dim": 128, "trained_length": 4096, "length": 16384}
    unseen = asked(direct, EXTRAPOLATION, **chosen)["unseen"]
    assert unseen[0].max() == pytest.approx(0.75, abs=1e-3)
    assert unseen[1].max() <= 3 / 16384
    assert unseen[2, -1] <= 3 / 16384
    facts = asked_in_json(direct, EXTRAPOLATION, **chosen)["facts"]
    assert facts == {"methods": "none, linear, ntk_aware, yarn", "factor": 4.0, "whole_turns_in_training": 46}


@pytest.mark.parametrize(("dim", "base", "trained"), [(128, 5e5, 8192), (6, 1.5, 7), (6, 1.5, 100), (64, 1e4, 2)])
def test_whole_turns_are_counted(direct: Client, dim: int, base: float, trained: int) -> None:
    chosen: dict[str, Query] = {"dim": dim, "base": base, "trained_length": trained, "length": 2 * trained}
    with mpmath.workdps(60):
        whole = sum((trained - 1) * speed >= 2 * mpmath.pi for speed in frequencies(dim, base))
    assert asked_in_json(direct, EXTRAPOLATION, **chosen)["facts"]["whole_turns_in_training"] == whole


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("dim=8&trained_length=4&length=3", "length"),
        ("dim=7&trained_length=4&length=8", "dim"),
        ("dim=2&trained_length=4&length=8", "dim"),
        ("dim=128&trained_length=4&length=131073", "length"),
        ("dim=8&trained_length=4&length=8&base=1", "base"),
    ],
)
def test_extrapolation_refuses(direct: Client, query: str, parameter: str) -> None:
    assert faulty(direct, f"{EXTRAPOLATION}?{query}") == parameter


# Attention


@pytest.mark.parametrize(
    "chosen",
    [
        {"of": "none", "residual": 0},
        {"of": "alibi", "slope": 0.5, "residual": 0.25},
        {"of": "alibi", "slope": 100},
        {"of": "rope", "dim": 8, "base": 100, "sharpness": 3},
    ],
)
def test_the_last_row_of_the_rollout(direct: Client, chosen: dict[str, Query]) -> None:
    length, depth = 9, 3
    answered = asked(direct, ATTENTION, length=length, depth=depth, **chosen)["profile"]
    with mpmath.workdps(60):
        score: Any = {
            "none": lambda d: 0 * d,
            "alibi": lambda d: -mpf(float(str(chosen["slope"]))) * d,
            "rope": lambda d: 3 * sum(mpmath.cos(d * w) for w in frequencies(8, 100)) / 4,
        }[str(chosen["of"])]
        share = mpf(float(str(chosen.get("residual", 0.5))))
        layer = mpmath.zeros(length)
        for i in range(length):
            weights = [mpmath.exp(score(i - j)) for j in range(i + 1)]
            for j in range(i + 1):
                layer[i, j] = (1 - share) * weights[j] / sum(weights) + share * (i == j)
        row = mpmath.zeros(1, length)
        row[length - 1] = 1
        for each in range(depth):
            row = row * layer
            assert np.allclose(answered[each], [float(value) for value in row], rtol=2.0**-23, atol=1e-40)
    assert answered.sum(axis=1) == pytest.approx([1] * depth, rel=1e-6)


def test_there_is_a_hollow_in_the_middle(direct: Client) -> None:
    """In the catalogue's example: what lies between is drawn least, the beginning more, and so is the end."""
    (example,) = [each for each in by_key("analyses", "attention").examples if "hollow" in each.title]
    shown = asked_in_json(direct, ATTENTION, **example.query)
    # The last position asks; what passes by its layers is its own, whatever the encoding.
    *profile, own = shown["tensors"]["profile"]["data"][-1]
    least = profile.index(min(profile))
    assert len(profile) / 3 < least < len(profile) * 2 / 3
    assert profile[0] > 4 * profile[least]
    assert profile[-1] > 1.2 * profile[least]
    assert own > profile[0]


def test_attention_says_what_has_no_effect(direct: Client) -> None:
    shown = asked_in_json(direct, ATTENTION, length=3, slope=1)
    assert shown["notes"] == ["slope has no effect with of=none"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("length=8193", "length"),
        ("length=8192&depth=2", "depth"),
        ("length=8&of=rope&dim=7", "dim"),
        ("length=8192&of=rope&dim=512", "length"),
    ],
)
def test_attention_refuses(direct: Client, query: str, parameter: str) -> None:
    assert faulty(direct, f"{ATTENTION}?{query}") == parameter


# All


@pytest.mark.parametrize(
    ("module", "work", "target"),
    [
        (attention_module, "_unnormalised", f"{ATTENTION}?of=rope&length=4096&depth=4"),
        (extrapolation_module, "_turns_per_position", f"{EXTRAPOLATION}?dim=8192&trained_length=100&length=256"),
        (decay_module, "sums", f"{DECAY}?length=4096&dim=256"),
        (similarity_module, "mean_cosines", f"{SIMILARITY}.npy?length=4096&dim=256"),
        (shift_module, "_matrix", f"{SHIFT}?dim=1024&length=100"),
    ],
)
def test_head_computes_nothing(
    module: ModuleType, work: str, target: str, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said beside the tensors follows from the parameters: the server says it before any work is admitted."""

    def computed(*_: object) -> NoReturn:
        raise AssertionError(work)

    monkeypatch.setattr(module, work, computed)
    assert direct.head(target).status_code == 200
    refused(direct.get(target), "internal-error")
