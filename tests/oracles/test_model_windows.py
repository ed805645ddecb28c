"""Attention that sees less than all, of models without layer types: the attention module alone, as the model runs it.

What the model hands to the module is taken down while it runs; then single rows are changed. Those rows whose answer
changes have seen them.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.models.fixtures import fetched, resolved
from tests.oracles.live_models import Array
from tests.oracles.test_first_rows import model_of

pytestmark = pytest.mark.oracle

TINY: Mapping[str, Any] = {"num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
HEADS = {"d_model": 16, "encoder_attention_heads": 2, "encoder_layers": 1, "encoder_ffn_dim": 8, "num_mel_bins": 8}


class Seen(Exception):
    """What the attention was given, thrown to leave the model."""


def given_to(module: Any, run: Any) -> tuple[list[Any], dict[str, Any]]:
    def stop(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        raise Seen(list(given), dict(named))

    hook = module.register_forward_pre_hook(stop, with_kwargs=True)
    with library("torch").no_grad(), pytest.raises(Seen) as seen:
        run()
    hook.remove()
    return seen.value.args[0], seen.value.args[1]


def visible(module: Any, run: Any) -> Array:
    """Whether a row's answer changes with the row of a column."""
    torch = library("torch")
    given, named = given_to(module, run)
    states = named.pop("hidden_states", None)
    states = given.pop(0) if states is None else states
    torch.manual_seed(2)
    states = torch.randn_like(states)

    def answer(states: Any) -> Any:
        found = module(states, *given, **named)
        return (found if isinstance(found, torch.Tensor) else found[0]).reshape(states.shape)

    count = states.shape[-2]
    with torch.no_grad():
        plain, columns = answer(states), []
        for column in range(count):
            other = states.clone()
            other[..., column, :] += torch.randn(states.shape[-1])
            columns.append(((answer(other) - plain).abs().amax(-1) > 1e-6).reshape(count).numpy())
    return np.stack(columns, 1)


def expected(client: Client, use: dict[str, Any], count: int, *, causal: bool = False) -> Array:
    """What the plan says: its mask, and its numbers of chunks."""
    found = []
    if "mask" in use["addresses"]:
        address = use["addresses"]["mask"]
        if "/padding" in address["href"]:
            address = {**address, "body": {"tensors": {"attention_mask": [1] * count}}}
        change = {} if f"length={count}" in address["href"] else {"length": str(count)}
        [mask] = fetched(client, address, **change).values()
        found.append(mask.astype(bool).reshape(count, count))
    size = use["facts"].get("chunk_size")
    if size:
        chunk = np.arange(count) // size
        behind, apart = use["facts"]["chunks_behind"], chunk[:, None] - chunk[None]
        chunks = -(-count // size)
        if "chunks_ahead" in use["facts"] and not causal:
            ahead = use["facts"]["chunks_ahead"]
            seen = np.isin((apart + ahead) % chunks, np.arange(behind + ahead + 1))
        else:
            seen = (apart >= 0) & (apart <= (chunks if behind is None else behind))
        found.append(seen & np.tri(count, dtype=bool) if causal else seen)
    assert found
    assert all(np.array_equal(each, found[0]) for each in found)
    return found[0]


def use_of(client: Client, name: str, given: Mapping[str, Any], count: int, **wanted: Any) -> dict[str, Any]:
    uses = resolved(client, {"model_type": name, **given}, length=str(count))["uses"]
    [use] = [each for each in uses if all(each[key] == value for key, value in wanted.items())]
    return dict(use)


@pytest.mark.parametrize("radius", [1, 3, 7])
def test_longt5(direct: Client, radius: int) -> None:
    torch, count = library("torch"), 23
    given = {
        "d_model": 16,
        "d_kv": 8,
        "num_heads": 2,
        "num_layers": 1,
        "d_ff": 8,
        "vocab_size": 32,
        "local_radius": radius,
    }
    encoder = model_of("longt5", **given).encoder
    theirs = visible(
        encoder.block[0].layer[0].LocalSelfAttention, lambda: encoder(torch.ones(1, count, dtype=torch.int64))
    )
    ours = expected(direct, use_of(direct, "longt5", given, count, role="encoder-attention"), count)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "given",
    [
        {"sliding_window": 5, "default_num_lookahead_tokens": 1},
        {"sliding_window": 8, "default_num_lookahead_tokens": 2},
        {"sliding_window": 2, "default_num_lookahead_tokens": 3},
        {"sliding_window": 60, "default_num_lookahead_tokens": 1},
        {"sliding_window": 4, "default_num_lookahead_tokens": 0},
        {"sliding_window": 0, "default_num_lookahead_tokens": 1},
    ],
)
def test_nemotrons_lookahead(direct: Client, given: dict[str, int]) -> None:
    torch = library("torch")
    given = {**given, **TINY, "hidden_size": 16, "num_mel_bins": 16, "subsampling_conv_channels": 4}
    model = model_of("nemotron_asr_streaming_encoder", **given)
    features = torch.randn(1, 190, 16)
    theirs = visible(model.layers[0].self_attn, lambda: model(features))
    use = use_of(direct, "nemotron_asr_streaming_encoder", given, len(theirs), role="audio-tower")
    assert len(theirs) > 20
    assert np.array_equal(expected(direct, use, len(theirs)), theirs)


