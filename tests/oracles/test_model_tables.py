"""Models without RoPE: the tables, buckets and biases of their plans against the models' own modules, built live.

Each class is built small, of one layer, from the same configuration that the service gets as JSON.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import LAYERS, PATH, build_fields, classes, model_class, rows_of
from tests.models.fixtures import fetched, resolved
from tests.oracles.exact import ulps_apart
from tests.oracles.live_models import Array

pytestmark = pytest.mark.oracle

TINY = {"vocab_size": 64, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "intermediate_size": 8, "d_ff": 8, "ffn_dim": 8}
SINUSOIDS: Mapping[str, Mapping[str, Any]] = {
    "autoformer": {"d_model": 24, "prediction_length": 9, "context_length": 21},
    "canary_decoder": {"hidden_size": 48, "max_position_embeddings": 70, "num_attention_heads": 4},
    "ctrl": {"n_embd": 48, "n_positions": 70, "n_head": 4, "dff": 8},
    "distilbert": {"dim": 36, "n_heads": 4, "max_position_embeddings": 70, "sinusoidal_pos_embds": True},
    "flaubert": {"emb_dim": 36, "n_heads": 4, "max_position_embeddings": 70, "sinusoidal_embeddings": True},
    "fsmt": {"d_model": 32, "max_position_embeddings": 70, "src_vocab_size": 64, "tgt_vocab_size": 64},
    "fun_asr_nano_encoder": {},
    "informer": {"d_model": 24, "prediction_length": 9, "context_length": 21},
    "kosmos_2_text_model": {"embed_dim": 48, "max_position_embeddings": 70, "attention_heads": 4},
    "kosmos_2_5_text_model": {"embed_dim": 48, "max_position_embeddings": 70, "attention_heads": 4},
    "m2m_100": {"d_model": 48, "max_position_embeddings": 70},
    "marian": {"d_model": 48, "max_position_embeddings": 70},
    "musicgen_decoder": {"hidden_size": 48, "max_position_embeddings": 70, "num_attention_heads": 4},
    "musicgen_melody_decoder": {"hidden_size": 48, "max_position_embeddings": 70, "num_attention_heads": 4},
    "nllb-moe": {"d_model": 48, "max_position_embeddings": 70, "num_experts": 2},
    "patchtst": {"d_model": 32, "context_length": 40, "patch_length": 4, "patch_stride": 3},
    "patchtsmixer": {
        "d_model": 32,
        "context_length": 40,
        "patch_length": 4,
        "patch_stride": 3,
        "use_positional_encoding": True,
    },
    "pegasus": {"d_model": 48, "max_position_embeddings": 70},
    "qwen2_5_omni_audio_encoder": {"d_model": 48, "max_source_positions": 90, "encoder_attention_heads": 4},
    "qwen3_asr_encoder": {},
    "qwen3_omni_moe_audio_encoder": {"d_model": 48, "max_source_positions": 90, "encoder_attention_heads": 4},
    "speech_to_text": {"d_model": 48, "max_source_positions": 90, "max_target_positions": 60},
    "time_series_transformer": {"d_model": 24, "prediction_length": 9, "context_length": 21},
    "tipsv2_text_model": {},
    "trocr": {
        "d_model": 48,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 70,
        "use_learned_position_embeddings": False,
    },
    "videomae": {"image_size": 32, "num_frames": 6, "hidden_size": 48, "num_attention_heads": 4},
    "videoprism_text_model": {},
    "whisper": {"d_model": 48, "max_source_positions": 90, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "xglm": {"d_model": 48, "max_position_embeddings": 70, "attention_heads": 4},
    "xlm": {"emb_dim": 36, "n_heads": 4, "max_position_embeddings": 70, "sinusoidal_embeddings": True},
}


@pytest.fixture(scope="module")
def by_config() -> dict[str, list[Any]]:
    return classes()


def built(name: str, given: Mapping[str, Any], by_config: dict[str, list[Any]]) -> Any:
    """The model, of one layer and few words."""
    torch, config_class = library("torch"), library("transformers").CONFIG_MAPPING[name]
    fields = getattr(config_class, "__dataclass_fields__", {})
    small = {key: value for key, value in TINY.items() if key in fields} | {key: 1 for key in LAYERS if key in fields}
    for more in (small, {}):
        try:
            config = config_class(**{**more, **given})
            torch.manual_seed(0)
            return model_class(name, config, by_config)(config)
        except Exception as error:  # some classes cannot be that small
            problem = error
    raise problem


def tensors(model: Any) -> Iterator[Array]:
    """Every tensor of the model, registered or not, of two axes once those of one entry are left out."""
    torch = library("torch")
    for module in model.modules():
        found = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
        for tensor in found:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.ndim >= 2:
                yield tensor.detach().float().numpy().reshape(-1, tensor.shape[-1])


@pytest.mark.parametrize("name", SINUSOIDS)
def test_sinusoids(direct: Client, by_config: dict[str, list[Any]], name: str) -> None:
    given = SINUSOIDS[name]
    plan = resolved(direct, {"model_type": name, **json.loads(json.dumps(given))})
    candidates = list(tensors(built(name, given, by_config)))
    uses = [use for use in plan["uses"] if use["encoding"] == "sinusoidal" and "rows" in use["facts"]]
    assert uses
    for use in uses:
        rows, width = use["facts"]["rows"], use["facts"]["width"]
        change = {} if "length" in use["parameters"] else {"length": str(rows), "offset": ""}
        ours = fetched(direct, use["addresses"]["tables"], **change)["encoding"]
        assert ours.shape == (rows, width)
        scale = np.sqrt(np.float32(width)) if use["parameters"].get("encoding_scale") else 1
        near = 4e-7 * np.maximum(1, np.arange(rows))[:, None]
        alike = [theirs for theirs in candidates if theirs.shape[1] == width and len(theirs) >= rows]
        assert any((np.abs(ours * scale - theirs[:rows]) <= near).all() for theirs in alike), (name, len(alike))


DISTANCES = np.arange(-300, 301)


def t5(owner: str, attention: str) -> Callable[[Any, bool], Array]:
    def buckets(use: Any, bidirectional: bool) -> Array:
        function = getattr(
            library(f"transformers.models.{owner}.modeling_{owner}"), attention
        )._relative_position_bucket
        said = {name: use["parameters"][name]["value"] for name in ("num_buckets", "max_distance")}
        tensor = library("torch").tensor(DISTANCES)
        if owner == "umt5":
            names = SimpleNamespace(
                relative_attention_num_buckets=said["num_buckets"],
                relative_attention_max_distance=said["max_distance"],
                is_decoder=not bidirectional,
            )
            return np.asarray(function(names, tensor))
        return np.asarray(function(tensor, bidirectional, said["num_buckets"], said["max_distance"]))

    return buckets


T5: Mapping[str, Callable[[Any, bool], Array]] = {
    "t5": t5("t5", "T5Attention"),
    "mt5": t5("mt5", "MT5Attention"),
    "umt5": t5("umt5", "UMT5Attention"),
    "longt5": t5("longt5", "LongT5Attention"),
    "switch_transformers": t5("switch_transformers", "SwitchTransformersAttention"),
    "pop2piano": t5("pop2piano", "Pop2PianoAttention"),
    "pix2struct_text_model": t5("pix2struct", "Pix2StructTextAttention"),
}


@pytest.mark.parametrize("name", T5)
def test_t5_buckets(direct: Client, name: str) -> None:
    plan = resolved(
        direct, {"model_type": name, "relative_attention_num_buckets": 20, "relative_attention_max_distance": 77}
    )
    uses = [use for use in plan["uses"] if use["encoding"] == "t5"]
    assert uses
    for use in uses:
        both = use["parameters"]["direction"]["value"] == "bidirectional"
        size = {"length": "", "queries": "1", "keys": "601", "offset": "300"}
        [ours] = fetched(direct, use["addresses"]["tables"], **size).values()
        assert np.array_equal(ours[0], T5[name](use, both))


def test_alibi_of_bloom_mpt_and_falcon(direct: Client) -> None:
    torch = library("torch")
    mask = torch.ones(1, 9, dtype=torch.long)
    bloom = library("transformers.models.bloom.modeling_bloom").build_alibi_tensor(mask, 6, torch.float32)
    mpt = library("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor(6, 9, 8)
    falcon = library("transformers.models.falcon.modeling_falcon").build_alibi_tensor(mask, 6, torch.float32)
    cases = {
        "bloom": ({"n_head": 6, "hidden_size": 48}, bloom, 1.0),
        "mpt": ({"n_heads": 6, "d_model": 48}, mpt, 1.0),
        "falcon": ({"num_attention_heads": 6, "hidden_size": 48, "alibi": True}, falcon, 1 / np.sqrt(8)),
    }
    for name, (given, theirs, scale) in cases.items():
        plan = resolved(direct, {"model_type": name, **given})
        [use] = [use for use in plan["uses"] if use["encoding"] == "alibi"]
        ours = fetched(direct, use["addresses"]["tables"], length="", queries="1", keys="9")["bias"]
        wanted = theirs.float().numpy().reshape(6, 1, 9) * scale
        assert np.abs(ours - wanted).max() <= 4e-7 * np.abs(wanted).max(), name


@pytest.mark.parametrize("given", [{"position_buckets": 20}, {"position_buckets": -1}])
def test_deberta(direct: Client, given: Mapping[str, Any]) -> None:
    owner = library("transformers.models.deberta_v2.modeling_deberta_v2")
    config = {"model_type": "deberta-v2", "relative_attention": True, "max_position_embeddings": 90, "hidden_size": 48}
    plan = resolved(direct, {**config, **given})
    [use] = [use for use in plan["uses"] if use["encoding"] == "deberta"]
    ours = fetched(direct, use["addresses"]["tables"], length="120")
    x = library("torch").zeros(1, 120, 4)
    theirs = owner.build_relative_position(x, x, given["position_buckets"], 90)[0].numpy()
    if given["position_buckets"] > 0:
        assert np.array_equal(ours["buckets" if "buckets" in ours else next(iter(ours))], theirs)
    else:
        assert np.array_equal(next(iter(ours.values())), np.clip(theirs + 90, 0, 179))


def test_windows_of_swin_and_swin_v2(direct: Client, by_config: dict[str, list[Any]]) -> None:
    config = {
        "image_size": 32,
        "patch_size": 2,
        "window_size": 4,
        "depths": [1, 1],
        "num_heads": [2, 3],
        "embed_dim": 12,
    }
    for name in ("swin", "swinv2"):
        model = built(name, {**config, "pretrained_window_sizes": [3, 5]} if name == "swinv2" else config, by_config)
        stated = {**config, "pretrained_window_sizes": [3, 5]} if name == "swinv2" else config
        plan = resolved(direct, {"model_type": name, **stated})
        index = [buffer for key, buffer in model.named_buffers() if key.endswith("relative_position_index")]
        uses = [use for use in plan["uses"] if use["encoding"].startswith("swin")]
        for stage, use in enumerate(uses):
            address = use["addresses"]["index" if name == "swinv2" else "tables"]
            [ours] = fetched(direct, address).values()
            assert np.array_equal(ours.ravel(), index[stage].numpy().ravel())
        if name == "swinv2":
            coordinates = [buffer for key, buffer in model.named_buffers() if key.endswith("relative_coords_table")]
            for use, theirs in zip(uses, coordinates, strict=True):
                [ours] = fetched(direct, use["addresses"]["tables"]).values()
                assert np.abs(ours.ravel() - theirs.numpy().ravel()).max() <= 2e-7


def test_shaw_of_wav2vec2_bert(direct: Client) -> None:
    given = {
        "hidden_size": 48,
        "num_attention_heads": 4,
        "left_max_position_embeddings": 6,
        "right_max_position_embeddings": 3,
    }
    plan = resolved(direct, {"model_type": "wav2vec2-bert", **given, "position_embeddings_type": "relative_key"})
    [use] = [use for use in plan["uses"] if use["encoding"] == "shaw"]
    assert use["facts"]["table"] == [10, 12]
    [ours] = fetched(direct, use["addresses"]["tables"], length="15").values()
    position = np.arange(15)
    assert np.array_equal(ours, np.clip(position[None] - position[:, None], -6, 3) + 6)


@pytest.mark.parametrize(
    ("name", "owner"), [("parakeet_encoder", "parakeet"), ("nemotron_asr_streaming_encoder", "nemotron_asr_streaming")]
)
def test_relative_sinusoids_of_conformers(direct: Client, name: str, owner: str) -> None:
    torch, files = library("torch"), library(f"transformers.models.{owner}.modeling_{owner}")
    config = library("transformers").CONFIG_MAPPING[name](hidden_size=48)
    [module] = [each for key, each in vars(files).items() if key.endswith("EncoderRelPositionalEncoding")]
    theirs = module(config)(torch.zeros(1, 11, 48))[0].numpy()
    plan = resolved(direct, {"model_type": name, "hidden_size": 48})
    [use] = [use for use in plan["uses"] if use["encoding"] == "transformer-xl"]
    [ours] = fetched(direct, use["addresses"]["tables"], length="11").values()
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5


def test_the_feature_map_of_efficientloftr(direct: Client) -> None:
    torch, owner = library("torch"), library("transformers.models.efficientloftr.modeling_efficientloftr")
    config = library("transformers").CONFIG_MAPPING["efficientloftr"]()
    theirs = owner.EfficientLoFTRRotaryEmbedding(config)(torch.zeros(1, 256, 20, 28))
    plan = resolved(direct, {"model_type": "efficientloftr"})
    [use] = [use for use in plan["uses"] if use["encoding"] == "rope-axes"]
    ours = fetched(direct, use["addresses"]["tables"], grid="5,7")
    for name, table in zip(("cos", "sin"), theirs, strict=True):
        assert ours[name].shape == (35, 256)
        assert np.abs(ours[name] - table.numpy().reshape(35, 256)).max() <= 2e-6


def test_masked_autoencoders(direct: Client) -> None:
    given = {"image_size": 48, "patch_size": 16, "hidden_size": 48, "num_attention_heads": 4, "decoder_hidden_size": 32}
    plan = resolved(direct, {"model_type": "vit_mae", **given})
    owner = library("transformers.models.vit_mae.modeling_vit_mae")
    embeddings = owner.ViTMAEEmbeddings(library("transformers").CONFIG_MAPPING["vit_mae"](**given))
    embeddings.initialize_weights()
    theirs = embeddings.position_embeddings.detach().numpy()[0]
    ours = fetched(direct, plan["uses"][0]["addresses"]["tables"])["encoding"]
    assert ulps_apart(ours, theirs).max() <= 1


@pytest.mark.parametrize(
    "name",
    [
        *("albert", "bart", "bert", "bigbird_pegasus", "biogpt", "blenderbot", "blenderbot-small", "camembert"),
        *("canine", "clip_vision_model", "data2vec-text", "deberta", "deberta-v2", "deit", "dinov2", "distilbert"),
        *("electra", "gpt2", "gpt_bigcode", "gpt_neo", "ibert", "idefics2_vision", "idefics3_vision"),
        *("layoutlm", "layoutlmv3", "led", "longformer", "mbart", "mobilebert", "mpnet", "mvp", "openai-gpt", "opt"),
        *("plbart", "roberta", "siglip_vision_model", "smolvlm_vision", "visual_bert", "vit", "vitdet", "xlm"),
        "xlm-roberta",
    ],
)
def test_learned_tables_of_other_sizes(direct: Client, by_config: dict[str, list[Any]], name: str) -> None:
    """Sizes that are not the defaults: the table is as large as the plan says."""
    sizes: dict[str, Any] = {
        "max_position_embeddings": 50,
        "n_positions": 50,
        "hidden_size": 24,
        "n_embd": 24,
        "d_model": 24,
    }
    sizes |= {"image_size": 48, "patch_size": 8, "num_attention_heads": 4, "n_head": 4, "embedding_size": 20}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "word_embed_proj_dim": 24, "num_heads": 4}
    sizes |= {"num_layers": 2, "attention_types": [[["global", "local"], 1]]}
    fields = library("transformers").CONFIG_MAPPING[name].__dataclass_fields__
    given = {key: value for key, value in sizes.items() if key in fields}
    model = built(name, given, by_config)
    shapes = {key.removesuffix(".weight"): list(tensor.shape) for key, tensor in model.named_parameters()}
    tables = [
        use["facts"] for use in resolved(direct, {"model_type": name, **given})["uses"] if use["encoding"] == "learned"
    ]
    assert tables
    for facts in tables:
        assert shapes[facts["tensor"]] == facts["table"]


def test_the_seconds_of_music_flamingo(direct: Client) -> None:
    """Windows that start at 0 and 30 seconds, four frames each: the module's cosines and sines by the plan's axes."""
    torch, owner = library("torch"), library("transformers.models.musicflamingo.modeling_musicflamingo")
    config = library("transformers").CONFIG_MAPPING["musicflamingo"]()
    seconds = torch.tensor([[0.0, 0.04, 0.08, 0.12], [30.0, 30.04, 30.08, 30.12]])
    theirs = owner.MusicFlamingoRotaryEmbedding(config)(seconds, 4)
    plan = resolved(direct, {"model_type": "musicflamingo"})
    [use] = [use for use in plan["uses"] if use["encoding"] == "rope-axes"]
    positions = []
    for window in seconds.double().numpy():
        start = np.round(window[0] / (config.audio_frame_step * 4 * 4))
        for frame, second in enumerate(window):
            scaled = -2 * np.pi * second / config.max_position_embeddings
            positions.append([scaled * start, scaled * 2 * np.pi * frame])
    ours = fetched(direct, {**use["addresses"]["tables"], "body": {"positions": positions}})
    near = 1e-5 * np.maximum(1, np.abs(positions).max())
    for name, table in zip(("cos", "sin"), theirs, strict=True):
        assert np.abs(ours[name] - table.numpy().reshape(8, -1)).max() <= near


def test_the_width_that_clvp_turns(direct: Client) -> None:
    owner = library("transformers.models.clvp.modeling_clvp")
    for given in ({}, {"projection_dim": 960, "num_attention_heads": 12}):
        config = library("transformers").CONFIG_MAPPING["clvp_encoder"](**given)
        theirs = owner.ClvpRotaryPositionalEmbedding(config).inv_freq.numpy()
        [use] = resolved(direct, {"model_type": "clvp_encoder", **given})["uses"]
        ours = fetched(direct, use["addresses"]["frequencies"])["frequencies"]
        assert ulps_apart(ours, theirs).max() <= 2


def test_the_axes_of_v_jepa_2(direct: Client) -> None:
    """The plan's rotation of a small clip against the class's own function, axis by axis."""
    torch, owner = library("torch"), library("transformers.models.vjepa2.modeling_vjepa2")
    given = {"hidden_size": 52, "num_attention_heads": 2, "crop_size": 32, "frames_per_clip": 4}
    [use, _] = resolved(direct, {"model_type": "vjepa2", **given})["uses"]
    x = np.random.default_rng(3).uniform(-1, 1, (8, 26)).astype(np.float32)
    ours = fetched(direct, {**use["addresses"]["rotation"], "body": {"tensors": {"q": x.tolist()}}})["q"]
    frames, rest = np.divmod(np.arange(8), 4)
    rows, columns = np.divmod(rest, 2)
    turned = [
        owner.rotate_queries_or_keys(torch.tensor(x[None, None, :, 8 * axis : 8 * axis + 8]), torch.tensor(at).float())
        for axis, at in enumerate((frames, rows, columns))
    ]
    theirs = np.concatenate([*(each[0, 0].numpy() for each in turned), x[:, 24:]], axis=1)
    assert np.abs(ours - theirs).max() <= 2e-6


def test_the_measured_file_is_what_its_script_measures(by_config: dict[str, list[Any]]) -> None:
    """Defaults of every type, and tables of a few: a word that is new in code or facts shows here."""
    facts = json.loads(PATH.read_text())
    assert json.loads(json.dumps(build_fields(facts["types"]))) == facts["fields"]
    for name in ("opt", "vit", "timesformer"):
        assert json.loads(json.dumps(list(rows_of(name, by_config)))) == facts["types"][name]
