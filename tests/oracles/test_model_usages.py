"""What models do with encodings: embeddings, projections and scores of transformers, torchtune and PyTorch."""

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_elsewhere import HEAD_DIM, HEADS
from tests.golden.make_usages import MASK, START, TOKENS
from tests.oracles import oracle_sinusoidal
from tests.oracles.answers import Query, asked, posted
from tests.oracles.exact import rounded_rows
from tests.oracles.usages import proves

EPS = 2.0**-24


@proves("apply/sinusoidal", {"marian": "marian ctrl", "fairseq": "m2m100"})
def test_embeddings_before_the_first_layer(direct: Client, usages: Numbers, usage: Usage, oracle: str) -> None:
    x = usages["x"][TOKENS]
    ours = posted(direct, "/v1/apply/sinusoidal", {"x": x}, **usage.parameters)["x"]
    for name in oracle.split():
        # Their frequencies are off by five ulp at most, at positions up to 7; then sine, product and sum.
        assert (np.abs(ours - usages[name]) <= (7 * 10 + 4) * EPS + 2 * EPS * np.abs(ours)).all()


@proves("apply/sinusoidal", {"vaswani": oracle_sinusoidal})
def test_embeddings_as_the_paper_has_them(direct: Client, usages: Numbers, usage: Usage, oracle: object) -> None:
    x = usages["x"][TOKENS].astype(np.float64)
    assert oracle is oracle_sinusoidal
    table = rounded_rows(
        [oracle_sinusoidal.encoding(position, x.shape[-1]) for position in range(x.shape[1])], "float64"
    )
    ours = posted(direct, "/v1/apply/sinusoidal", {"x": x}, **usage.parameters)["x"]
    np.testing.assert_allclose(ours, 4 * x + table, rtol=0, atol=1e-14)


@proves(
    "permutations/rope",
    {"weights of Meta's Llama for Hugging Face's code": "torchtune.half", "and the way back": "torchtune.interleaved"},
)
def test_projections_between_pairings_are_torchtunes(direct: Client, usage: Usage, oracle: str) -> None:
    named: dict[str, Query] = {"dim": HEAD_DIM, "heads": HEADS, **usage.parameters}
    ours = asked(direct, "/v1/permutations/rope", **named)["permutation"]
    assert np.array_equal(ours, load("elsewhere")[oracle])


@proves("apply/mask", {"transformers eager attention": "eager", "PyTorch masked_fill": "filled"})
def test_masked_scores(direct: Client, usages: Numbers, usage: Usage, oracle: str) -> None:
    body = {"x": usages["scores"], "mask": MASK}
    ours = posted(direct, "/v1/apply/mask", body, **usage.parameters)["x"]
    assert ours.tobytes() == usages[oracle].tobytes()


@proves(
    "apply/permutation",
    {
        "weights of Meta's Llama for Hugging Face's code": "torchtune.half",
        "and the way back (llama.cpp)": "torchtune.interleaved",
    },
)
def test_weights_are_torchtunes(direct: Client, usage: Usage, oracle: str) -> None:
    weights = np.random.default_rng(3).standard_normal((HEADS * HEAD_DIM, 5)).astype(np.float32)
    ours = posted(direct, "/v1/apply/permutation", {"x": weights}, dim=HEAD_DIM, **usage.parameters)["x"]
    assert ours.tobytes() == weights[load("elsewhere")[oracle]].tobytes()


@proves("apply/rope", {"gptj": "gptj"})
def test_gptjs_first_channels(direct: Client, usages: Numbers, usage: Usage, oracle: str) -> None:
    q = usages[f"{oracle}.q"]
    ours = posted(direct, "/v1/apply/rope", {"q": q}, axes="length-heads", offset=START, **usage.parameters)["q"]
    assert np.array_equal(ours[..., 64:], q[..., 64:])
    # Their float32 angles, at positions up to 13, then two products and a sum.
    assert np.abs(ours - usages[f"{oracle}.rotated"]).max() <= (START + 5) * 3 * EPS * np.abs(q).max() * 2
    assert ours == pytest.approx(usages[f"{oracle}.rotated"], abs=1e-5)
