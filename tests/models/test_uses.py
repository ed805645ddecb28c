"""Uses of the parts of models that are easily overlooked, each with numbers that a model gave."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from service.models import Address, Options, Use, resolve
from service.models.families.axial import AXIAL
from service.models.known import model_type, roles
from service.models.reading import Reading
from service.models.sizes import size
from tests.engine.answers import Array, answer, only
from tests.models.plans import refusal, refused

QUADRUPLE = {"hidden_size": 128, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}


def uses(model_type: str, **keys: Any) -> tuple[Use, ...]:
    return resolve({"model_type": model_type, **keys}).uses


def query(address: Address) -> dict[str, str]:
    """The parameters of an address."""
    found = dict(parse_qsl(urlsplit(address.href).query))
    assert found.pop("revision")
    return found


@pytest.mark.parametrize("name", sorted(AXIAL))
def test_the_rotation_of_a_tower_is_that_of_its_tables(name: str) -> None:
    found = [use for use in uses(name) if use.encoding == "rope-axes"]
    for use in found:
        tables, rotation = (query(use.addresses[each]) for each in ("tables", "rotation"))
        assert {each: value for each, value in tables.items() if each != "dim"} == rotation
    assert found


# The first pairs of transformers' DINOv3ViTRopePositionEmbedding with QUADRUPLE: rows, then columns, at patch (1, 3).
DINOV3 = {0: (-1.570796371, 4.712388992), 1: (-1.177931070, 3.533793211), 15: (-0.020946907, 0.062840723)}


@pytest.mark.parametrize("name", ["dinov3_vit", "eomt_dinov3", "sapiens2"])
def test_queries_turn_by_the_centres_of_patches(name: str) -> None:
    [use] = [use for use in uses(name, **QUADRUPLE) if use.encoding == "rope-axes"]
    q = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    turned = only("apply/rope-axes", {"q": q}, **query(use.addresses["rotation"]))
    first, second = q[7].astype(float).reshape(2, 32)
    for pair, angles in DINOV3.items():
        for place, angle in zip((pair, 16 + pair), angles, strict=True):
            wanted = first[place] * np.cos(angle) - second[place] * np.sin(angle)
            assert turned[7, place] == pytest.approx(wanted, abs=2e-6)
    assert any("do not turn" in note for note in use.notes)


# Trained tensors of positions that transformers 5.24 makes of class defaults, by name, layers' numbers left out.
TRAINED = {
    "llama4_vision_model": [[1025, 768]],
    "mllama_vision_model": [[9, 5120], [9, 5120], [1025, 1280], [9, 5248000]],
    "git": [[1024, 768], [197, 768]],
    "cohere_asr": [[1024, 1024]],
    "tvp": [[512, 768], [512, 768], [100, 768], [100, 768]],
    "moonshine_streaming": [[4096, 320]],
    "sam_vision_model": [[1, 64, 64, 768], [27, 64], [27, 64], [127, 64], [127, 64]],
    "sam_hq_vision_model": [[1, 64, 64, 768], [27, 64], [27, 64], [127, 64], [127, 64]],
    "slanext_vision": [[1, 32, 32, 768], [27, 64], [27, 64], [63, 64], [63, 64]],
    "clvp": [[404, 1024], [608, 1024]],
    "detr": [[100, 256]],
    "table-transformer": [[100, 256]],
    "conditional_detr": [[300, 256]],
    "deformable_detr": [[4, 256], [300, 512]],
    "grounding-dino": [[4, 256], [900, 256], [512, 768]],
    "maskformer": [[100, 256]],
    "mask2former": [[3, 256], [3, 256], [100, 256]],
    "lw_detr": [[3900, 4]],
    "xclip_vision_model": [[50, 768], [1, 8, 512]],
}


@pytest.mark.parametrize("name", TRAINED)
def test_trained_tables_of_models_with_parts(name: str) -> None:
    wanted = TRAINED[name]
    found = [use.facts["table"] for use in uses(name) if use.encoding == "learned"]
    assert found[: len(wanted)] == wanted
    for use in uses(name):
        lookup = use.addresses.get("lookup")
        if lookup is not None:
            assert int(query(lookup)["length"]) <= np.prod(use.facts["table"][:-1])


def test_tables_of_parts_follow_their_keys() -> None:
    [table] = [use for use in uses("moonshine_streaming", encoder_config={"hidden_size": 96}) if "tensor" in use.facts]
    assert (table.role, table.facts["table"], table.parameters["dim"].key) == (
        "cross-attention",
        [4096, 96],
        "/encoder_config/hidden_size",
    )
    clvp = uses("clvp", decoder_config={"max_text_tokens": 9, "hidden_size": 64, "num_attention_heads": 4})[0]
    assert clvp.facts["table"] == [9, 64]
    assert refusal("clvp", decoder_config=[]).parameter == "/decoder_config"


def test_layers_of_sam_that_see_the_whole_picture() -> None:
    keys = {"num_hidden_layers": 5, "global_attn_indexes": [1, 4], "window_size": 3, "image_size": [64, 96]}
    found = [use for use in uses("sam_vision_model", **keys) if use.layers]
    assert [(use.layer_type, use.layers, use.facts["axis"], use.facts["table"]) for use in found] == [
        ("window_attention", (0, 2, 3), "rows", [5, 64]),
        ("window_attention", (0, 2, 3), "columns", [5, 64]),
        ("full_attention", (1, 4), "rows", [7, 64]),
        ("full_attention", (1, 4), "columns", [11, 64]),
    ]
    rows = only("biases/shaw", None, **query(found[2].addresses["rows"]))
    assert rows.tolist() == [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]
    everywhere = [use for use in uses("sam_vision_model", window_size=0) if use.layers]
    assert {use.layers for use in everywhere} == {tuple(range(12))}
    assert not [use for use in uses("sam_vision_model", use_rel_pos=False) if use.layers]
    assert not [use for use in uses("sam_vision_model", use_abs_pos=False) if not use.layers]


def test_what_queries_of_detectors_are_told_of_places() -> None:
    """DETR adds the map's sinusoid to the keys; deformable ones read at points; a two-stage one begins with boxes."""
    keys = [(use.encoding, sorted(use.addresses)) for use in uses("detr") if use.role == "cross-attention"]
    assert keys == [("detr", ["mask", "tables"])]
    learned = uses("detr", position_embedding_type="learned")
    assert [use.encoding for use in learned if use.role == "cross-attention"] == ["learned"]
    assert [use.encoding for use in uses("conditional_detr") if use.role == "cross-attention"] == ["detr", "detr-boxes"]
    decoder = {False: "learned", True: "detr-boxes"}
    for stages, encoding in decoder.items():
        found = uses("deformable_detr", two_stage=stages)
        assert [use.encoding for use in found if use.role == "decoder-attention"] == [encoding]
    assert {use.encoding for use in uses("grounding-dino", embedding_init_target=False)} & {"learned"}
    assert not [use for use in uses("maskformer") if use.scope.startswith("/decoder_config")]


