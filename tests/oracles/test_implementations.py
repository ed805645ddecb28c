"""Where implementations of RoPE scaling disagree: each switch against the numbers of the one that has it, frozen."""

import cmath
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from service.engine import by_key
from service.engine.errors import Refusal
from service.engine.rotation.rope_block import parameters_of_block
from service.engine.rotation.rope_usages import IMPLEMENTATIONS
from service.engine.rotation.scaling import TYPES_OF
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Usage, whole
from tests.engine.answers import answer, only
from tests.golden import make_turned
from tests.golden.frozen import Numbers, load
from tests.golden.make_implementations import AXES as OF_AXES
from tests.golden.make_implementations import BASE, FACTOR, MSCALES, MULTIPLE, TRAINED, WIDTH, vectors
from tests.golden.make_scaling import CASES, block_of, lists
from tests.oracles import oracle_scaling as rules
from tests.oracles.exact import PRECISION_BITS, ulps_apart
from tests.oracles.usages import proves

ROPE = "encodings/rope"
HEAD: dict[str, Any] = {"dim": WIDTH, "base": BASE}
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": FACTOR, "original_max_position_embeddings": TRAINED}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "original_max_position_embeddings": TRAINED,
    "max_position_embeddings": int(FACTOR * TRAINED),
    **{name: tuple(entries) for name, entries in lists(WIDTH).items()},
}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}


@pytest.fixture(scope="module")
def frozen() -> Numbers:
    """What `tests/golden/make_implementations.py` describes."""
    return load("implementations")


@pytest.fixture(scope="module")
def turned_frozen() -> Numbers:
    """What `tests/golden/make_turned.py` describes."""
    return load("turned")


def lacks(usage: Any, scaling: dict[str, Any]) -> bool:
    """Whether an implementation has no such scaling; then the service refuses it, which is asserted here."""
    known = TYPES_OF.get(usage.parameters.get("scaling_types", "all"))
    if known is None or scaling["rope_type"] in known:
        return False
    with pytest.raises(Refusal, match="has no rope_type"):
        inv(**of_preset(usage, **scaling))
    return True


BOTH_MSCALES = {"mscale": 0.707, "mscale_all_dim": 0.707}


def inv(**parameters: Any) -> Any:
    return only(ROPE, **HEAD, output="frequencies", dtype="float64", **parameters)


def single(**parameters: Any) -> Any:
    return only(ROPE, **HEAD, output="frequencies", arithmetic="float32", **parameters)


def attention(parameters: dict[str, Any]) -> float:
    scheme = by_key("encodings", "rope")
    return float(scheme.facts(scheme.params(**HEAD, **parameters), {})["attention_factor"])  # type: ignore[arg-type]


def of_preset(usage: Any, **parameters: Any) -> dict[str, Any]:
    """A usage's parameters and others, as an address would have them."""
    scheme = by_key("encodings", "rope")
    read = scheme.params.model_validate({**HEAD, **usage.parameters, **parameters})
    return {name: getattr(read, name) for name in read.model_fields_set if name not in HEAD}


@proves(ROPE, {"mlx": "mlx"})
def test_mlx_always_takes_the_long_list_and_counts_each_mscale(usage: Any, oracle: str, frozen: Numbers) -> None:
    given = of_preset(usage, **LONGROPE)
    np.testing.assert_allclose(frozen[f"{oracle}.longrope.inv_freq"], inv(**given), rtol=1e-6)
    np.testing.assert_allclose(frozen[f"{oracle}.longrope.scale"], attention(given), rtol=1e-15)
    for name, mscales in MSCALES.items():
        given = of_preset(usage, **YARN, **mscales)
        np.testing.assert_allclose(frozen[f"{oracle}.yarn.{name}.inv_freq"], inv(**given), rtol=1e-6)
        np.testing.assert_allclose(frozen[f"{oracle}.yarn.{name}.scale"], attention(given), rtol=1e-15)
    np.testing.assert_allclose(frozen[f"{oracle}.llama3.inv_freq"], inv(**LLAMA3), rtol=1e-5)
    proportional = inv(rope_type="proportional", partial_rotary_factor=0.25, factor=8)
    np.testing.assert_allclose(frozen[f"{oracle}.proportional.inv_freq"], proportional, rtol=1e-6)


