"""Stacks that see both ways, attention across, what files say of single layers, and windows of models without RoPE."""

from typing import Any

import numpy as np

from service.models import Options, Use, resolve
from tests.models.plans import answers, plan, refusal, values

S, F = "sliding_attention", "full_attention"


def uses(model_type: str, **keys: Any) -> tuple[Use, ...]:
    return resolve({"model_type": model_type, **keys}).uses


def mask_of(use: Use) -> str:
    return use.addresses["mask"].href.partition("?")[0].rpartition("/")[2]


def test_two_stacks_of_one_configuration() -> None:
    encoder, decoder, crossing = uses("moonshine", encoder_num_hidden_layers=3, decoder_num_hidden_layers=2)
    assert [(use.role, use.layers, mask_of(use)) for use in (encoder, decoder)] == [
        ("encoder-attention", (0, 1, 2), "padding"),
        ("decoder-attention", (0, 1), "causal"),
    ]
    assert (crossing.role, crossing.encoding, mask_of(crossing)) == ("cross-attention", "none", "padding")


def test_an_encoder_of_the_decoders_type_sees_both_ways() -> None:
    found = {(use.role, use.layer_type): use for use in uses("t5gemma") if use.layer_type}
    assert mask_of(found["encoder-attention", F]) == "padding"
    assert mask_of(found["decoder-attention", F]) == "causal"
    windows = {role: window.kind for (role, label), use in found.items() if label == S and (window := use.window)}
    assert windows == {"encoder-attention": "bidirectional", "decoder-attention": "sliding"}


def test_a_decoder_made_of_an_encoder() -> None:
    assert mask_of(uses("bert")[0]) == "padding"
    assert mask_of(uses("bert", is_decoder=True)[0]) == "causal"
    assert mask_of(uses("roformer", is_decoder=True)[0]) == "causal"
    assert mask_of(uses("gpt2")[0]) == "causal"


def test_layers_that_attend_to_the_picture_only() -> None:
    text, across = uses("mllama_text_model", num_hidden_layers=5, cross_attention_layers=[1, 3])
    assert (text.layers, text.encoding) == ((0, 2, 4), "rope")
    assert (across.role, across.layers, across.encoding) == ("cross-attention", (1, 3), "none")
    assert refusal("mllama_text_model", cross_attention_layers=[1.5]).parameter == "/cross_attention_layers/0"


def test_windows_of_two_sides() -> None:
    """T5Gemma 2: an even window sees one key more ahead: a causal window, of queries so many positions later."""
    [sliding] = [use for use in uses("t5gemma2_text", sliding_window=8) if use.layer_type == S]
    assert sliding.window is not None
    assert sliding.window.document() == {"kind": "bidirectional", "size": 3, "ahead": 4}
    i, j = np.mgrid[:12, :12]
    [mask] = answers_of(sliding, 12)
    assert np.array_equal(mask, (j - i >= -3) & (j - i <= 4))
    [even] = [use for use in uses("t5gemma2_text", sliding_window=7) if use.layer_type == S]
    assert even.window is not None
    assert even.window.document() == {"kind": "bidirectional", "size": 3, "ahead": 3}
    i, j = np.mgrid[:6, :6]
    [mask] = answers_of(even, 6)
    assert np.array_equal(mask, abs(i - j) <= 3)


def answers_of(use: Use, length: int) -> list[Any]:
    """The mask of a use, for so many tokens."""
    address = use.addresses["mask"]
    shorter = type(address)(address.href.replace("length=128", f"length={length}"))
    return list(answers(shorter).values())


def test_both_ways_within_a_window() -> None:
    [use] = uses("openai_privacy_filter", sliding_window=2)
    [mask] = answers_of(use, 7)
    i, j = np.mgrid[:7, :7]
    assert np.array_equal(mask, abs(i - j) <= 2)


def test_every_second_window_of_neomme_is_farther() -> None:
    found = [use for use in uses("neomme", sliding_window=8) if use.layer_type == S]
    assert [(use.window and use.window.size, len(use.layers or ())) for use in found] == [(8, 7), (1024, 7)]
    stated = uses("neomme", per_layer_config={"01": {"sliding_window": 32}, "05": {"sliding_window": None}})
    sizes = {use.window.size: use.layers for use in stated if use.window}
    assert sizes[32] == (1,)
    assert 1024 not in sizes


