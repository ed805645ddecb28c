"""Biases and relative scores against T5, x-transformers, Wav2Vec2-BERT, VITS, SpeechT5, XLNet and Parakeet."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_scores import HEADS, KEYS, LENGTH, QUERIES
from tests.oracles.answers import Query, asked, posted
from tests.oracles.exact import rounded

Products = NDArray[np.float64]
CHOSEN: dict[str, dict[str, Query]] = {
    "wav2vec2_bert": {"left": 4, "right": 1},
    "vits": {"max_relative_position": 2, "beyond": "zero-row", "scaling": "none"},
    "speecht5": {"sign": "query-key", "left": 3, "right": 2, "scaling": "none"},
}


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_t5(direct: Client, scores: Numbers, direction: str) -> None:
    theirs, table = scores[f"t5.{direction}.bias"], scores["t5.table"]
    placed: dict[str, Query] = {"direction": direction, "queries": QUERIES, "keys": KEYS}
    ours = posted(direct, "/v1/biases/t5", {"table": table}, **placed)["bias"]
    assert np.array_equal(ours, theirs)
    x = scores["x"]
    added = posted(direct, "/v1/apply/t5", {"x": x, "table": table}, direction=direction)["x"]
    assert np.array_equal(added, x + theirs)


def test_x_transformers(direct: Client, scores: Numbers) -> None:
    table = {"table": scores["t5.table"]}
    placed: dict[str, Query] = {"direction": "causal", "scale": 8, "queries": QUERIES, "keys": KEYS}
    assert np.array_equal(posted(direct, "/v1/biases/t5", table, **placed)["bias"], scores["x_transformers.bias"])


@pytest.mark.parametrize("model", CHOSEN)
def test_vectors_added_to_keys(direct: Client, scores: Numbers, model: str) -> None:
    table, theirs, q = scores[f"{model}.table"], scores[f"{model}.bias"], scores["q"]
    x = np.zeros((HEADS, LENGTH, LENGTH), np.float32)
    ours = posted(direct, "/v1/apply/shaw", {"x": x, "q": q, "table": table}, **CHOSEN[model])["x"]
    # They add eight products in float32, we in float64.
    assert np.abs(ours - theirs).max() <= 8 * 2.0**-23 * np.abs(theirs).max()
    exact = relative_products(q, table, CHOSEN[model])
    assert np.array_equal(ours, exact)


def relative_products(q: NDArray[np.float32], table: NDArray[np.float32], chosen: dict[str, Query]) -> Products:
    """The dot products with the vectors, pair by pair in float64, rounded to float32."""
    most = chosen.get("max_relative_position")
    left, right = (int(str(chosen.get(side, most))) for side in ("left", "right"))
    sign = -1 if chosen.get("sign") == "query-key" else 1
    divisor = 1.0 if chosen.get("scaling") == "none" else float(np.sqrt(q.shape[-1]))
    found = np.zeros((HEADS, LENGTH, LENGTH))
    for h, i, j in product(range(HEADS), range(LENGTH), range(LENGTH)):
        distance = sign * (j - i)
        if chosen.get("beyond") == "zero-row" and not -left <= distance <= right:
            continue
        total = 0.0
        for a, b in zip(q[h, i].tolist(), table[min(max(distance, -left), right) + left].tolist(), strict=True):
            total += a * b
        found[h, i, j] = rounded(total / divisor, "float32")
    return found


def test_the_vectors_themselves(direct: Client, scores: Numbers) -> None:
    for model, chosen in CHOSEN.items():
        clipped = {name: value for name, value in chosen.items() if name != "scaling"}
        table = scores[f"{model}.table"]
        vectors = posted(direct, "/v1/biases/shaw-vectors", {"table": table}, length=LENGTH, **clipped)["vectors"]
        theirs = np.einsum("hqd,qkd->hqk", scores["q"].astype(np.float64), vectors.astype(np.float64))
        scale = 8**-0.5 if model == "wav2vec2_bert" else 1
        assert np.abs(theirs * scale - scores[f"{model}.bias"]).max() <= 1e-5


@pytest.mark.parametrize("span", ["xlnet-bi", "xlnet-uni"])
def test_xlnets_shift(direct: Client, scores: Numbers, span: str) -> None:
    x, relative, theirs = scores["x"], scores[f"{span}.relative"], scores[f"{span}.bias"]
    ours = posted(direct, "/v1/apply/transformer-xl", {"x": x, "relative": relative}, span=span)["x"]
    behind = np.tri(QUERIES, KEYS, KEYS - QUERIES, dtype=bool)
    shown = behind if span == "xlnet-uni" else np.ones_like(behind)
    assert np.array_equal(ours[..., shown], (x + theirs)[..., shown])
    assert np.array_equal(ours[..., ~shown], x[..., ~shown])


def test_conformers_shift(direct: Client, scores: Numbers) -> None:
    relative, theirs = scores["parakeet.relative"], scores["parakeet.bias"]
    x = np.ones(theirs.shape, np.float32)
    ours = posted(direct, "/v1/apply/transformer-xl", {"x": x, "relative": relative})["x"]
    assert np.array_equal(ours, x + theirs)


def test_transformer_xls_own_rows_and_scores_belong_together(direct: Client) -> None:
    """q . r(i - j) from the rows of the bias, shifted, is q times the encoding of each distance."""
    dim, length = 6, 5
    chosen: dict[str, Query] = {"span": "legacy", "layout": "sin-cos"}
    rows = asked(direct, "/v1/biases/transformer-xl", length=length, dim=dim, dtype="float64", **chosen)["encoding"]
    q = np.random.default_rng(8).standard_normal((1, length, dim))
    relative = np.einsum("hqd,rd->hqr", q, rows)
    x = np.zeros((1, length, length))
    ours = posted(direct, "/v1/apply/transformer-xl", {"x": x, "relative": relative}, span="legacy")["x"]
    for i in range(length):
        for j in range(length):
            distance = i - j
            encoding = asked(
                direct, "/v1/encodings/sinusoidal", positions=[distance], dim=dim, layout="sin-cos", dtype="float64"
            )
            expected = float(q[0, i] @ encoding["encoding"][0]) if distance >= 0 else 0.0
            assert ours[0, i, j] == pytest.approx(expected, abs=1e-12)
