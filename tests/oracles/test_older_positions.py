"""Positions of transformers 4.57.1, which goes on behind every position, and fills with 1: from a frozen file."""

import json

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import load
from tests.golden.make_multimodal import PADDING, SEEDS
from tests.oracles.answers import from_json, posted
from tests.oracles.usages import proves

PROVED = {
    "qwen2-vl-4": ("qwen2_vl", "qwen3_vl"),
    "qwen2-5-vl-4": ("qwen2_5_vl",),
    "transformers-4.57": ("qwen2_vl", "qwen3_vl"),
}


@pytest.mark.parametrize("seed", SEEDS)
@proves("positions/multimodal", PROVED)
def test_positions_and_delta_are_equal(direct: Client, usage: Usage, oracle: tuple[str, ...], seed: int) -> None:
    frozen = load("multimodal")
    for model in oracle:
        body = {"segments": json.loads(str(frozen[f"{model}.{seed}.segments"]))}
        answer = direct.post("/v1/positions/multimodal", params={"preset": usage.preset}, json=body).json()
        assert np.array_equal(from_json(answer["tensors"]["positions"]), frozen[f"{model}.{seed}.positions"])
        assert answer["facts"]["rope_delta"] == int(frozen[f"{model}.{seed}.delta"])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", ["left", "right"])
@proves("positions/multimodal", PROVED)
def test_padding_holds_1_and_the_delta_counts_it(
    direct: Client, usage: Usage, oracle: tuple[str, ...], side: str, seed: int
) -> None:
    frozen = load("multimodal")
    for model in oracle:
        theirs = frozen[f"{model}.{seed}.{side}.positions"]
        assert (theirs == 1).all(axis=0).sum() >= PADDING
        body = {"segments": json.loads(str(frozen[f"{model}.{seed}.segments"]))}
        given = {"preset": usage.preset, "padded_length": theirs.shape[1], "padding_side": side}
        answer = direct.post("/v1/positions/multimodal", params=given, json=body).json()
        assert np.array_equal(from_json(answer["tensors"]["positions"]), theirs)
        assert answer["facts"]["rope_delta"] == int(frozen[f"{model}.{seed}.{side}.delta"])


@proves("positions/from-mask", {"transformers-4.57": "generation"})
def test_generation_fills_with_1(direct: Client, usage: Usage, oracle: str) -> None:
    frozen = load("multimodal")
    ours = posted(direct, "/v1/positions/from-mask", {"attention_mask": frozen[f"{oracle}.mask"]}, preset=usage.preset)
    assert np.array_equal(ours["positions"], frozen[f"{oracle}.positions"])


@pytest.mark.parametrize("seed", SEEDS)
@proves("positions/multimodal", {"vllm": "qwen2_vl"})
def test_vllm_goes_on_as_that_release(direct: Client, usage: Usage, oracle: str, seed: int) -> None:
    """Its function was read beside this release's: the same steps, but that no row is padded."""
    frozen = load("multimodal")
    body = {"segments": json.loads(str(frozen[f"{oracle}.{seed}.segments"]))}
    answer = direct.post("/v1/positions/multimodal", params={"preset": usage.preset}, json=body).json()
    assert np.array_equal(from_json(answer["tensors"]["positions"]), frozen[f"{oracle}.{seed}.positions"])
    assert answer["facts"]["rope_delta"] == int(frozen[f"{oracle}.{seed}.delta"])


@pytest.mark.parametrize("seconds", [0.5, 0.04, 1.7, 2 / 3])
@proves("positions/multimodal", {"vllm": 25})
def test_vllms_time_of_a_frame(direct: Client, usage: Usage, oracle: int, seconds: float) -> None:
    """`arange(t) * seconds * rate`, in that order and in float32, truncated."""
    frames = 40
    body = {"segments": [{"type": "video", "grid": [frames, 2, 2], "seconds_per_grid": seconds}]}
    given = {"preset": usage.preset, "positions_per_second": oracle}
    answer = direct.post("/v1/positions/multimodal", params=given, json=body).json()
    expected = (np.arange(frames, dtype=np.float32) * np.float32(seconds) * np.float32(oracle)).astype(np.int64)
    assert np.array_equal(from_json(answer["tensors"]["positions"])[0], expected)


def test_the_newer_release_goes_on_elsewhere(direct: Client) -> None:
    """The two ways differ where a video has more frames than its grid has rows or columns."""
    frozen = load("multimodal")
    body = {"segments": json.loads(str(frozen["qwen2_5_vl.1.segments"]))}
    answer = direct.post("/v1/positions/multimodal", params={"preset": "qwen2-5-vl"}, json=body).json()
    assert answer["facts"]["rope_delta"] < int(frozen["qwen2_5_vl.1.delta"])
