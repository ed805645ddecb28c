"""Attention that sees less than all, of models without layer types: what plans say of it."""

import numpy as np
import pytest

from service.models import Options, Use, resolve
from service.models.plan import Window
from tests.models.plans import answers, refused, said


def of(name: str, role: str, length: int = 128, **keys: object) -> Use:
    [use, *_] = [
        each for each in resolve({"model_type": name, **keys}, Options(length=length)).uses if each.role == role
    ]
    return use


def test_longt5_sees_a_radius() -> None:
    use = of("longt5", "encoder-attention", length=9, local_radius=2)
    [mask] = answers(use.addresses["mask"]).values()
    rows = np.arange(9)
    assert np.array_equal(mask, np.abs(rows[:, None] - rows[None]) <= 2)
    assert use.window == Window("bidirectional", 2)
    whole = of("longt5", "encoder-attention", encoder_attention_type="transient-global", global_block_size=4)
    assert said(whole, "sum of each whole block of 4 tokens")
    assert not said(use, "whole block")
    assert "masks/causal" in of("longt5", "decoder-attention").addresses["mask"].href
    place, detail = refused({"model_type": "longt5", "encoder_attention_type": "globl"})
    assert (place, detail[:30]) == ("/encoder_attention_type", "encoder_attention_type is glob")


@pytest.mark.parametrize(("name", "role"), [("big_bird", "text-attention"), ("bigbird_pegasus", "encoder-attention")])
def test_bigbirds_blocks(name: str, role: str) -> None:
    use = of(name, role)
    assert (use.facts["block_size"], use.facts["full_up_to"]) == (64, 704)
    assert "masks/padding" in use.addresses["mask"].href
    far = of(name, role, length=705)
    assert "mask" not in far.addresses
    assert said(far, "up to 704 tokens attention is full; beyond, in blocks of 64")
    full = of(name, role, length=705, attention_type="original_full")
    assert "masks/padding" in full.addresses["mask"].href
    assert not said(full, "704")
    assert refused({"model_type": name, "attention_type": "sparse"})[0] == "/attention_type"
    masks = [use for use in resolve({"model_type": name}, Options(length=705)).uses if "mask" in use.addresses]
    assert [use.role for use in masks] == ([] if name == "big_bird" else ["decoder-embeddings", "cross-attention"])


def test_a_bigbird_that_decodes() -> None:
    use = of("big_bird", "text-attention", attention_type="original_full", is_decoder=True)
    assert "masks/causal" in use.addresses["mask"].href


def test_chunks_and_those_before_them() -> None:
    """The mask of whole chunks is block-causal as long as no chunk is too far back."""
    near = of("nemotron_asr_streaming_encoder", "audio-tower", length=84)
    assert (near.facts["chunk_size"], near.facts["chunks_behind"]) == (14, 5)
    assert "masks/block?block_size=14&length=84&reach=causal" in near.addresses["mask"].href
    far = of("nemotron_asr_streaming_encoder", "audio-tower", length=85)
    assert "mask" not in far.addresses
    assert said(far, "no mask of this service is that beyond 84 positions")
    alone = of("nemotron_asr_streaming_encoder", "audio-tower", sliding_window=3, default_num_lookahead_tokens=3)
    assert "reach=diagonal" in alone.addresses["mask"].href
    endless = of("nemotron_asr_streaming_encoder", "audio-tower", sliding_window=0)
    assert (endless.facts["chunks_behind"], "reach=causal" in endless.addresses["mask"].href) == (None, True)


def test_seamless_speech() -> None:
    use = of("seamless_m4t_v2", "audio-tower", speech_encoder_chunk_size=4, speech_encoder_left_chunk_num=1)
    assert "mask" not in use.addresses
    assert said(use, "in chunks of 4 a query sees its own chunk, both ways, and 1 before it")
    endless = of("seamless_m4t_v2", "audio-tower", speech_encoder_chunk_size=4, speech_encoder_left_chunk_num=-1)
    assert said(endless, "and all before it")
    assert "reach=causal" in endless.addresses["mask"].href
    assert "masks/padding" in of("seamless_m4t_v2", "encoder-embeddings").addresses["mask"].href