def test_litgpts_ramp_is_inverted(frozen: Numbers) -> None:
    positions = tuple(map(float, frozen["positions"]))
    given = {**YARN, "ramp": "inverted", "attention_factor": 1, "arithmetic": "float32"}
    ours = answer(ROPE, **HEAD, **given, positions=positions, columns="half")
    upright = answer(ROPE, **HEAD, **{**given, "ramp": "channels"}, positions=positions, columns="half")
    for name in ("cos", "sin"):
        theirs = frozen[f"litgpt.yarn.{name}"]
        assert (ulps_apart(ours[name], theirs) <= 1).mean() > 0.99
        np.testing.assert_allclose(ours[name], theirs, rtol=0, atol=5e-2)
        assert np.abs(upright[name] - theirs).max() > 0.5


def test_vllms_longrope_goes_by_the_ratio_of_the_lengths() -> None:
    # Phi3LongRoPEScaledRotaryEmbedding: sqrt(1 + ln(Lmax / L0) / ln L0), an explicit factor is not consulted.
    with mpmath.workprec(PRECISION_BITS):
        expected = float(rules.longrope_attention(FACTOR, TRAINED))
    given = {**LONGROPE, "factor": 2.0, "attention_factor": 1.3}
    assert attention({**given, "longrope_attention": "ratio"}) == pytest.approx(expected, rel=1e-15)
    assert attention(given) == 1.3


@proves(ROPE, {"deepseek": (1.0, 0.0)})
def test_deepseek_counts_each_mscale(usage: Any, oracle: tuple[float, float]) -> None:
    # DeepseekScalingRotaryEmbedding and DeepSeek's own module: m(s, mscale) / m(s, mscale_all_dim) with these defaults.
    for mscales in ({}, {"mscale": 0.5}, {"mscale_all_dim": 0.5}, {"mscale": 0.7, "mscale_all_dim": 0.7}):
        numerator, denominator = mscales.get("mscale", oracle[0]), mscales.get("mscale_all_dim", oracle[1])
        expected = (0.1 * numerator * np.log(FACTOR) + 1) / (0.1 * denominator * np.log(FACTOR) + 1)
        assert attention(of_preset(usage, **YARN, **mscales)) == pytest.approx(expected, rel=1e-14)