SECTIONED = ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "qwen2_5_omni_talker", "paddleocr_vl_text")


@pytest.mark.parametrize("name", SECTIONED)
def test_sections_that_the_class_assumes(name: str) -> None:
    """Without mrope_section the first 16 pairs are of time, 24 of rows, 24 of columns."""
    use = uses(name, hidden_size=1024, num_attention_heads=8, head_dim=128)[0]
    assert use.facts["mrope_section"] == [16, 24, 24]
    cosines = answer("encodings/rope-axes", None, **query(use.addresses["axes"]))["cos"]
    place, base = 1 * 12 + 2 * 4 + 3, use.parameters["base"].value
    for pair, position in ((15, 1), (16, 2), (39, 2), (40, 3), (63, 3)):
        assert cosines[place, pair] == pytest.approx(np.cos(position * base ** (-pair / 64)), abs=1e-6)
    stated = uses(name, head_dim=128, rope_scaling={"type": "mrope", "mrope_section": [32, 16, 16]})[0]
    assert stated.facts["mrope_section"] == [32, 16, 16]
    wrong, why = refused({"model_type": name, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16})
    assert wrong == "/rope_parameters/mrope_section"
    assert "the sections sum to 64, expected 8" in why
    assert "state mrope_section" in why


def seen(use: Use, length: int = 14) -> Array:
    """Which keys a query sees, by the mask of the use."""
    given = {**query(use.addresses["mask"]), "length": str(length)}
    name = urlsplit(use.addresses["mask"].href).path.removeprefix("/v1/")
    padding = {"attention_mask": np.ones(length, bool)} if name == "masks/padding" else None
    mask = only(name, padding, **{key: each for key, each in given.items() if padding is None or key != "length"})
    return np.broadcast_to(mask.astype(bool).reshape(-1, length), (length, length))