def test_frames_of_qwens_audio() -> None:
    use = of("qwen2_5_omni_audio_encoder", "audio-tower", n_window=5)
    assert said(use, "positions begin again at 0 in each chunk of 5 rows, which are 10 frames")
    assert "masks/block?block_size=5&length=128&reach=diagonal" in use.addresses["mask"].href
    for name in ("qwen3_omni_moe_audio_encoder", "qwen3_asr_encoder"):
        use = of(name, "audio-tower")
        assert (use.facts["rows_of_a_chunk"], said(use, "attention stays within 104 rows")) == (13, True)
        assert refused({"model_type": name, "n_window": 40})[0] == "/n_window"
        assert refused({"model_type": name, "n_window_infer": 99})[0] == "/n_window_infer"


def test_frames_of_gemmas_audio() -> None:
    use = of("gemma3n_audio", "audio-tower")
    assert use.window == Window("sliding", 13)
    assert "masks/sliding?window=13&" in use.addresses["mask"].href
    both = of("gemma3n_audio", "audio-tower", conf_attention_context_left=4, conf_attention_context_right=2, length=9)
    assert both.window == Window("bidirectional", 3, ahead=2)
    [mask] = answers(both.addresses["mask"]).values()
    apart = np.arange(9)[:, None] - np.arange(9)[None]
    assert np.array_equal(mask, (apart <= 3) & (apart >= -2))
    assert of("gemma4_audio", "audio-tower").window == Window("sliding", 12)
    assert of("gemma4_audio", "audio-tower", attention_context_right=3).window == Window("bidirectional", 11, ahead=2)


def test_pegasus_x_sees_blocks() -> None:
    use = of("pegasus_x", "encoder-embeddings", block_size=8)
    assert "mask" not in use.addresses
    assert said(use, "every second layer's blocks begin 4 earlier")
    plain = of("pegasus_x", "encoder-embeddings", block_size=8, stagger_local_blocks=False)
    assert "masks/block?block_size=8&length=128&reach=diagonal" in plain.addresses["mask"].href
    assert not said(plain, "earlier")


def test_canine_has_as_many_positions_as_hashes() -> None:
    assert of("canine", "token-embeddings", num_hash_buckets=64, max_position_embeddings=32).facts["table"] == [64, 768]


def test_canine_has_a_local_layer() -> None:
    use = of("canine", "text-attention")
    assert said(use, "chunks of 128 characters")
    assert "masks/block?block_size=128&" in use.addresses["mask"].href


def reformer(kind: str, length: int = 128, **keys: object) -> Use:
    uses = resolve({"model_type": "reformer", **keys}, Options(length=length)).uses
    [use] = [each for each in uses if each.layer_type == kind]
    return use


def test_reformers_layers() -> None:
    local, hashed = reformer("local"), reformer("lsh")
    assert (local.layers, hashed.layers) == ((0, 2, 4), (1, 3, 5))
    assert "mask" not in local.addresses
    assert "mask" not in hashed.addresses
    assert said(local, "the first and the last chunk are neighbours")
    assert said(hashed, "sorted by their hashes into chunks of 64")
    assert "masks/padding" in reformer("local", length=64).addresses["mask"].href
    alone = reformer("local", local_num_chunks_before=0)
    assert "masks/block?block_size=64" in alone.addresses["mask"].href
    assert not said(alone, "neighbours")


def test_a_reformer_that_decodes() -> None:
    assert "masks/causal" in reformer("local", is_decoder=True).addresses["mask"].href
    assert "mask" not in reformer("local", length=129, is_decoder=True).addresses
    assert said(reformer("local", is_decoder=True), "and nothing after itself")
    alone = reformer("local", is_decoder=True, local_num_chunks_before=0)
    assert "masks/chunked?chunk_size=64" in alone.addresses["mask"].href
    place, detail = refused({"model_type": "reformer", "is_decoder": True, "local_num_chunks_after": 1})
    assert (place, "demands 0" in detail) == ("/local_num_chunks_after", True)
    [use] = [use for use in resolve({"model_type": "reformer", "attn_layers": ["lsh"]}).uses if use.layer_type]
    assert use.layer_type == "lsh"


@pytest.mark.parametrize(
    ("listed", "place"), [([], "/attn_layers"), (["local", "far"], "/attn_layers/1"), ([3], "/attn_layers/0")]
)
def test_layers_that_reformer_does_not_have(listed: list[object], place: str) -> None:
    assert refused({"model_type": "reformer", "attn_layers": listed})[0] == place
