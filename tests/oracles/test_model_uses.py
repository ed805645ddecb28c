"""What plans say of parts that are easily overlooked, against those parts of transformers, live."""

import json
import re
import warnings
from collections.abc import Mapping
from copy import deepcopy
from inspect import getsource
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes, model_class
from tests.models.fixtures import fetched, resolved
from tests.oracles.answers import Array, posted

pytestmark = pytest.mark.oracle


def uses(client: Client, model_type: str, **keys: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = resolved(client, {"model_type": model_type, **keys})["uses"]
    return found


def sent(client: Client, address: dict[str, Any], **tensors: Array) -> dict[str, Array]:
    """What an address that takes arrays answers."""
    parts = urlsplit(address["href"])
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    return posted(client, parts.path, tensors, **query)


def configured(model_type: str, **keys: Any) -> Any:
    return library("transformers").CONFIG_MAPPING[model_type](**json.loads(json.dumps(keys)))


def modeling(folder: str) -> Any:
    return library(f"transformers.models.{folder}.modeling_{folder}")


TURNING = {
    "dinov3_vit": ("dinov3_vit", "DINOv3ViTRopePositionEmbedding"),
    "eomt_dinov3": ("eomt_dinov3", "EomtDinov3RotaryEmbedding"),
    "sapiens2": ("sapiens2", "Sapiens2RopePositionEmbedding"),
}


@pytest.mark.parametrize("name", TURNING)
def test_patches_turn_by_their_centres(direct: Client, name: str) -> None:
    """The rotation's address against the class's own function; class and register tokens stand before the patches."""
    torch, (folder, module) = library("torch"), TURNING[name]
    keys = {"hidden_size": 128, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}
    owner = modeling(folder)
    cos, sin = getattr(owner, module)(configured(name, **keys)).eval()(torch.zeros(1, 3, 64, 64))
    q = np.random.default_rng(1).uniform(-4, 4, (1, 2, 5 + 16, 64)).astype(np.float32)
    theirs = owner.apply_rotary_pos_emb(torch.tensor(q), torch.tensor(q), cos, sin)[0].numpy()
    [use] = [use for use in uses(direct, name, **keys) if use["encoding"] == "rope-axes"]
    ours = sent(direct, use["addresses"]["rotation"], q=np.ascontiguousarray(q[:, :, 5:]))["q"]
    assert np.array_equal(theirs[:, :, :5], q[:, :, :5])
    assert np.abs(ours - theirs[:, :, 5:]).max() <= 1e-4 < np.abs(q[:, :, 5:] - theirs[:, :, 5:]).max()


POSITION = re.compile(r"pos_?emb|position|positional|rel_pos|level_embed|queries_embedder|reference_point_embed")
NOT = re.compile(r"bias|query_pos_head|norm|gate$|projection|no_memory")
HOLDERS: Mapping[str, Mapping[str, Any]] = {
    "clvp": {}, "cohere_asr": {}, "git": {}, "grounding-dino": {}, "llama4_vision_model": {"num_hidden_layers": 1},
    "lw_detr": {}, "mask2former": {}, "maskformer": {}, "mllama_vision_model": {}, "oneformer": {}, "sam2_video": {},
    "sam_hq_vision_model": {"image_size": 64, "window_size": 3, "global_attn_indexes": [1], "num_hidden_layers": 2},
    "sam_vision_model": {"image_size": 96, "window_size": 5, "global_attn_indexes": [0], "num_hidden_layers": 2},
    "slanext_vision": {"image_size": 64, "window_size": 3, "global_attn_indexes": [1], "num_hidden_layers": 2},
    "tvp": {}, "xclip": {},
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
def test_every_trained_table_is_in_the_plan(direct: Client, name: str) -> None:
    """Names of the class's own tensors, whose shapes alone are made: none of positions is left out."""
    torch, keys = library("torch"), HOLDERS[name]
    config = configured(name, **keys)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class(name, config, classes())(config)
    theirs = {
        tuple(axis for axis in tensor.shape if axis != 1)
        for tensor_name, tensor in model.named_parameters()
        if POSITION.search(tensor_name) and not NOT.search(tensor_name)
    }
    tables = [use["facts"].get("table", ()) for use in uses(direct, name, **keys)]
    assert theirs
    assert theirs <= {tuple(axis for axis in table if axis != 1) for table in tables}


def test_the_distances_of_sam(direct: Client) -> None:
    """The bias of two layers, made of the table's rows that the plan names, against the class's own."""
    torch = library("torch")
    keys = {"image_size": 96, "window_size": 5, "global_attn_indexes": [0], "num_hidden_layers": 2, "hidden_size": 32,
            "num_attention_heads": 2, "mlp_dim": 8, "output_channels": 8}  # fmt: skip
    torch.manual_seed(0)
    model = modeling("sam").SamVisionEncoder(configured("sam_vision_model", **keys)).eval()
    for layer, side, label in ((0, 6, "full_attention"), (1, 5, "window_attention")):
        attention = model.layers[layer].attn
        tables = {"rows": torch.randn(2 * side - 1, 16), "columns": torch.randn(2 * side - 1, 16)}
        q = torch.randn(2, side * side, 16)
        theirs = attention.get_decomposed_rel_pos(q, tables["rows"], tables["columns"], (side, side), (side, side))
        found = [use for use in uses(direct, "sam_vision_model", **keys) if use["layer_type"] == label]
        queries, ours = q.numpy().reshape(2, side, side, 16), np.zeros((2, side, side, side, side), np.float32)
        for use in found:
            assert use["layers"] == [layer]
            axis = use["facts"]["axis"]
            [rows] = fetched(direct, use["addresses"]["rows"]).values()
            picked = tables[axis].numpy()[rows]
            ours += (
                np.einsum("bhwc,hkc->bhwk", queries, picked)[..., :, None]
                if axis == "rows"
                else np.einsum("bhwc,wkc->bhwk", queries, picked)[..., None, :]
            )
        assert np.abs(ours - theirs.numpy()).max() <= 1e-4


def test_places_in_the_decoder_of_grounding_dino(direct: Client) -> None:
    """The sinusoids of boxes and of the text's tokens, by the class's own function."""
    torch = library("torch")
    encode = modeling("grounding_dino").encode_sinusoidal_position_embedding
    found = [use for use in uses(direct, "grounding-dino") if use["encoding"] == "detr-boxes"]
    for use, points, width in zip(
        found, (np.arange(5.0)[:, None], np.linspace(0, 1, 12).reshape(3, 4)), (256, 128), strict=True
    ):
        theirs = encode(torch.tensor(points, dtype=torch.float32), num_pos_feats=width).numpy()
        ours = sent(direct, use["addresses"]["tables"], positions=points.astype(np.float32))["encoding"]
        assert np.abs(ours - theirs).max() <= 5e-6


ASSUMED: Mapping[str, Mapping[str, Any]] = {
    "hy_v4_vl_text": {"num_attention_heads": 2, "num_hidden_layers": 1, "qk_rope_head_dim": 64},
    "qwen4_exp_text": {
        "head_dim": 128,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
    **{
        name: {"hidden_size": 256, "num_attention_heads": 2, "num_hidden_layers": 1, "head_dim": 128}
        for name in ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "paddleocr_vl_text")
    },
}


@pytest.mark.parametrize("name", ASSUMED)
def test_sections_that_the_class_assumes(direct: Client, name: str) -> None:
    """Cosines at frames, rows and columns that differ, without mrope_section in the file."""
    torch, keys = library("torch"), dict(ASSUMED[name])
    config_class = library("transformers").CONFIG_MAPPING[name]
    config = config_class(**{key: deepcopy(value) for key, value in keys.items() if hasattr(config_class(), key)})
    owner = library(config_class.__module__.replace(".configuration_", ".modeling_"))
    [rotary] = [
        each
        for label, each in vars(owner).items()
        if label.endswith("RotaryEmbedding") and "mrope_section" in getsource(each)
    ]
    at = np.stack(np.meshgrid(range(2), range(3), range(4), indexing="ij")).reshape(3, 1, -1)
    theirs = rotary(config)(torch.zeros(1, 1, 8), torch.tensor(at))[0].numpy()
    [use] = [use for use in uses(direct, name, **keys) if "axes" in use["addresses"]]
    ours = fetched(direct, use["addresses"]["axes"])["cos"]
    if use["parameters"]["pairing"]["value"] == "interleaved":  # the class repeats its columns as a block
        ours = np.concatenate([ours[:, ::2], ours[:, ::2]], axis=1)
    assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1e-6


def told(name: str, keys: Mapping[str, Any], length: int, make: str, **more: Any) -> Array:
    """Which keys each query sees by transformers' own makers of masks, from the class's configuration."""
    torch, masking = library("torch"), library("transformers.masking_utils")
    config = configured(name, **keys)
    config._attn_implementation = "eager"
    mask = getattr(masking, make)(
        config=config,
        inputs_embeds=torch.zeros(1, length, 8),
        attention_mask=torch.ones(1, length, dtype=torch.long),
        position_ids=torch.arange(length)[None],
        **more,
    )
    return (mask[0, 0] == 0).numpy()  # type: ignore[no-any-return]


def masked(client: Client, use: Mapping[str, Any], **changes: str) -> Array:
    [mask] = fetched(client, use["addresses"]["mask"], **changes).values()
    return mask.astype(bool)


def of_kind(found: list[dict[str, Any]], label: str) -> dict[str, Any]:
    return next(use for use in found if use["layer_type"] == label)


@pytest.mark.parametrize("window", [4, 5])
def test_windows_of_gemma_4_that_sees_both_ways(direct: Client, window: int) -> None:
    keys = {"num_hidden_layers": 6, "use_bidirectional_attention": "all", "sliding_window": window}
    theirs = told("gemma4_text", keys, 14, "create_sliding_window_causal_mask", cache=None)
    use = of_kind(uses(direct, "gemma4_text", **keys), "sliding_attention")
    assert np.array_equal(masked(direct, use, length="14"), theirs)


def test_the_prefix_of_paligemma(direct: Client) -> None:
    """Its mask of six tokens of image and prompt (token_type_ids 0) and four of the answer; positions from 1."""
    torch = library("torch")
    blocks = torch.tensor([[0] * 6 + [-1] * 4])
    keys = {"num_hidden_layers": 1}
    theirs = told("gemma", keys, 10, "create_causal_mask", cache=None, block_sequence_ids=blocks)
    use = uses(direct, "paligemma", text_config=keys)[0]
    assert np.array_equal(masked(direct, use, length="10", prefix="6"), theirs)
    turns = modeling("gemma").GemmaRotaryEmbedding(configured("gemma"))
    cosines = turns(torch.zeros(1, 1), torch.arange(1, 11)[None])[0][0].numpy()
    ours = fetched(direct, use["addresses"]["tables"], length="10")["cos"]
    assert np.abs(ours - cosines).max() <= 1e-6


@pytest.mark.parametrize("window", [7, 8])
def test_windows_of_two_sides(direct: Client, window: int) -> None:
    """T5Gemma 2's encoder, by its own rule of which keys a query sees."""
    rule = modeling("t5gemma2").sliding_window_mask_function(window, is_causal=False)
    theirs = np.array([[bool(rule(0, 0, library("torch").tensor(i), j)) for j in range(12)] for i in range(12)])
    use = of_kind(uses(direct, "t5gemma2_text", sliding_window=window), "sliding_attention")
    assert np.array_equal(masked(direct, use, length="12"), theirs)


def test_windows_of_a_streaming_encoder(direct: Client) -> None:
    rule = modeling("moonshine_streaming").sliding_window_mask_function
    torch = library("torch")
    for use in uses(direct, "moonshine_streaming_encoder"):
        pair = configured("moonshine_streaming_encoder").sliding_windows[use["layers"][0]]
        theirs = [[bool(rule(pair)(0, 0, torch.tensor(i), torch.tensor(j))) for j in range(40)] for i in range(40)]
        assert np.array_equal(masked(direct, use, length="40"), np.array(theirs))


def test_windows_of_patches(direct: Client) -> None:
    """Qwen 2.5 VL, by its own order of windows: those of 10 by 20 patches are as many and as large as the plan says."""
    torch = library("torch")
    find = library("transformers.vision_utils").get_vision_window_index
    config = configured("qwen2_5_vl_vision")
    bounds = find(torch.tensor([[1, 10, 20]]), config.spatial_merge_size, config.window_size, config.patch_size)[1]
    near = of_kind(uses(direct, "qwen2_5_vl_vision"), "window_attention")
    side = near["facts"]["window"][0]
    rows, columns = ([min(side, size - at) for at in range(0, size, side)] for size in (10, 20))
    wanted = [down * across for down in rows for across in columns]
    assert [each for each in np.diff(torch.unique_consecutive(bounds).numpy()) if each] == wanted
    assert set(near["layers"]) == set(range(32)) - set(config.fullatt_block_indexes)
