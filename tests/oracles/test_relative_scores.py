"""Biases and relative scores against T5, x-transformers, Wav2Vec2-BERT, VITS, SpeechT5, XLNet and Parakeet."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_scores import DIM, KEYS, QUERIES, STEP
from tests.oracles.answers import Array, Query, asked, posted
from tests.oracles.usages import proves

T5, ADD_T5, VECTORS, ADD_SHAW = "/v1/biases/t5", "/v1/apply/t5", "/v1/biases/shaw-vectors", "/v1/apply/shaw"
SHIFT = "/v1/apply/transformer-xl"
BUCKETS = {"t5": "t5.bidirectional", "t5-decoder": "t5.causal", "x-transformers": "x_transformers"}
MODELS = {name: name.replace("-", "_") for name in ("wav2vec2-bert", "vits", "speecht5")}


@proves("biases/t5", BUCKETS)
def test_biases_of_a_learned_table(direct: Client, scores: Numbers, usage: Usage, oracle: str) -> None:
    table = {"table": scores["t5.table"]}
    ours = posted(direct, T5, table, queries=QUERIES, keys=KEYS, **usage.parameters)["bias"]
    assert np.array_equal(ours, scores[f"{oracle}.bias"])


@proves("apply/t5", BUCKETS)
def test_scores_with_the_bias_of_a_learned_table(direct: Client, scores: Numbers, usage: Usage, oracle: str) -> None:
    x = scores["x"]
    ours = posted(direct, ADD_T5, {"x": x, "table": scores["t5.table"]}, **usage.parameters)["x"]
    assert np.array_equal(ours, x + scores[f"{oracle}.bias"])


def in_float64(q: NDArray[np.float32], vectors: Array, *, scaled: bool) -> NDArray[np.float64]:
    """q . a_ij for every query and key, channel by channel, and its quotient by sqrt(dim)."""
    total = np.zeros(vectors.shape[:2])
    for channel in range(q.shape[-1]):
        total = total + q[:, None, channel].astype(np.float64) * vectors[:, :, channel].astype(np.float64)
    return total / np.sqrt(np.float64(q.shape[-1])) if scaled else total


@proves("apply/shaw", MODELS)
def test_scores_with_vectors_added_to_keys(direct: Client, scores: Numbers, usage: Usage, oracle: str) -> None:
    q, table = scores[f"{oracle}.q"], scores[f"{oracle}.table"]
    length = q.shape[1]
    x = np.zeros((len(q), length, length), np.float32)
    ours = posted(direct, ADD_SHAW, {"x": x, "q": q, "table": table}, **usage.parameters)["x"]
    theirs = scores[f"{oracle}.bias"]
    # They add eight products in float32, we in float64.
    assert np.abs(ours[:, ::STEP] - theirs).max() <= 8 * 2.0**-23 * np.abs(theirs).max()
    clipped = {name: value for name, value in usage.parameters.items() if name != "scaling"}
    vectors = posted(direct, VECTORS, {"table": table}, length=length, **clipped)["vectors"]
    for head, rows in enumerate(q):
        exact = in_float64(rows, vectors, scaled="scaling" not in usage.parameters)
        assert np.array_equal(ours[head], exact.astype(np.float32))


@proves("biases/shaw-vectors", MODELS)
def test_vectors_added_to_keys(direct: Client, scores: Numbers, usage: Usage, oracle: str) -> None:
    q, table, theirs = (scores[f"{oracle}.{name}"] for name in ("q", "table", "bias"))
    vectors = posted(direct, VECTORS, {"table": table}, length=q.shape[1], **usage.parameters)["vectors"]
    for head, rows in enumerate(q):
        ours = in_float64(rows, vectors, scaled=oracle == "wav2vec2_bert")[::STEP]
        assert np.abs(ours - theirs[head]).max() <= 8 * 2.0**-23 * np.abs(theirs).max()


def of_the_paper(table: Array, length: int) -> Array:
    """w_clip(j - i, 16) of Shaw et al., equation 4."""
    rows = [[max(-16, min(16, j - i)) + 16 for j in range(length)] for i in range(length)]
    vectors: Array = table[np.array(rows)]
    return vectors


@proves("biases/shaw-vectors", {"tensor2tensor": 50})
def test_the_papers_vectors(direct: Client, usage: Usage, oracle: int) -> None:
    table = np.random.default_rng(4).standard_normal((33, DIM)).astype(np.float32)
    ours = posted(direct, VECTORS, {"table": table}, length=oracle, **usage.parameters)["vectors"]
    assert np.array_equal(ours, of_the_paper(table, oracle))


@proves("apply/shaw", {"tensor2tensor": 50})
def test_the_papers_scores(direct: Client, usage: Usage, oracle: int) -> None:
    """x_i W^Q (x_j W^K + a_ij)^T / sqrt(dim), of Shaw et al., equation 5."""
    random = np.random.default_rng(4)
    table = random.standard_normal((33, DIM))
    q, k = random.standard_normal((2, 3, oracle, DIM))
    x = np.einsum("hid,hjd->hij", q, k) / DIM**0.5
    ours = posted(direct, ADD_SHAW, {"x": x, "q": q, "table": table}, **usage.parameters)["x"]
    keys = k[:, None] + of_the_paper(table, oracle)
    np.testing.assert_allclose(ours, np.einsum("hid,hijd->hij", q, keys) / DIM**0.5, rtol=0, atol=1e-13)


@proves("apply/transformer-xl", {"xlnet": "xlnet-bi", "xlnet-uni": "xlnet-uni", "conformer": "parakeet"})
def test_shifted_scores(direct: Client, scores: Numbers, usage: Usage, oracle: str) -> None:
    relative, theirs = scores[f"{oracle}.relative"], scores[f"{oracle}.bias"]
    x = np.random.default_rng(7).standard_normal(theirs.shape).astype(np.float32)
    ours = posted(direct, SHIFT, {"x": x, "relative": relative}, **usage.parameters)["x"]
    queries, keys = x.shape[-2:]
    # XLNet's shift has what comes next in memory for keys that its mask hides.
    shown = np.tri(queries, keys, keys - queries, dtype=bool) | (oracle != "xlnet-uni")
    assert np.array_equal(ours[..., shown], (x + theirs)[..., shown])
    assert np.array_equal(ours[..., ~shown], x[..., ~shown])


@proves("apply/transformer-xl", {"transformer-xl": 5})
def test_transformer_xls_rows_and_scores_belong_together(direct: Client, usage: Usage, oracle: int) -> None:
    """q . r(i - j) by the rows of biases/transformer-xl, shifted, is q times the encoding of each distance."""
    dim = 6
    wide: dict[str, Query] = {"dim": dim, "layout": "sin-cos", "dtype": "float64", "length": oracle}
    rows = asked(direct, "/v1/biases/transformer-xl", **wide, **usage.parameters)["encoding"]
    q = np.random.default_rng(8).standard_normal((1, oracle, dim))
    inputs = {"x": np.zeros((1, oracle, oracle)), "relative": np.einsum("hqd,rd->hqr", q, rows)}
    ours = posted(direct, SHIFT, inputs, **usage.parameters)["x"]
    encoding = asked(direct, "/v1/encodings/sinusoidal", **wide)["encoding"]
    for i, j in product(range(oracle), range(oracle)):
        expected = float(q[0, i] @ encoding[i - j]) if i >= j else 0.0
        assert ours[0, i, j] == pytest.approx(expected, abs=1e-12)