@pytest.mark.parametrize(("size", "behind"), [(4, 1), (5, 0), (6, 9), (3, -1)])
def test_seamless_speech(direct: Client, size: int, behind: int) -> None:
    torch, count = library("torch"), 23
    given = {
        "hidden_size": 16, "speech_encoder_attention_heads": 2, "speech_encoder_layers": 1,
        "speech_encoder_intermediate_size": 8, "feature_projection_input_dim": 6, "speech_encoder_chunk_size": size,
        "speech_encoder_left_chunk_num": behind,
    }  # fmt: skip
    config = library("transformers").CONFIG_MAPPING["seamless_m4t_v2"](**given)
    owner = library("transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2")
    torch.manual_seed(0)
    encoder = owner.SeamlessM4Tv2SpeechEncoder(config).eval()
    theirs = visible(encoder.encoder.layers[0].self_attn, lambda: encoder(torch.randn(1, count, 6)))
    use = use_of(direct, "seamless_m4t_v2", given, count, role="audio-tower")
    assert np.array_equal(expected(direct, use, count), theirs)


@pytest.mark.parametrize(("left", "right"), [(4, 0), (5, 2), (1, 0), (3, 1)])
@pytest.mark.parametrize("name", ["gemma3n_audio", "gemma4_audio"])
def test_gemmas_audio(direct: Client, name: str, left: int, right: int) -> None:
    torch, old = library("torch"), name == "gemma3n_audio"
    if not old and left == 1:
        pytest.skip("Gemma 4 sees nothing with a left context of 1")
    prefix = "conf_" if old else ""
    given = {f"{prefix}attention_context_left": left, f"{prefix}attention_context_right": right,
             f"{prefix}attention_chunk_size": 6, f"{prefix}num_attention_heads": 2, f"{prefix}num_hidden_layers": 1,
             "hidden_size": 16}  # fmt: skip
    model = model_of(name, **given)
    if old:
        module, mask = model.conformer[0].attention, torch.zeros(1, 88, dtype=torch.bool)
        theirs = visible(module, lambda: model(torch.randn(1, 88, 128), mask))
    else:
        module, mask = model.layers[0].self_attn, torch.ones(1, 88, dtype=torch.bool)
        theirs = visible(module, lambda: model(torch.randn(1, 88, 128), mask))
    use = use_of(direct, name, given, len(theirs), role="audio-tower")
    assert np.array_equal(expected(direct, use, len(theirs)), theirs)