# Two positions of four channels: the frequencies are 1 and 1/100.
BY_HAND = np.array([[1.0, 2.0, 3.0, 4.0], [-0.5, 0.25, 8.0, -1.0]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@proves("apply/rope", {"deepseek": (1, 2)})
def test_deepseek_multiplies_neighbours_as_complex_numbers(usage: Usage, oracle: tuple[int, ...], dtype: str) -> None:
    """Its code has `view_as_complex(x.float()) * freqs_cis`, and rounds to the vectors' format once."""
    x = BY_HAND.astype(DTYPES[dtype])
    expected = [
        [(complex(row[2 * k], row[2 * k + 1]) * cmath.exp(1j * at / 100**k)) for k in range(2)]
        for at, row in zip(oracle, BY_HAND, strict=True)
    ]
    got = only("apply/rope", {"q": x, "positions": np.array(oracle)}, **usage.parameters)
    assert got.dtype == DTYPES[dtype]
    theirs = np.array(expected).view(np.float64)
    if dtype == "float32":
        np.testing.assert_allclose(got, theirs, rtol=0, atol=2e-6)
    else:
        assert (got == nearest(theirs, DTYPES[dtype])).all()


@proves(ROPE, {"deepseek": "deepseek_v2"})
def test_deepseeks_tables_are_vllms(usage: Usage, oracle: str, turned_frozen: Numbers) -> None:
    """vLLM's deepseek_yarn keeps a column a pair; neighbours share it."""
    assert oracle
    for name, more in (("deepseek", {}), ("deepseek_mscale", {"mscale": 0.707}), ("deepseek_both", BOTH_MSCALES)):
        scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, **more}
        own = {**usage.parameters, **scaling, "dim": make_turned.DIM, "base": make_turned.BASE}
        ours = answer(ROPE, {"positions": make_turned.POSITIONS}, **own)
        for wave in ("cos", "sin"):
            theirs = np.repeat(turned_frozen[f"vllm.{name}.{wave}"], 2, axis=1)
            assert (ulps_apart(ours[wave], theirs) <= 1).mean() > 0.8
            np.testing.assert_allclose(ours[wave], theirs, rtol=0, atol=8192 * 16 * 2.0**-24)


@proves(ROPE, {"llama.cpp": "ggml"})
def test_llama_cpp_scales_its_running_angle(usage: Any, oracle: str, frozen: Numbers) -> None:
    positions = tuple(map(float, frozen["positions"]))
    divisors = tuple(map(float, np.array(lists(WIDTH)["long_factor"], np.float32)))
    for name, more in (
        ("default", {}),
        ("linear", {"rope_type": "linear", "factor": FACTOR}),
        ("yarn", YARN),
        ("divisors", {"rope_type": "divisors", "divisors": divisors}),
    ):
        given = of_preset(usage, **more, positions=positions, columns="half")
        ours = answer(ROPE, **HEAD, **given)
        for wave in ("cos", "sin"):
            # An ulp of the C library's cosf, and of its product with mscale.
            assert ulps_apart(ours[wave], frozen[f"{oracle}.{name}.{wave}"]).max() <= 2, name


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@proves("apply/rope", {"llama.cpp": "ggml"})
def test_llama_cpp_turns_float16_in_float32(usage: Usage, oracle: str, frozen: Numbers, pairing: str) -> None:
    x = vectors()
    for name, more in (("default", {}), ("linear", {"rope_type": "linear", "factor": FACTOR}), ("yarn", YARN)):
        own = {**usage.parameters, **more, "base": BASE, "pairing": pairing}
        ours = only("apply/rope", {"q": x, "positions": frozen["positions"]}, **own)
        # An ulp of a float32 decides about one number in thousands.
        assert (ours != frozen[f"{oracle}.{name}.{pairing}"]).mean() <= 2e-3
        once = only("apply/rope", {"q": x, "positions": frozen["positions"]}, **{**own, "table_dtype": "float16"})
        assert (once != frozen[f"{oracle}.{name}.{pairing}"]).mean() > 0.1


@proves("encodings/rope-axes", {"ggml-mrope": "mrope", "ggml-imrope": "imrope", "ggml-vision": "vision"})
def test_ggmls_several_axes(usage: Usage, oracle: str, frozen: Numbers) -> None:
    sections, width, _, _, _ = MULTIPLE[oracle]
    axes = len(str(usage.parameters["sections"]).split(","))
    own = {**usage.parameters, "sections": sections[:axes], "dim": width, "base": BASE, "columns": "half"}
    ours = answer("encodings/rope-axes", {"positions": OF_AXES[:, :axes]}, **own)
    for wave in ("cos", "sin"):
        assert ulps_apart(ours[wave], frozen[f"ggml.{oracle}.{wave}"]).max() <= 1


@proves(ROPE, {"transformers-4.57": "transformers4"})
def test_transformers_of_before(usage: Any, oracle: str, frozen: Numbers) -> None:
    cases = [name.split(".")[1] for name in frozen if name.startswith(oracle) and name.endswith(".attention_factor")]
    assert {"longrope_factor", "longrope_attention", "llama3_32", "dynamic_far", "yarn_both"} <= set(cases)
    for case in cases:
        block, largest, length = CASES[case]
        own = parameters_of_block(block_of(block, WIDTH, BASE))
        lengths = {"max_position_embeddings": largest, "seq_len": length}
        given = of_preset(usage, **{name: value for name, value in own.items() if name != "base"}, **lengths)
        assert (
            ulps_apart(only(ROPE, **HEAD, **given, output="frequencies"), frozen[f"{oracle}.{case}.inv_freq"]).max()
            <= 2
        )
        np.testing.assert_allclose(frozen[f"{oracle}.{case}.attention_factor"], attention(given), rtol=1e-15)


@proves("apply/rope", {usage.preset: usage.preset for usage in IMPLEMENTATIONS})
@pytest.mark.parametrize(
    "scaling", [YARN, {"rope_type": "linear", "factor": 3}, LONGROPE], ids=["yarn", "linear", "longrope"]
)
def test_vectors_are_turned_by_the_tables_of_the_same_name(usage: Any, oracle: str, scaling: dict[str, Any]) -> None:
    # The tables are compared with the implementation above; turning is two products and a sum in float32.
    (of_tables,) = [each for each in IMPLEMENTATIONS if each.preset == oracle]
    if lacks(of_tables, scaling):
        return
    given = of_preset(of_tables, **scaling)
    own = {name: value for name, value in usage.parameters.items() if name not in of_tables.parameters}
    assert usage.parameters == {**of_tables.parameters, **own}
    assert own.keys() <= {"attention_on", "table_dtype", "xpos_centering"}
    x = np.random.default_rng(6).standard_normal((5, WIDTH)).astype(np.float32)
    tables = answer(ROPE, **HEAD, **given, offset=4093, length=5)
    expected = turned(x, tables, given, of_vectors=oracle == "mlx")
    got = only("apply/rope", {"q": x}, base=BASE, **given, **own, offset=4093)
    # Tables with A on them are rounded once more, and A by itself.
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 if "attention_on" in own else 0)


