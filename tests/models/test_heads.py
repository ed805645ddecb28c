"""Widths that contradict each other, of models without RoPE and of those with one."""

from typing import Any

import pytest

from service.models import Options, resolve
from service.models.known import rules
from tests.models.plans import refusal, refused

SPLIT = [
    ("gpt2", {"n_embd": 768, "n_head": 7}, "/n_head", "n_embd is 768 and n_head 7"),
    ("bert", {"num_attention_heads": 7}, "/num_attention_heads", "hidden_size is 768 and num_attention_heads 7"),
    ("bert", {"hidden_size": 100}, "/hidden_size", "hidden_size is 100 and num_attention_heads 12"),
    ("opt", {"hidden_size": 768, "num_attention_heads": 7}, "/num_attention_heads", "the heads have no whole width"),
    ("bart", {"encoder_attention_heads": 7}, "/encoder_attention_heads", "d_model is 1024"),
    ("bart", {"decoder_attention_heads": 7}, "/decoder_attention_heads", "d_model is 1024"),
    ("kosmos_2_text_model", {"attention_heads": 7}, "/attention_heads", "embed_dim is 2048"),
    ("xlm", {"n_heads": 7}, "/n_heads", "emb_dim is 2048"),
    ("seamless_m4t", {"speech_encoder_attention_heads": 7}, "/speech_encoder_attention_heads", "hidden_size is 1024"),
    ("vjepa2", {"pred_num_attention_heads": 7}, "/pred_num_attention_heads", "the heads have no whole width"),
    ("clip_vision_model", {"num_attention_heads": 7}, "/num_attention_heads", "hidden_size is 768"),
]


@pytest.mark.parametrize(("name", "keys", "place", "words"), SPLIT)
def test_heads_that_do_not_divide_the_width(name: str, keys: dict[str, Any], place: str, words: str) -> None:
    found, detail = refused({"model_type": name, **keys})
    assert found == place
    assert words in detail


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("t5", {"d_model": 100, "num_heads": 7}),
        ("vit", {"num_attention_heads": 7}),
        ("swin", {"num_heads": [3, 5, 7, 9]}),
        ("bert", {"num_attention_heads": 0}),
        ("bert", {"num_attention_heads": "7"}),
        ("bert", {"hidden_size": 768.0, "num_attention_heads": 12}),
    ],
)
def test_heads_that_are_not_split(name: str, keys: dict[str, Any]) -> None:
    assert resolve({"model_type": name, **keys}).uses


def test_heads_of_a_type_that_is_assumed() -> None:
    """What it does not state is no contradiction."""
    sizes = {"hidden_size": 96, "num_attention_heads": 7, "max_position_embeddings": 64, "num_hidden_layers": 2}
    assert refused({"model_type": "zz", **sizes}, Options(assume="bert"))[0] == "/num_attention_heads"
    del sizes["num_attention_heads"]
    assert resolve({"model_type": "zz", **sizes}, Options(assume="bert")).uses


def test_the_list_of_classes_is_of_known_types() -> None:
    listed = rules()["heads of any number"]
    assert listed == sorted(set(listed))


def test_a_head_of_no_width() -> None:
    fault = refusal("llama", head_dim=0)
    assert (fault.parameter, fault.code) == ("/head_dim", "out_of_range")


def test_a_picture_of_three_sizes() -> None:
    place, detail = refused({"model_type": "vit", "image_size": [3, 224, 224]})
    assert (place, detail) == ("/image_size", "image_size has 3 entries: one number, or height and width")
    assert refused({"model_type": "vit", "patch_size": [1, 16, 16]})[0] == "/patch_size"
    assert resolve({"model_type": "vit", "image_size": [224, 160]}).uses[0].facts["table"] == [1, 141, 768]
    assert resolve({"model_type": "vivit", "tubelet_size": [2, 16, 16]}).uses
    place, detail = refused({"model_type": "vivit", "tubelet_size": [1, 2, 16, 16]})
    assert (place, detail) == ("/tubelet_size", "tubelet_size has 4 entries: 3 numbers at most")