def band(behind: int, ahead: int, length: int = 14) -> Array:
    rows, columns = np.mgrid[:length, :length]
    found: Array = (columns - rows >= -behind) & (columns - rows <= ahead)
    return found


SLIDING, FULL = {"layer_types": ["sliding_attention"]}, {"layer_types": ["full_attention"]}
# How far transformers' own models of one layer were seen to see, behind and ahead, of 14 tokens.
SEEN: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "EmbeddingGemma": ("gemma3_text", {**FULL, "use_bidirectional_attention": True}, (13, 13)),
    "EmbeddingGemma, 4": (
        "gemma3_text",
        {**SLIDING, "use_bidirectional_attention": True, "sliding_window": 4},
        (2, 2),
    ),
    "gemma4": ("gemma4_text", {**FULL, "use_bidirectional_attention": "all"}, (13, 13)),
    "gemma4, vision": ("gemma4_text", {**FULL, "use_bidirectional_attention": "vision"}, (13, 0)),
    "gemma": ("gemma", {"use_bidirectional_attention": True}, (13, 13)),
    "gemma2": ("gemma2", {**FULL, "use_bidirectional_attention": True}, (13, 0)),
    "llama": ("llama", {"is_causal": False}, (13, 13)),
    "llama, listed": ("llama", {**SLIDING, "sliding_window": 3}, (13, 0)),
    "mistral": ("mistral", {"is_causal": False, "sliding_window": 4}, (4, 4)),
    "mistral, listed": ("mistral", {**FULL, "sliding_window": 4}, (3, 0)),
    "gemma2, sliding": ("gemma2", {**SLIDING, "is_causal": False, "sliding_window": 4}, (4, 4)),
}


@pytest.mark.parametrize("case", SEEN)
def test_which_tokens_a_layer_sees(case: str) -> None:
    name, keys, (behind, ahead) = SEEN[case]
    [use] = [use for use in uses(name, num_hidden_layers=1, **keys) if "mask" in use.addresses]
    assert np.array_equal(seen(use), band(behind, ahead))


def test_windows_of_gemma_4_that_sees_both_ways() -> None:
    """Its class turns 5 into 5 // 2 + 1, and the mask counts that many on either side."""
    keys = {"num_hidden_layers": 6, "use_bidirectional_attention": "all", "sliding_window": 5}
    [sliding] = [use for use in uses("gemma4_text", **keys) if use.layer_type == "sliding_attention"]
    assert np.array_equal(seen(sliding), band(3, 3))


def test_kinds_of_layers_that_a_class_does_not_read() -> None:
    keys = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
    for llama in uses("llama", **keys):
        assert llama.window is None
        assert np.array_equal(seen(llama), band(13, 0))
        for key in ("layer_types", "sliding_window"):
            assert any(note.startswith(f"{key} is read by nothing in this class") for note in llama.notes)
    for mistral in uses("mistral", **keys):
        assert np.array_equal(seen(mistral), band(7, 0))
        assert not any(note.startswith("sliding_window") for note in mistral.notes)
    served = resolve({"model_type": "llama", **keys}, Options(preset="vllm")).uses
    assert [None if use.window is None else use.window.size for use in served] == [8, None]


def test_an_image_and_its_prompt() -> None:
    """PaliGemma: positions from 1, and a prefix that sees itself both ways; in Gemma 3 images see themselves."""
    text = uses("paligemma", text_config={"num_hidden_layers": 1})[0]
    assert query(text.addresses["mask"]) == {"prefix": "64", "length": "128"}
    assert text.parameters["offset"].value == 1
    tables = answer("encodings/rope", None, **{**query(text.addresses["tables"]), "length": "3"})
    assert tables["cos"][:, 0] == pytest.approx(np.cos([1, 2, 3]), abs=1e-6)
    assert "offset=1" in text.addresses["rotation"].href
    assert "offset" not in text.addresses["frequencies"].href
    second = uses("paligemma", text_config={"model_type": "gemma2", "num_hidden_layers": 2})
    assert any("beyond the window" in note for note in second[0].notes)
    for whole, label, said in (
        ("gemma3", "full_attention", True),
        ("gemma3", "sliding_attention", True),
        ("gemma4_unified", "sliding_attention", True),
        ("gemma4_unified", "full_attention", True),
        ("gemma4", "sliding_attention", False),
    ):
        [use] = [use for use in uses(whole) if use.layer_type == label]
        assert any("tokens of one image" in note for note in use.notes) is said, (whole, label)


