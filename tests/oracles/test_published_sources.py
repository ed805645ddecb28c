"""Biases and time embeddings against the published sources that are no library: NeMo 2.0.0, KERPLE's and mTAN's own
code, DAPE's FIRE, a Time2Vec port, transformers 4.57.1 (`tests/golden/make_sources.py`)."""

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_sources import BERT_POSITIONS, DIM, FIRE, KEYS, LENGTH, QUERIES, SANDWICH_DIM, TIMES, TXL
from tests.oracles.answers import Array, Query, asked, posted
from tests.oracles.usages import proves

KERPLE, FIRE_BIAS = "/v1/biases/kerple", "/v1/biases/fire"
SINE = 2.0**-23  # a float32 sine, and what the angle before it was rounded by


@pytest.fixture(scope="module")
def sources() -> Numbers:
    return load("sources")


def listed(weights: Array) -> list[float]:
    return [float(weight) for weight in weights]


@proves("biases/sandwich", {"nemo": "nemo.sandwich"})
def test_nemos_sandwich(direct: Client, sources: Numbers, usage: Usage, oracle: str) -> None:
    sizes = {"queries": QUERIES, "keys": KEYS, "heads": 6, "dim": SANDWICH_DIM}
    ours = asked(direct, "/v1/biases/sandwich", **sizes, **usage.parameters)["bias"]
    # Theirs are sums of sixteen float32 cosines, and half of the sum's size is subtracted.
    assert np.abs(ours - sources[oracle]).max() <= 16 * 2.0**-22


def test_nemos_kerple_before_training(direct: Client, sources: Numbers) -> None:
    """Its slopes are ALiBi's, its scale and its exponent 1."""
    slopes = listed(asked(direct, "/v1/biases/alibi-slopes", heads=6)["slopes"])
    ours = asked(direct, KERPLE, queries=QUERIES, keys=KEYS, r1=slopes, r2=[1.0] * 6)["bias"]
    np.testing.assert_allclose(ours, sources["nemo.kerple"], rtol=4e-7, atol=0)


@proves(
    "biases/kerple",
    {
        "KERPLE-log in GPT-NeoX, with its p as r1 and a as r2": ("log", "bias_p", "bias_a"),
        "KERPLE-power in GPT-NeoX, with its a as r1 and p as r2": ("power", "bias_a", "bias_p"),
    },
)
def test_the_authors_kerple(direct: Client, sources: Numbers, usage: Usage, oracle: tuple[str, str, str]) -> None:
    form, r1, r2 = oracle
    trained = {"r1": listed(sources[f"kerple.{form}.{r1}"]), "r2": listed(sources[f"kerple.{form}.{r2}"])}
    kept = {name: value for name, value in usage.parameters.items() if name not in trained}
    ours = asked(direct, KERPLE, length=KEYS, **kept, **trained)["bias"]
    np.testing.assert_allclose(np.tril(ours), sources[f"kerple.{form}"], rtol=1e-6, atol=1e-7)
    # Their weights are the real numbers' float32; the address has all of their digits.
    assert ours.dtype == np.float32


@proves(
    "biases/fire",
    {"FIRE as published": 0.0, "the authors' code at the start of training": FIRE["eps"]},
)
def test_dapes_fire(direct: Client, sources: Numbers, usage: Usage, oracle: float) -> None:
    network = {name: sources[f"fire.{name}"] for name in ("weight_in", "bias_in", "weight_out", "bias_out")}
    learned: dict[str, Query] = {"c": FIRE["c"], "threshold": FIRE["threshold"], "output": "bias", "length": LENGTH}
    ours = posted(direct, FIRE_BIAS, network, **learned, **usage.parameters)["bias"]
    behind = np.tril(np.ones((LENGTH, LENGTH), bool))  # they put 0 for the distances ahead
    # Theirs adds eps, a millionth of the divisor, and rounds thirty-two products and their sum.
    assert np.abs(ours - sources["fire.bias"])[:, behind].max() <= (5e-7 if oracle else 3e-6)