def test_what_a_file_says_of_single_layers() -> None:
    """transformers 5 writes Gemma 4's wider heads layer by layer, and leaves out what it made them of."""
    wide = {"05": {"head_dim": 24, "num_key_value_heads": 1}}
    found = plan("gemma4_text", head_dim=16, per_layer_config=wide)
    widths = {use.layer_type: use.parameters["dim"] for use in found.uses}
    assert widths[S].value == 16
    assert (widths[F].value, widths[F].source, widths[F].key) == (24, "config", "/per_layer_config/05/head_dim")
    both = plan("gemma4_text", head_dim=16, layer_types=[F] * 6, per_layer_config=wide)
    assert {use.layers: values(use)["dim"] for use in both.uses} == {(0, 1, 2, 3, 4): 16, (5,): 24}
    for given, place in (
        ({"6": {}}, "/per_layer_config/6"),
        ({"x": {}}, "/per_layer_config/x"),
        ({"1": []}, "/per_layer_config/1"),
        ({"1": {"rope_theta": 1.0}}, "/per_layer_config/1/rope_theta"),
        ({"5": {"head_dim": "wide"}}, "/per_layer_config/5/head_dim"),
        ([], "/per_layer_config"),
    ):
        assert refusal("gemma4_text", per_layer_config=given).parameter == place


def test_single_layers_of_a_model_of_one_kind() -> None:
    found = plan("llama", per_layer_config={"2": {"head_dim": 32}})
    assert {use.layers: values(use)["dim"] for use in found.uses} == {(0, 1, 3, 4, 5): 16, (2,): 32}


def test_pairs_of_dorys_files() -> None:
    pairs = [S, "mlp", F, "mlp", S, "mlp"]
    assert {use.layer_type: use.layers for use in plan("dory", layer_types=pairs).uses} == {S: (0, 2), F: (1,)}


def test_a_stated_last_layer() -> None:
    assert {use.layer_type for use in plan("beam", layer_types=[S] * 6).uses} == {S}
    assert {use.layer_type for use in plan("gemma4_text", layer_types=[S] * 6).uses} == {S, F}


def test_layers_of_a_stack_that_is_run_again() -> None:
    assert uses("hrm_text", num_hidden_layers=128, num_layers_per_stack=4)[0].layers == (0, 1, 2, 3)


def test_windows_of_longformer() -> None:
    for given, sizes in ((8, {4: (0, 1)}), ([8, 4], {4: (0,), 2: (1,)})):
        found = uses("longformer", num_hidden_layers=2, attention_window=given)
        assert {use.window.size: use.layers for use in found if use.window} == sizes
    [use] = [use for use in uses("longformer", num_hidden_layers=1, attention_window=4) if use.window]
    [mask] = answers_of(use, 7)
    i, j = np.mgrid[:7, :7]
    assert np.array_equal(mask, abs(i - j) <= 2)
    for wrong, place in (
        ([8], "/attention_window"),
        ([8, 7], "/attention_window/1"),
        (7, "/attention_window"),
        ("8", "/attention_window"),
    ):
        assert refusal("longformer", num_hidden_layers=2, attention_window=wrong).parameter == place
    led = [use for use in uses("led", encoder_layers=2) if use.window]
    assert [(use.role, use.layers) for use in led] == [("encoder-attention", (0, 1))]


def test_local_layers_of_gpt_neo() -> None:
    assert {use.layer_type: use.layers for use in uses("gpt_neo", num_layers=4) if use.layers} == {F: (0, 2), S: (1, 3)}
    given = [[["global"], 1], [["local", "global"], 2]]
    found = uses("gpt_neo", num_layers=5, attention_types=given, window_size=8)
    assert {use.layer_type: use.layers for use in found if use.layers} == {F: (0, 2, 4), S: (1, 3)}
    assert {use.layer_type for use in uses("gpt_neo", num_layers=1, attention_types=[[["local"], 1]])} == {None, S}
    assert {use.layer_type for use in uses("gpt_neo", num_layers=1, attention_types=[[["global"], 1]])} == {None, F}
    for layers, wrong, place in (
        (3, None, "/attention_types"),
        (4, [3], "/attention_types/0"),
        (4, [[["near"], 4]], "/attention_types/0/0"),
        (4, [[["local"], "4"]], "/attention_types/0/1"),
        (4, [[["local"] * 9, 4000]], "/attention_types/0"),
        (4, [[["local"], 3]], "/attention_types"),
    ):
        assert refusal("gpt_neo", num_hidden_layers=layers, attention_types=wrong).parameter == place


def test_roles_of_towers_by_themselves() -> None:
    assert uses("dinov2")[0].role == "vision-tower"
    assert uses("resnet")[0].role in ("vision-tower", "text-attention")
    assert [use.role for use in uses("whisper")][:2] == ["decoder-embeddings", "encoder-embeddings"]
    assert {use.role for use in uses("detr") if use.scope == "/backbone_config"} == {"vision-tower"}
    [audio] = [use for use in uses("wav2vec2") if use.encoding == "convolution"]
    assert audio.role == "audio-tower"


def test_keys_that_look_like_others() -> None:
    found = resolve({"model_type": "llama", "head_dimm": 64, "num_hidden_layers": 2}, Options()).uses[0]
    assert "/head_dimm is read by nothing: did you mean head_dim?" in found.notes
    quiet = resolve({"model_type": "llama", "rope_thetaa": 5e5, "rope_theta": 5e5, "a" * 70: 1}).uses[0]
    assert not any("did you mean" in note for note in quiet.notes)
