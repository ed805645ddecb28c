"""Learned position tables of transformers and PyTorch, frozen: `python -m tests.golden.make_learned`.

`initial.{model}`    63 quantiles of a freshly initialised table, `initial.{model}.rows` its number of rows
`lookup.{model}`     what the model's own module looks up in `TABLE` for the padded `TOKENS`
`factors.{model}`    what it makes of `ROWS` and `COLUMNS`
`resized.{model}`    what it makes of `SQUARE` (and the rows of `PREFIX` before it) on a grid of `NEW` cells, float32
`interpolate.{name}` torch.nn.functional.interpolate in float64: a table of 14 x 14 and a class token on 16 x 24
`minilm.{mode}`      the same of 32 positions of MiniLM as a sequence of 128, float32
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, load, save

RANDOM = np.random.default_rng(43)
QUANTILES = np.arange(1, 64) / 64
TABLE = RANDOM.standard_normal((12, 4)).astype(np.float32)
TOKENS = np.array([[1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
ROWS, COLUMNS = (RANDOM.standard_normal((50, 6)).astype(np.float32) for _ in range(2))
CELLS = (5, 7)
NEW, LONGER = (5, 3), 41
PREFIX = {"deit": 2, "siglip": 0, "qwen3-vl": 0, "siglip2": 0}
SQUARE = RANDOM.standard_normal((18, 8)).astype(np.float32)
VIT = RANDOM.standard_normal((197, 3))
WIDE = (16, 24)
CONVENTIONS: dict[str, dict[str, Any]] = {
    "bilinear": {"mode": "bilinear"},
    "bicubic": {"mode": "bicubic"},
    "bilinear.corners": {"mode": "bilinear", "align_corners": True},
    "bicubic.corners": {"mode": "bicubic", "align_corners": True},
    "bilinear.antialias": {"mode": "bilinear", "antialias": True},
    "bicubic.antialias": {"mode": "bicubic", "antialias": True},
    "bilinear.tenth": {"mode": "bilinear", "tenth": True},
    "bicubic.tenth": {"mode": "bicubic", "tenth": True},
    "bilinear.tenth.antialias": {"mode": "bilinear", "tenth": True, "antialias": True},
    "bicubic.tenth.antialias": {"mode": "bicubic", "tenth": True, "antialias": True},
}
SMALL = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
Build = Callable[[], Any]


def transformers() -> Any:
    return library("transformers")


def modeling(model: str) -> Any:
    return library(f"transformers.models.{model}.modeling_{model}")


@cache
def timm() -> Any:
    """timm's module of position tables alone: the package itself would import torchvision."""
    spec = find_spec("timm")
    assert spec is not None
    assert spec.submodule_search_locations
    (root,) = spec.submodule_search_locations
    with patch.dict(sys.modules):
        for name, folder in (("timm", root), ("timm.layers", f"{root}/layers")):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [folder]
        return library("timm.layers.pos_embed")


def _bert() -> Any:
    t = transformers()
    return t.BertModel(t.BertConfig(**SMALL, vocab_size=9)).embeddings.position_embeddings.weight


def _gpt2() -> Any:
    t = transformers()
    return t.GPT2Model(t.GPT2Config(n_embd=64, n_layer=1, n_head=2, vocab_size=9)).wpe.weight


def _opt() -> Any:
    t = transformers()
    config = t.OPTConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=64)
    return t.OPTModel(config).decoder.embed_positions.weight


