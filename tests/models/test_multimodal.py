"""Position ids in plans of models that turn by several axes: what is counted by what, from which key of the file."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from service.models import Options, Use, resolve
from service.models.multimodal import NOTE
from tests.clients import Client
from tests.models.fixtures import fetched
from tests.models.plans import plan, said, values


def turning(config: dict[str, Any], options: Options | None = None) -> Use:
    uses = resolve(config, options or Options()).uses
    return next(use for use in uses if use.encoding == "rope" and use.role == "text-attention")


def query(use: Use) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(use.addresses["positions"].href).query).items()}


def test_a_picture_lies_still_in_time(direct: Client) -> None:
    """By hand: three words, four by six tokens, three words behind the longer side, and so on with a video."""
    use = turning({"model_type": "qwen2_vl", "vision_config": {"spatial_merge_size": 4}})
    ours = fetched(direct, use.addresses["positions"].document())["positions"]
    words = np.repeat([[0, 1, 2]], 3, axis=0)
    rows, columns = np.divmod(np.arange(24), 6)
    picture = np.stack([0 * rows, rows, columns]) + 3
    video = np.concatenate([picture, picture + np.array([[1], [0], [0]])], axis=1)
    assert np.array_equal(ours, np.concatenate([words, picture, words + 9, video + 9, words + 18], axis=1))
    assert said(use, NOTE)


def test_seconds_of_the_file() -> None:
    vision = {"tokens_per_second": 2, "spatial_merge_size": 2}
    assert query(turning({"model_type": "qwen2_5_vl", "vision_config": vision}))["positions_per_second"] == "2"
    assert query(turning({"model_type": "qwen2_5_vl"}))["positions_per_second"] == "4"


def test_merges_of_ernie_and_of_a_talker() -> None:
    use = turning({"model_type": "ernie4_5_vl_moe", "vision_config": {"temporal_merge_size": 3}})
    assert query(use)["temporal_merge_size"] == "3"
    assert (use.addresses["positions"].body or {})["segments"][3]["grid"] == [6, 8, 12]
    use = turning({"model_type": "qwen2_5_omni_talker", "spatial_merge_size": 4})
    assert query(use)["spatial_merge_size"] == "4"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "minicpmv4_7"}, "share the canvas"),
        ({"model_type": "neomme"}, "rows and columns are the caller's own"),
        ({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"head_dim": 128}}}, "is missing"),
    ],
)
def test_what_is_not_counted_is_said(config: dict[str, Any], words: str) -> None:
    found = [use for use in resolve(config, Options()).uses if said(use, words)]
    assert found
    assert all("positions" not in use.addresses for use in found)


@pytest.mark.parametrize("preset", ["vllm", "llama.cpp"])
def test_other_programs_count_by_code_of_their_own(preset: Any) -> None:
    use = turning({"model_type": "qwen2_vl"}, Options(preset=preset))
    assert "positions" not in use.addresses
    assert said(use, f"{preset} counts them")


def test_text_alone_and_other_models_have_no_such_address() -> None:
    for config in ({"model_type": "qwen2_vl_text"}, {"model_type": "llava"}):
        assert "positions" not in turning(config).addresses


def test_sections_that_follow_the_width() -> None:
    """Of NeoMME half of all pairs each; of Hy 4 and Qwen 4 three axes."""
    wide, narrow = (
        next(use for use in plan("neomme", num_attention_heads=1, head_dim=64).uses if use.layer_type == label)
        for label in ("sliding_attention", "full_attention")
    )
    assert (wide.facts["mrope_section"], narrow.facts["mrope_section"]) == ([16, 16], [4, 4])
    use = turning({"model_type": "hy_v4_vl"})
    assert (use.facts["mrope_section"], values(use)["pairing"]) == ([12, 10, 10], "interleaved")
