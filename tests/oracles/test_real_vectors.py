"""A trained model's vectors (all-MiniLM-L6-v2's word and position embeddings) turned and added to over HTTP.

What the answers are compared with is numpy written here: float32 vectors, tables of the real-number
formula, the products and sums of the papers.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.clients import Client
from tests.golden.frozen import load
from tests.golden.make_minilm import POSITIONS, WORD_IDS, build, whole_tables
from tests.oracles import oracle_rope, oracle_sinusoidal
from tests.oracles.answers import posted, posted_npy
from tests.oracles.exact import rounded_rows

ROTATE = "/v1/apply/rope"
ADD = "/v1/apply/sinusoidal"
HEADS, HEAD_DIM = 12, 32  # the model's own: 384 channels in 12 heads
EPS = 2.0**-24

SLICE = load("minilm/tables")
WORDS: NDArray[np.float32] = SLICE["words"]
PLACES: NDArray[np.float32] = SLICE["positions"]

Array = NDArray[Any]


def channels(width: int, pairing: str) -> tuple[slice, slice]:
    """The first and the second channel of every pair."""
    if pairing == "half":
        return slice(0, width // 2), slice(width // 2, width)
    return slice(0, width, 2), slice(1, width, 2)


def turned(x: Array, cos: Array, sin: Array, pairing: str) -> Array:
    """x (..., channels) turned in its own number format by tables (..., pairs)."""
    first, second = channels(x.shape[-1], pairing)
    y = np.empty_like(x)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def sum_of_magnitudes(x: Array, pairing: str) -> Array:
    """|x_first| + |x_second| in both channels of a pair: what a rotation's errors are relative to."""
    first, second = channels(x.shape[-1], pairing)
    y = np.empty_like(x)
    y[..., first] = y[..., second] = np.abs(x[..., first]) + np.abs(x[..., second])
    return y


@cache
def rotary_tables(length: int, width: int) -> tuple[Array, Array]:
    """cos and sin (length, pairs): the real numbers rounded once to float32."""
    rows = [oracle_rope.cos_sin(position, width) for position in range(length)]
    cos = rounded_rows([cosines for cosines, _ in rows], "float32")
    sin = rounded_rows([sines for _, sines in rows], "float32")
    return cos.astype(np.float32), sin.astype(np.float32)


@cache
def encodings(start: int, stop: int, layout: str) -> Array:
    """Sinusoidal rows (positions, 384) of those positions: the real numbers rounded once to float32."""
    rows = [oracle_sinusoidal.encoding(position, 384, layout=layout) for position in range(start, stop)]
    return rounded_rows(rows, "float32").astype(np.float32)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_words_and_positions_turn_in_their_heads(client: Client, pairing: str) -> None:
    q = WORDS[: len(PLACES)].reshape(-1, HEADS, HEAD_DIM)
    k = PLACES.reshape(-1, HEADS, HEAD_DIM)
    answers = posted(client, ROTATE, {"q": q, "k": k}, pairing=pairing, axes="length-heads")
    cos, sin = (table[:, None, :] for table in rotary_tables(len(q), HEAD_DIM))
    assert np.array_equal(answers["q"], turned(q, cos, sin, pairing))
    assert np.array_equal(answers["k"], turned(k, cos, sin, pairing))
    # The same words with their heads before their positions are the same vectors.
    swapped = posted(client, ROTATE, {"q": q.swapaxes(0, 1)}, pairing=pairing)
    assert np.array_equal(swapped["q"].swapaxes(0, 1), answers["q"])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_words_turn_whole_as_one_npy(client: Client, pairing: str) -> None:
    cos, sin = rotary_tables(len(WORDS), 384)
    answer = posted_npy(client, ROTATE, WORDS, pairing=pairing)
    assert answer.dtype == np.float32
    assert np.array_equal(answer, turned(WORDS, cos, sin, pairing))
    assert np.abs(answer - WORDS).max() > 0.05
    there_and_back = posted_npy(client, ROTATE, answer, pairing=pairing, direction="inverse")
    assert (np.abs(there_and_back - WORDS) <= 8 * EPS * sum_of_magnitudes(WORDS, pairing).max()).all()


@pytest.mark.parametrize("layout", ["interleaved", "sin-cos"])
def test_words_get_the_encoding_of_their_position(client: Client, layout: str) -> None:
    encoding = encodings(0, len(WORDS), layout)
    as_npy = posted_npy(client, ADD, WORDS, layout=layout)
    as_safetensors = posted(client, ADD, {"x": WORDS}, layout=layout)
    assert np.array_equal(as_npy, WORDS + encoding)
    assert np.array_equal(as_safetensors["x"], WORDS + encoding)


def test_words_are_scaled_by_the_root_of_their_width_as_in_the_paper(client: Client) -> None:
    encoding = encodings(40, 40 + len(PLACES), "interleaved")
    answer = posted(client, ADD, {"x": PLACES}, offset=40, embedding_scale="sqrt-dim")
    assert np.array_equal(answer["x"], PLACES * np.float32(np.sqrt(384)) + encoding)


def test_the_slice_is_64_words_and_32_positions() -> None:
    assert WORDS.shape == (64, 384)
    assert PLACES.shape == (32, 384)
    assert 0.03 < WORDS.std() < 0.1  # trained embeddings, not a placeholder


@pytest.mark.oracle
def test_the_slice_is_the_distributions() -> None:
    for name, array in build().items():
        assert np.array_equal(array, SLICE[name]), name
    words, places = whole_tables()
    assert np.array_equal(words[WORD_IDS], WORDS)
    assert np.array_equal(places[:POSITIONS], PLACES)


@pytest.mark.oracle
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_the_whole_vocabulary_turns(client: Client, pairing: str) -> None:
    words, places = whole_tables()
    assert words.shape == (30522, 384)
    assert places.shape == (512, 384)
    q = words.reshape(-1, HEADS, HEAD_DIM)
    angles = np.arange(len(q))[:, None] * 10000.0 ** (-np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    answer = posted(client, ROTATE, {"q": q}, pairing=pairing, axes="length-heads")
    error = np.abs(answer["q"] - turned(q.astype(np.float64), cos, sin, pairing))
    assert (error <= 3 * EPS * sum_of_magnitudes(q.astype(np.float64), pairing)).all()

    angles = np.arange(len(places))[:, None] * 10000.0 ** (-np.arange(192) / 192)
    as_npy = posted_npy(client, ROTATE, places, pairing=pairing)
    error = np.abs(as_npy - turned(places.astype(np.float64), np.cos(angles), np.sin(angles), pairing))
    assert (error <= 3 * EPS * sum_of_magnitudes(places.astype(np.float64), pairing)).all()


@pytest.mark.oracle
def test_the_whole_vocabulary_gets_its_encoding(client: Client) -> None:
    words, places = whole_tables()
    for x, answer in (
        (words, posted_npy(client, ADD, words)),
        (places, posted(client, ADD, {"x": places})["x"]),
    ):
        angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(192) / 192)
        encoding = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(x), 384)
        exact = x + encoding
        # Half an ulp of the encoding (below one) and half an ulp of the sum.
        assert (np.abs(answer - exact) <= EPS / 2 + EPS * np.abs(exact)).all()
