"""Rotary tables and rotations against rotary-embedding-torch and x-transformers, live: language, xPos, pixels."""

from typing import Any

import numpy as np
import pytest

from service.engine.rounding import DTYPES
from service.engine.scheme import Usage
from tests.engine.answers import Array, answer, only
from tests.golden.frozen import library
from tests.oracles.exact import ulps_apart
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

ROPE, TURN = "encodings/rope", "apply/rope"
LENGTH = 70
EPS = 2.0**-23


def torch() -> Any:
    return library("torch")


def embedding(dim: int, **options: Any) -> Any:
    return library("rotary_embedding_torch").RotaryEmbedding(dim, **options)


def vectors(dim: int) -> Array:
    return np.random.default_rng(dim).uniform(-4, 4, (2, 3, LENGTH, dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [24, 64])
@proves(ROPE, {"rotary-embedding-torch": "freqs"})
def test_frequencies(usage: Usage, oracle: str, dim: int) -> None:
    for rescale in (1.0, 8.3):
        theirs = getattr(embedding(dim, theta_rescale_factor=rescale), oracle)
        scaling = {"rope_type": "ntk_aware", "factor": rescale}
        ours = only(ROPE, dim=dim, **usage.parameters, **scaling, output="frequencies")
        assert ulps_apart(ours, theirs.detach().numpy()).max() <= 2
    constant = embedding(dim, freqs_for="constant", num_freqs=dim // 2)
    ours = only(ROPE, dim=dim, **usage.parameters, base=1.0, output="frequencies")
    assert np.array_equal(ours, getattr(constant, oracle).detach().numpy())


@proves(ROPE, {"rotary-embedding-torch": 8192})
def test_positions_are_divided_and_not_frequencies(usage: Usage, oracle: int) -> None:
    """The angles are the same bits where the frequencies are; by 3, for a power of two divides both alike."""
    module = embedding(24, interpolate_factor=3.0, cache_if_possible=False)
    theirs = module(module.get_seq_pos(oracle), seq_len=oracle)[:, ::2].detach().numpy()
    given: dict[str, Any] = {**usage.parameters, "dim": 24}
    same = only(ROPE, **given, output="frequencies") == module.freqs.detach().numpy()
    given |= {"rope_type": "linear", "factor": 3.0, "length": oracle, "output": "angles"}
    assert np.array_equal(only(ROPE, **given)[:, same], theirs[:, same])
    assert not np.array_equal(only(ROPE, **{**given, "linear_scaling": "frequency"})[:, same], theirs[:, same])
    assert same.mean() > 0.5


@pytest.mark.parametrize("interpolate", [1.0, 3.0])
@proves(TURN, {"rotary-embedding-torch": "rotate_queries_or_keys"})
def test_a_rotation_and_a_cached_step(usage: Usage, oracle: str, interpolate: float) -> None:
    x = vectors(24)
    rotate = getattr(embedding(24, interpolate_factor=interpolate), oracle)
    scaling = {"rope_type": "linear", "factor": interpolate}
    bound = 8 * ((LENGTH + 40) * 3 * EPS + 3 * EPS)
    for offset in (0, 40):
        ours = only(TURN, {"q": x}, **usage.parameters, **scaling, offset=offset)
        assert np.abs(ours - rotate(torch().tensor(x), offset=offset).detach().numpy()).max() <= bound
        assert np.abs(ours - x).max() > 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@proves(TURN, {"rotary-embedding-torch": 200})
def test_vectors_of_16_bits_turn_in_float32(usage: Usage, oracle: int, dtype: str) -> None:
    """x-transformers too; rotary-embedding-torch has positions in the vectors' format: in bfloat16 exact up to 256."""
    x = np.random.default_rng(1).uniform(-4, 4, (1, 2, oracle, 64)).astype(DTYPES[dtype])
    given = torch().tensor(x.view(np.int16)).view(getattr(torch(), dtype))
    ours = only(TURN, {"q": x}, **usage.parameters)
    rotary = library("x_transformers.x_transformers")
    frequencies, _ = rotary.RotaryEmbedding(64)(torch().arange(oracle))
    for theirs in (
        embedding(64).rotate_queries_or_keys(given),
        rotary.apply_rotary_pos_emb(given, frequencies),
    ):
        bits = theirs.detach().contiguous().view(torch().int16).numpy()
        assert (ours.view(np.int16) != bits).mean() <= 1e-3
    rounded = only(TURN, {"q": x}, **{**usage.parameters, "table_dtype": dtype})
    assert (rounded != ours).mean() > 0.1


@pytest.mark.parametrize(("rescale", "interpolate"), [(1.0, 1.0), (8.3, 1.0), (1.0, 4.0)])
def test_x_transformers(rescale: float, interpolate: float) -> None:
    """Its tables, and vectors turned by them; with xPos, queries and keys."""
    rotary = library("x_transformers.x_transformers")
    x = vectors(24)
    for xpos in (False, True):
        module = rotary.RotaryEmbedding(
            24, use_xpos=xpos, base_rescale_factor=rescale, interpolation_factor=interpolate
        )
        angles, scale = module(torch().arange(LENGTH))
        given: dict[str, Any] = {"pairing": "interleaved", "arithmetic": "float32", "rope_type": "ntk_aware"}
        given["factor"] = rescale
        if interpolate != 1:
            given |= {"rope_type": "linear", "factor": interpolate}
        if xpos:
            given |= {"xpos_scale_base": 512, "xpos_center": LENGTH // 2}
        else:
            ours = answer(ROPE, dim=24, length=LENGTH, **given)
            bound = LENGTH * 4 * EPS
            assert np.abs(ours["cos"] - angles.cos()[0].numpy()).max() <= bound
            assert np.abs(ours["sin"] - angles.sin()[0].numpy()).max() <= bound
        turned = answer(TURN, {"q": x, "k": x}, **given)
        for name, power in (("q", 1), ("k", -1)):
            theirs = rotary.apply_rotary_pos_emb(torch().tensor(x), angles, scale**power)
            assert np.abs(turned[name] - theirs.numpy()).max() <= 8 * (LENGTH * 4 * EPS + 9 * EPS)
        assert np.abs(turned["q"] - x).max() > 1


def test_xpos_of_queries_and_of_keys_alone() -> None:
    q, k = vectors(24), vectors(24)[:, ::-1].copy()
    module = embedding(24, use_xpos=True)
    theirs = module.rotate_queries_and_keys(torch().tensor(q), torch().tensor(k))
    given: dict[str, Any] = {"pairing": "interleaved", "xpos_scale_base": 512, "xpos_center": LENGTH // 2}
    ours = answer(TURN, {"q": q, "k": k}, **given)
    for name, turned in zip("qk", theirs, strict=True):
        assert np.abs(ours[name] - turned.detach().numpy()).max() <= 8 * (LENGTH * 3 * EPS + 9 * EPS)
    alone = only(TURN, {"q": k}, **given, xpos_role="key")
    assert alone.tobytes() == ours["k"].tobytes()
    assert np.abs(only(TURN, {"q": k}, **given) - alone).max() > 1e-2


@pytest.mark.parametrize("length", [9, 70])
@proves(TURN, {"rotary-embedding-torch": "rotate_queries_and_keys"})
def test_the_preset_has_xpos_in_the_middle(usage: Usage, oracle: str, length: int) -> None:
    q, k = (each[:, :, :length].copy() for each in (vectors(24), vectors(24)[:, ::-1]))
    theirs = getattr(embedding(24, use_xpos=True), oracle)(torch().tensor(q), torch().tensor(k))
    ours = answer(TURN, {"q": q, "k": k}, **usage.parameters, xpos_scale_base=512)
    for name, turned in zip("qk", theirs, strict=True):
        assert np.abs(ours[name] - turned.detach().numpy()).max() <= 8 * (length * 3 * EPS + 9 * EPS)


@pytest.mark.parametrize("grid", [(3, 5), (16, 7)])
@proves("encodings/rope-axes", {"rotary-embedding-torch-pixels": "get_axial_freqs"})
def test_pixels(usage: Usage, oracle: str, grid: tuple[int, int]) -> None:
    theirs = getattr(embedding(32, freqs_for="pixel", max_freq=256), oracle)(*grid)
    theirs = theirs.detach().reshape(grid[0] * grid[1], 64).numpy()
    given = {**usage.parameters, "grid": ",".join(map(str, grid))}
    ours = only("encodings/rope-axes", **given, output="angles", dtype="float64")
    # linspaces and products in float32, of angles up to 128 pi.
    assert np.abs(np.repeat(ours, 2, axis=1) - theirs).max() <= 128 * np.pi * 4 * EPS
    tables = answer("encodings/rope-axes", **given)
    assert np.abs(tables["cos"] - np.cos(theirs)).max() <= 128 * np.pi * 4 * EPS + EPS
    assert np.abs(tables["sin"] - np.sin(theirs)).max() <= 128 * np.pi * 4 * EPS + EPS


def test_axes_in_language_frequencies() -> None:
    theirs = embedding(32).get_axial_freqs(5, 7).detach().reshape(35, 64).numpy()
    ours = only("encodings/rope-axes", dim=64, sections=(16, 16), frequencies="per-axis", pairing="interleaved",
                grid=(5, 7), output="angles")  # fmt: skip
    assert np.abs(np.repeat(ours, 2, axis=1) - theirs).max() <= 7 * 3 * EPS