def turned(x: Any, tables: Any, given: dict[str, Any], *, of_vectors: bool) -> Any:
    """Pairs turned by the tables; or, where the attention factor is on vectors, by the tables without it."""
    factor = attention(given) if of_vectors else 1.0
    cos, sin = (tables[name] / np.float32(factor) if of_vectors else tables[name] for name in ("cos", "sin"))
    own = x * np.float32(factor)
    partners = np.concatenate([-own[:, WIDTH // 2 :], own[:, : WIDTH // 2]], axis=1)
    if given.get("pairing") == "interleaved":
        partners = np.stack([-own[:, 1::2], own[:, ::2]], axis=2).reshape(own.shape)
    return own * cos + partners * sin


AXES: dict[str, Any] = {"sections": (8, 12, WIDTH // 2 - 20)}
SCALINGS = {
    "yarn": {**YARN, "mscale": 0.7, "truncate": False},
    "linear": {"rope_type": "linear", "factor": 3},
    "longrope": {**LONGROPE, "seq_len": TRAINED + 1},
    "llama3": LLAMA3,
}


@pytest.mark.parametrize("name", SCALINGS)
@proves("encodings/rope-axes", {usage.preset: usage.preset for usage in IMPLEMENTATIONS})
def test_several_axes_share_the_tables_of_the_same_name(usage: Any, oracle: str, name: str) -> None:
    # Which axis turns a pair is compared with the libraries elsewhere; here all of them are at one position.
    (on_one,) = [each for each in IMPLEMENTATIONS if each.preset == oracle]
    if lacks(on_one, SCALINGS[name]):
        return
    alike = {"positions": np.repeat([[0], [5], [4093], [131_071]], 3, axis=1)}
    several = answer("encodings/rope-axes", alike, **HEAD, **AXES, **of_preset(usage, **SCALINGS[name]))
    one = answer(ROPE, {"positions": alike["positions"][:, 0]}, **HEAD, **of_preset(on_one, **SCALINGS[name]))
    assert several["cos"].tobytes() == one["cos"].tobytes()
    assert several["sin"].tobytes() == one["sin"].tobytes()


@pytest.mark.parametrize("name", SCALINGS)
@proves("apply/rope-axes", {usage.preset: usage.preset for usage in IMPLEMENTATIONS})
def test_vectors_on_several_axes_turn_by_those_tables(usage: Any, oracle: str, name: str) -> None:
    (of_tables,) = [each for each in IMPLEMENTATIONS if each.preset == oracle]
    if lacks(of_tables, SCALINGS[name]):
        return
    x = np.random.default_rng(6).standard_normal((4, WIDTH)).astype(np.float32)
    at = np.random.default_rng(7).integers(0, 5000, (4, 3))
    given = of_preset(of_tables, **SCALINGS[name])
    tables = answer("encodings/rope-axes", {"positions": at}, **HEAD, **AXES, **given)
    expected = turned(x, tables, given, of_vectors=oracle == "mlx")
    own = {name: value for name, value in usage.parameters.items() if name not in of_tables.parameters}
    got = only("apply/rope-axes", {"q": x, "positions": at}, base=BASE, **AXES, **given, **own)
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 if "attention_on" in own else 0)


@pytest.mark.parametrize("preset", ["mlx", "llama.cpp", "deepseek"])
def test_those_that_do_not_ask_truncate(preset: str) -> None:
    (usage,) = [each for each in IMPLEMENTATIONS if each.preset == preset]
    given = of_preset(usage, **YARN) | {"arithmetic": "exact"}
    asked = inv(**{**given, "truncate_rule": "stated", "truncate": False})
    assert (inv(**given, truncate=False) == inv(**given)).all()
    assert (asked != inv(**given)).any()
    scheme = by_key("encodings", "rope")
    noted = scheme.notes(scheme.params(**HEAD, **given, truncate=False), {})
    assert "truncate=false has no effect with truncate_rule=always" in noted


@pytest.mark.parametrize("preset", ["mlx", "keras-hub", "rotary-embedding-torch"])
def test_what_an_implementation_lacks_is_refused(preset: str) -> None:
    (usage,) = [each for each in IMPLEMENTATIONS if each.preset == preset]
    dynamic = {"rope_type": "dynamic", "factor": 4, "max_position_embeddings": 64, "seq_len": 80}
    refused = [each["rope_type"] for each in (YARN, LONGROPE, LLAMA3, dynamic) if lacks(usage, each)]
    expected = {
        "mlx": ["dynamic"],
        "keras-hub": ["longrope", "llama3"],
        "rotary-embedding-torch": ["yarn", "longrope", "llama3", "dynamic"],
    }
    assert refused == expected[preset]
    # Who wants the numbers of another's formula says so.
    assert len(inv(**{**of_preset(usage, **dynamic), "scaling_types": "all"})) == WIDTH // 2


@proves(ROPE, {"keras-hub": 1.2079441541679836})
def test_keras_hub_has_one_attention_factor_whatever_is_said(usage: Any, oracle: float) -> None:
    """Its layer takes neither mscale nor an attention factor: A is 1 + 0.1 ln 8."""
    yarn = {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 2048}
    for more in ({}, {"mscale": 1, "mscale_all_dim": 1}, {"mscale": 0.5}, {"attention_factor": 1.0}):
        given = of_preset(usage, **yarn, **more)
        assert attention(given) == pytest.approx(oracle, rel=1e-15)
        scheme = by_key("encodings", "rope")
        notes = scheme.notes(scheme.params(**HEAD, **given), {})
        assert [note for note in notes if "mscale_rule=neither" in note] == [
            f"{name} has no effect with mscale_rule=neither" for name in more
        ]
        x = np.ones((1, WIDTH), ml_dtypes.bfloat16)
        turned_vectors = [
            only("apply/rope", {"q": x}, **by_key("apply", "rope").presets["keras-hub"], **yarn, **each)
            for each in ({}, more)
        ]
        assert turned_vectors[0].tobytes() == turned_vectors[1].tobytes()


PHIMOE: dict[str, Any] = {
    "rope_type": "longrope",
    "short_factor": (1.0, 1.1, 1.2, 1.3),
    "long_factor": (2.0, 3.0, 4.0, 5.0),
    "short_mscale": 1.1,
    "long_mscale": 1.3,
    "original_max_position_embeddings": 16,
    "max_position_embeddings": 64,
}


@proves(ROPE, {"transformers-5.24": ("short_factor", 1.3), "transformers-4.57": ("long_factor", 1.3)})
def test_phimoe_beyond_its_trained_length(usage: Any, oracle: tuple[str, float]) -> None:
    """5.24 hands its module no length and so has the short list, with the amplitude of the long one; 4.57 the long."""
    name, amplitude = oracle
    scheme = by_key("encodings", "rope")
    params = scheme.params.model_validate({**usage.parameters, **PHIMOE, "dim": 8, "length": 20, "seq_len": 20})
    facts = scheme.facts(scheme.resolve(params, {}), {})
    assert (facts["list_used"], facts["attention_factor"]) == (name.removesuffix("_factor"), amplitude)
    ours = whole(scheme, params)["cos"]
    own = np.array([10_000.0 ** (-k / 4) / PHIMOE[name][k] for k in range(4)])
    expected = amplitude * np.cos(np.arange(20)[:, None] * own)
    np.testing.assert_allclose(ours, np.tile(expected, 2), rtol=0, atol=4e-6)


def test_longrope_without_mscales_still_goes_by_length_in_transformers() -> None:
    block = {name: value for name, value in PHIMOE.items() if "mscale" not in name}
    for length, entries in ((16, block["short_factor"]), (17, block["long_factor"])):
        preset = by_key("encodings", "rope").presets["transformers-5.24"]
        ours = only(ROPE, **preset, **block, dim=8, output="frequencies", seq_len=length)
        np.testing.assert_allclose(ours, [10_000.0 ** (-k / 4) / entries[k] for k in range(4)], rtol=1e-6)