def test_windows_of_patches() -> None:
    """Qwen 2.5 VL: 112 pixels are 8 patches of 14; the layers of fullatt_block_indexes see the whole frame."""
    near, far = uses("qwen2_5_vl_vision", depth=4, fullatt_block_indexes=[1], hidden_size=64, num_heads=2)
    assert (near.layer_type, near.layers, near.facts["window"]) == ("window_attention", (0, 2, 3), [8, 8])
    assert (far.layer_type, far.layers, "window" in far.facts) == ("full_attention", (1,), False)
    [all_near] = uses("qwen2_5_vl_vision", depth=2, fullatt_block_indexes=[])
    assert all_near.layers == (0, 1)
    assert refusal("qwen2_5_vl_vision", fullatt_block_indexes=[1.5]).parameter == "/fullatt_block_indexes/0"


def test_windows_of_a_streaming_encoder() -> None:
    """The class: 0 <= i - j < 3, or 0 < j - i < 2."""
    two, one = uses("moonshine_streaming_encoder", num_hidden_layers=3, sliding_windows=[[3, 2], [4, 0], [3, 2]])
    assert (two.layers, one.layers) == ((0, 2), (1,))
    assert np.array_equal(seen(two), band(2, 1))
    assert np.array_equal(seen(one), band(3, 0))
    for wrong, place in (
        ([[3, 2]], "/sliding_windows"),
        ([[3, 2], 4, [3, 2]], "/sliding_windows/1"),
        ([[3, 2], [0, 2], [3, 2]], "/sliding_windows/1/0"),
        (None, "/sliding_windows"),
    ):
        refused = refusal("moonshine_streaming_encoder", num_hidden_layers=3, sliding_windows=wrong)
        assert refused.parameter == place


def test_alibi_in_the_place_of_rope() -> None:
    [alibi] = uses("falcon", alibi=True)
    assert (alibi.encoding, sorted(alibi.addresses)) == ("alibi", ["mask", "slopes", "tables"])
    assert np.array_equal(seen(alibi), band(13, 0))
    [added] = uses("esm", position_embedding_type="absolute", pad_token_id=1)
    assert (added.encoding, added.facts["first_row"]) == ("learned", 2)


def test_only_the_stack_that_a_whole_has() -> None:
    """Of T5 MusicGen has the encoder, of mBART a vision-encoder-decoder the decoder; attention across comes once."""
    found = uses("musicgen")
    assert [use.role for use in found if use.scope == "/text_encoder"] == ["encoder-attention"]
    assert [use.scope for use in found if use.role == "cross-attention"] == ["/decoder"]
    parts = {"encoder": {"model_type": "vit"}, "decoder": {"model_type": "mbart"}}
    roles = [use.role for use in uses("vision-encoder-decoder", **parts)]
    assert roles == ["decoder-embeddings", "cross-attention", "vision-tower"]
    parts["decoder"] = {"model_type": "gpt2"}
    assert [use.role for use in uses("vision-encoder-decoder", **parts)].count("cross-attention") == 1


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("encodec", "audio-tower"),
        ("mimi", "audio-tower"),
        ("janus_vqgan", "vision-tower"),
        ("resnet", "vision-tower"),
        ("sam_mask_decoder", "decoder-attention"),
        ("llama", "text-attention"),
        ("jamba", "text-attention"),
    ],
)
def test_what_a_part_is_for(name: str, role: str) -> None:
    assert {use.role for use in uses(name)} == {role}


def test_the_mask_decoder_of_sam() -> None:
    assert [use.role for use in uses("sam") if use.scope == "/mask_decoder_config"] == ["decoder-attention"]


def test_roles_are_those_of_known_types() -> None:
    assert {"vision-tower", "audio-tower"} < set(roles().values())
    assert all(model_type(name).fields for name in roles())


def test_sizes_by_distance() -> None:
    """2 k - 1 distances of a window of k, as the measured facts state them."""
    windowed = Reading({"window_size": 7}, "", model_type("sam_vision_model"))
    assert size(windowed, {"distances": "window_size"}).value == 13