def _bart() -> Any:
    t = transformers()
    layers = {f"{side}_{name}": 1 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    sizes = {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    return t.BartModel(t.BartConfig(d_model=64, vocab_size=9, **layers, **sizes)).encoder.embed_positions.weight


def _roberta() -> Any:
    t = transformers()
    # As the released models have it; the default of the class is 512.
    config = t.RobertaConfig(**SMALL, vocab_size=9, max_position_embeddings=514)
    return t.RobertaModel(config).embeddings.position_embeddings.weight


def _clip() -> Any:
    t = transformers()
    return t.CLIPTextModel(t.CLIPTextConfig(**SMALL)).embeddings.position_embedding.weight


def _vit() -> Any:
    t = transformers()
    return t.ViTModel(t.ViTConfig(**SMALL, image_size=224, patch_size=16)).embeddings.position_embeddings[0]


def _xlm() -> Any:
    t = transformers()
    config = t.XLMConfig(vocab_size=9, emb_dim=2048, n_layers=1, n_heads=2)
    return t.XLMModel(config).position_embeddings.weight


def _detr() -> Any:
    detr = modeling("detr")
    module = detr.DetrLearnedPositionEmbedding(64)
    model = detr.DetrPreTrainedModel.__new__(detr.DetrPreTrainedModel)
    vars(model)["config"] = SimpleNamespace(init_std=0.02, init_xavier_std=1.0)
    model._init_weights(module)
    return module.row_embeddings.weight


INITIAL: dict[str, Build] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "opt": _opt,
    "bart": _bart,
    "roberta": _roberta,
    "clip": _clip,
    "vit": _vit,
    "xlm": _xlm,
    "detr": _detr,
}


def initial_tables() -> Numbers:
    torch = library("torch")
    found: Numbers = {}
    for model, build in INITIAL.items():
        torch.manual_seed(7)
        table = build().detach().numpy()
        found[f"initial.{model}"] = np.quantile(table, QUANTILES)
        found[f"initial.{model}.rows"] = np.array([len(table)])
    return found


def looked_up() -> Numbers:
    torch = library("torch")
    weight, tokens = torch.from_numpy(TABLE), torch.from_numpy(TOKENS)
    opt = modeling("opt").OPTLearnedPositionalEmbedding(10, 4)
    opt.weight.data = weight
    roberta = modeling("roberta").RobertaEmbeddings
    # Token 1 is padding, and any other is none.
    positions = roberta.create_position_ids_from_input_ids(torch.where(tokens == 1, 5, 1), 1)
    prophetnet = modeling("prophetnet").ProphetNetPositionalEmbeddings(
        SimpleNamespace(max_position_embeddings=12, hidden_size=4, pad_token_id=0)
    )
    prophetnet.weight.data = weight
    bert = torch.nn.Embedding.from_pretrained(weight)
    return {
        "lookup.bert": np.asarray(bert(torch.arange(12))),
        "lookup.opt": opt(tokens).detach().numpy(),
        "lookup.roberta": np.asarray(torch.nn.functional.embedding(positions, weight)),
        "lookup.prophetnet": prophetnet(tokens.shape, "cpu", tokens)[0].detach().numpy(),
    }


def joined() -> Numbers:
    torch = library("torch")
    rows, columns = torch.from_numpy(ROWS), torch.from_numpy(COLUMNS)
    detr = modeling("detr").DetrLearnedPositionEmbedding(6)
    detr.row_embeddings.weight.data, detr.column_embeddings.weight.data = rows, columns
    config = SimpleNamespace(
        axial_pos_shape=CELLS,
        axial_pos_embds_dim=(6, 6),
        hidden_size=12,
        hidden_dropout_prob=0,
        attn_layers=["local"],
        lsh_attn_chunk_length=1,
        local_attn_chunk_length=1,
    )
    reformer = modeling("reformer").AxialPositionEmbeddings(config).eval()
    reformer.weights[0].data, reformer.weights[1].data = rows[: CELLS[0], None], columns[None, : CELLS[1]]
    pix2struct = modeling("pix2struct").Pix2StructVisionEmbeddings(
        SimpleNamespace(patch_embed_hidden_size=1, hidden_size=6, seq_len=50, dropout_rate=0)
    )
    pix2struct.row_embedder.weight.data, pix2struct.column_embedder.weight.data = rows, columns
    pix2struct.patch_projection.weight.data[:] = pix2struct.patch_projection.bias.data[:] = 0
    patches = torch.tensor([[[row, column, 1.0] for row in range(CELLS[0]) for column in range(CELLS[1])]])
    count = CELLS[0] * CELLS[1]
    return {
        "factors.detr": detr((1, 3, *CELLS), "cpu", torch.float32)[0].detach().numpy(),
        "factors.reformer": reformer(torch.arange(count)[None])[0].detach().numpy(),
        "factors.pix2struct": pix2struct(patches)[0].detach().numpy().reshape(*CELLS, 6),
    }


def resized() -> Numbers:
    torch = library("torch")
    tables = {
        model: torch.from_numpy(SQUARE[: 16 + PREFIX.get(model, 1)])
        for model in ("vit", "deit", "siglip", "dinov2-with-registers", "dpt", "qwen3-vl", "siglip2")
    }
    size = (10 * NEW[0], 10 * NEW[1])

    def embeddings(model: str, name: str, **more: Any) -> Any:
        table = tables[model]
        module = SimpleNamespace(position_embeddings=table[None], patch_size=10, **more)
        patches = torch.zeros(1, NEW[0] * NEW[1] + PREFIX.get(model, 1), 8)
        return getattr(modeling(model.replace("-", "_")), name).interpolate_pos_encoding(module, patches, *size)[0]

    # Held by an embedding, not by a parameter of three axes.
    siglip = SimpleNamespace(position_embedding=SimpleNamespace(weight=tables["siglip"]), patch_size=10)
    dpt = modeling("dpt").DPTViTEmbeddings._resize_pos_embed
    indices = library("transformers.vision_utils").get_vision_interpolation_indices_and_weights
    places, weights = indices(torch.tensor([[1, *NEW]]), 4, "bilinear", True)
    naflex = modeling("siglip2").Siglip2VisionEmbeddings.resize_positional_embeddings
    found = {
        "vit": embeddings("vit", "ViTEmbeddings"),
        "deit": embeddings("deit", "DeiTEmbeddings"),
        "siglip": modeling("siglip").SiglipVisionEmbeddings.interpolate_pos_encoding(
            siglip, torch.zeros(1, NEW[0] * NEW[1], 8), *size
        )[0],
        "dinov2-with-registers": embeddings(
            "dinov2-with-registers",
            "Dinov2WithRegistersEmbeddings",
            patch_embeddings=SimpleNamespace(patch_size=(10, 10)),
        ),
        "mae-decoder": modeling("vit_mae").ViTMAEDecoder.interpolate_pos_encoding(
            SimpleNamespace(decoder_pos_embed=tables["vit"][None]), torch.zeros(1, 1 + LONGER, 8)
        )[0],
        "timm": timm().resample_abs_pos_embed(tables["vit"][None], list(NEW))[0],
        "dpt": dpt(None, tables["dpt"][None], *NEW)[0],
        "qwen3-vl": (tables["qwen3-vl"][places] * weights[:, :, None]).sum(1),
        "siglip2": naflex(tables["siglip2"].reshape(4, 4, 8), torch.tensor([NEW]), NEW[0] * NEW[1])[0],
    }
    return {f"resized.{model}": np.asarray(table) for model, table in found.items()}


def interpolated(table: NDArray[Any], old: tuple[int, int], new: tuple[int, int], **asked: Any) -> NDArray[Any]:
    """PyTorch's own resizing of the rows of a grid; `tenth` asks for a scale factor as DINO's code does."""
    torch = library("torch")
    cells = torch.from_numpy(table).reshape(1, *old, -1).permute(0, 3, 1, 2)
    named = {name: value for name, value in asked.items() if name != "tenth"}
    if asked.get("tenth"):
        named["scale_factor"] = tuple((size + 0.1) / had for size, had in zip(new, old, strict=True))
    else:
        named["size"] = new
    rows = torch.nn.functional.interpolate(cells, **named).permute(0, 2, 3, 1)
    return np.asarray(rows.reshape(new[0] * new[1], -1))


def lengthened(table: NDArray[Any], length: int, **asked: Any) -> NDArray[Any]:
    """PyTorch's own resizing of a sequence: `linear`, or `bicubic` of a picture one row high."""
    torch = library("torch")
    if asked["mode"] == "bicubic":
        return interpolated(table, (1, len(table)), (1, length), **asked)
    line = torch.from_numpy(table).T[None]
    return np.asarray(torch.nn.functional.interpolate(line, size=length, **asked)[0].T)


def build() -> Numbers:
    """Everything the file holds, by name."""
    grids = {f"interpolate.{name}": interpolated(VIT[1:], (14, 14), WIDE, **how) for name, how in CONVENTIONS.items()}
    places = load("minilm/tables")["positions"][:, :48]
    lines = {f"minilm.{mode}": lengthened(places, 128, mode=mode) for mode in ("linear", "bicubic")}
    return {**initial_tables(), **looked_up(), **joined(), **resized(), **grids, **lines}


if __name__ == "__main__":
    save("learned", build(), "torch", "transformers", "timm", "numpy")