@proves("encodings/mtan", {"mtan": 1.0, "the same with times in hours": 48.0})
def test_mtans_fixed_embedding(direct: Client, sources: Numbers, usage: Usage, oracle: float) -> None:
    times = [oracle * float(np.float32(time)) for time in TIMES]
    ours = asked(direct, "/v1/encodings/mtan", positions=times, dim=DIM, **usage.parameters)["embedding"]
    # Angles below 108, of float32 frequencies, rounded twice.
    assert np.abs(ours - sources["mtan.fixed"]).max() <= 108 * 3 * 2.0**-24 + SINE


@proves(
    "encodings/time2vec",
    {
        "the paper; mTAN's learned time embedding": ("mtan.learned", "mtan"),
        "a common PyTorch port (randn, linear channel last)": ("time2vec.sin", "time2vec.sin"),
        "the same port with cosines": ("time2vec.cos", "time2vec.cos"),
    },
)
def test_learned_embeddings_of_time(direct: Client, sources: Numbers, usage: Usage, oracle: tuple[str, str]) -> None:
    table, weights = oracle
    trained = {name: sources[f"{weights}.{name}"] for name in ("weights", "phases")}
    chosen = {name: value for name, value in usage.parameters.items() if name != "seed"}
    arrays = {"positions": np.array(TIMES, np.float32), **trained}
    ours = posted(direct, "/v1/encodings/time2vec", arrays, dim=DIM, **chosen)["encoding"]
    assert np.abs(ours - sources[table]).max() <= 4 * 3 * 2.0**-24 + SINE


@proves("encodings/time2vec", {"Keras ports (uniform initialisation)": (0.0, 1.0)})
def test_kerass_initialisation(direct: Client, usage: Usage, oracle: tuple[float, float]) -> None:
    """By its distribution: other random numbers than Keras's own."""
    asked_for: dict[str, Query] = {"dim": 4096, "output": "weights", "dtype": "float64"}
    weights = asked(direct, "/v1/encodings/time2vec", **asked_for, **usage.parameters)["weights"]
    assert oracle[0] < weights.min() < 0.001
    assert 0.999 < weights.max() < oracle[1]
    assert abs(weights.mean() - 0.5) < 0.01
    assert abs(weights.std() - 12**-0.5) < 0.01


@proves("biases/transformer-xl", {"transformer-xl": "transformer_xl"})
def test_transformer_xls_clamped_rows(direct: Client, sources: Numbers, usage: Usage, oracle: str) -> None:
    sizes = {"queries": 2, "keys": TXL["keys"], "clamp_len": TXL["clamp_len"], "dim": DIM}
    ours = asked(direct, "/v1/biases/transformer-xl", **sizes, **usage.parameters)["encoding"]
    assert np.abs(ours - sources[oracle]).max() <= 4 * 5 * 2.0**-24 + SINE


@proves("biases/shaw", {"bert-relative-key": "bert"})
def test_berts_relative_key(direct: Client, sources: Numbers, usage: Usage, oracle: str) -> None:
    chosen: dict[str, Query] = {**usage.parameters, "max_relative_position": BERT_POSITIONS - 1}
    ours = asked(direct, "/v1/biases/shaw", length=BERT_POSITIONS, **chosen)["index"]
    np.testing.assert_array_equal(ours, sources[oracle])


@proves("biases/sandwich", {"Inner products of the encodings as encodings/sinusoidal gives them": 8})
def test_sandwich_of_the_encodings(direct: Client, usage: Usage, oracle: int) -> None:
    table = asked(direct, "/v1/encodings/sinusoidal", length=30, dim=oracle, dtype="float64")["encoding"]
    expected = (table @ table.T - oracle / 2) / (8 * np.array([1, 2, 3]) / 3)[:, None, None]
    ours = asked(direct, "/v1/biases/sandwich", length=30, heads=3, dim=oracle, **usage.parameters)["bias"]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