@pytest.mark.parametrize("half", [3, 4])
def test_qwens_frames(direct: Client, half: int) -> None:
    """Attention stays in a chunk, whose positions begin anew."""
    torch, given = library("torch"), {**HEADS, "n_window": half, "max_source_positions": 64}
    model = model_of("qwen2_5_omni_audio_encoder", **given)
    frames = torch.randn(8, 10 * half)
    lengths = torch.tensor([10 * half])

    def run() -> Any:
        return model(frames, feature_lens=lengths, aftercnn_lens=(lengths - 1) // 2 + 1)

    theirs = visible(model.layers[0].self_attn, run)
    use = use_of(direct, "qwen2_5_omni_audio_encoder", given, len(theirs), role="audio-tower")
    assert np.array_equal(expected(direct, use, len(theirs)), theirs)
    rows = use["facts"]["rows_of_a_chunk"]
    # Silence is alike in every chunk but for what is added to it: the same in each.
    with torch.no_grad():
        frames.zero_()
        states = given_to(model.layers[0], run)[0][0]
    assert rows == half
    assert torch.equal(states[:rows], states[rows : 2 * rows])
    assert not torch.equal(states[0], states[1])


@pytest.mark.parametrize(("half", "inferred"), [(50, 200), (52, 104)])
def test_qwen3s_frames(direct: Client, half: int, inferred: int) -> None:
    """Attention is in windows of several chunks."""
    torch = library("torch")
    given = {**HEADS, "n_window": half, "n_window_infer": inferred, "max_source_positions": 64, "num_mel_bins": 16,
             "downsample_hidden_size": 4}  # fmt: skip
    model, lengths = model_of("qwen3_omni_moe_audio_encoder", **given), torch.tensor([6 * half])

    def run() -> Any:
        return model(torch.zeros(16, 6 * half), feature_lens=lengths)

    with torch.no_grad():
        states = given_to(model.layers[0], run)[0][0]
    use = use_of(direct, "qwen3_omni_moe_audio_encoder", given, len(states), role="audio-tower")
    rows = use["facts"]["rows_of_a_chunk"]
    assert torch.equal(states[:rows], states[rows : 2 * rows])
    assert not torch.equal(states[0], states[1])
    theirs = visible(model.layers[0].self_attn, run)
    assert np.array_equal(expected(direct, use, len(theirs)), theirs)


REFORMER = {
    "attention_head_size": 8, "hidden_size": 16, "feed_forward_size": 8, "num_attention_heads": 2, "vocab_size": 32,
    "axial_pos_embds": False, "max_position_embeddings": 64, "attn_layers": ["local"],
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("size", [4, 32])
def test_reformers_local_layers(direct: Client, before: int, after: int, decodes: bool, size: int) -> None:
    torch, count = library("torch"), 24
    after = 0 if decodes else after
    given = {**REFORMER, "local_num_chunks_before": before, "local_num_chunks_after": after, "is_decoder": decodes,
             "local_attn_chunk_length": size}  # fmt: skip
    model = model_of("reformer", **given)
    ids = torch.ones(1, count, dtype=torch.int64)
    module = model.encoder.layers[0].attention.self_attention
    theirs = visible(module, lambda: model(ids))
    use = use_of(direct, "reformer", given, count, layer_type="local")
    wanted = expected(direct, use, count, causal=decodes)
    assert np.array_equal(wanted, theirs)


def test_bigbird_is_full_up_to_a_length(direct: Client) -> None:
    """The class itself turns its blocks off at that length, and not beyond."""
    torch = library("torch")
    given = {"hidden_size": 16, **TINY, "vocab_size": 32, "block_size": 2, "num_random_blocks": 1,
             "max_position_embeddings": 64}  # fmt: skip
    for count, full in ((14, True), (16, False)):
        model = model_of("big_bird", **json.loads(json.dumps(given)))
        with torch.no_grad():
            model(torch.ones(1, count, dtype=torch.int64))
        assert (model.attention_type == "original_full") is full
        use = use_of(direct, "big_bird", given, count, role="text-attention")
        assert use["facts"]["full_up_to"] == 14
        assert ("mask" in use["addresses"]) is full


def test_canines_first_layer(direct: Client) -> None:
    torch, count = library("torch"), 14
    given = {
        "hidden_size": 16,
        **TINY,
        "local_transformer_stride": 4,
        "num_hash_buckets": 64,
        "max_position_embeddings": 64,
    }
    model = model_of("canine", **given, downsampling_rate=4, upsampling_kernel_size=4)
    module = model.initial_char_encoder.layer[0].attention
    theirs = visible(module, lambda: model(torch.ones(1, count, dtype=torch.int64)))
    use = use_of(direct, "canine", given, count, role="text-attention")
    mask = fetched(direct, use["addresses"]["mask"])["mask"].astype(bool)
    assert np.array_equal(mask, theirs)
    [table] = [each["facts"]["table"] for each in resolved(direct, {"model_type": "canine", **given})["uses"]
               if "table" in each["facts"]]  # fmt: skip
    assert table == list(model.char_embeddings.char_position_embeddings.weight.shape)


@pytest.mark.parametrize("staggers", [False, True])
def test_pegasus_x_blocks(direct: Client, staggers: bool) -> None:
    """By what the tokens of a block see of other tokens, without the global ones."""
    torch, count = library("torch"), 16
    given = {"d_model": 16, "encoder_attention_heads": 2, "encoder_layers": 2, "encoder_ffn_dim": 8, "vocab_size": 32,
             "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 8, "block_size": 8,
             "num_global_tokens": 2, "stagger_local_blocks": staggers}  # fmt: skip
    encoder = model_of("pegasus_x", **given).encoder
    ids = torch.ones(1, count, dtype=torch.int64)
    layer = encoder.layers[1]
    start, named = given_to(layer, lambda: encoder(ids))
    states, globals_ = start[0], start[1]
    torch.manual_seed(3)
    columns = []
    with torch.no_grad():
        plain = layer(states, globals_, *start[2:], **named)[0]
        for column in range(count):
            other = states.clone()
            other[0, column] += torch.randn(16)
            columns.append(((layer(other, globals_, *start[2:], **named)[0] - plain).abs().amax(-1) > 1e-6)[0].numpy())
    theirs = np.stack(columns, 1)
    blocks = (np.arange(count) + (4 if staggers else 0)) // 8
    assert np.array_equal(theirs, blocks[:, None] == blocks[None])
    use = use_of(direct, "pegasus_x", given, count, role="encoder-embeddings")
    assert ("mask" in use["addresses"]) is not staggers
    if not staggers:
        assert np.array_equal(fetched(direct, use["addresses"]["mask"])["mask"].astype(bool), theirs)
