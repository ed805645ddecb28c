"""How every model of transformers turns its vectors, measured: `python -m tests.golden.make_model_rotations`.

Writes `service/models/facts/rotations.json`: for every model type whose attention calls a rotation, which channels
it pairs (a quarter turn of unit vectors through the model's own function tells), and the number formats of its tables
and of its products in a bfloat16 model. Which function an attention class calls, and whose configuration that class
takes, is read from the syntax tree of the library's file; the function itself is run.
"""

import ast
import importlib.metadata
import inspect
import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from tests.golden.frozen import library

PATH = Path(__file__).parents[2] / "service" / "models" / "facts" / "rotations.json"
DIM = 8
ROTATION = re.compile(r"apply_(rotary|multidim)|_apply_rotary|rotate_queries")
# Types whose attention is a class of another type, or takes the whole model's configuration.
SHARED = {
    "blt": ("blt_patcher", "blt_local_encoder", "blt_local_decoder", "blt_global_transformer"),
    "csm": ("csm_depth_decoder_model",),
    "deepseek_ocr2_vision": ("deepseek_ocr2_encoder",),
    "deepseek_v3": ("sarvam_mla",),
    "emu3": ("emu3_text_model",),
    "glm4_moe": ("sarvam_moe",),
    "glmasr": ("glmasr_encoder",),
    "llama": ("exaone", "internlm3", "iquestcoder"),
    "mimi": ("mimi_encoder", "mimi_decoder"),
    "nemotron3_5_transcribe_asr_audio": ("nemotron3_5_transcribe_word_timestamp",),
    "paddleocr_vl": ("paddleocr_vl_text",),
    "pocket_tts_audio_tokenizer": ("pocket_tts_audio_tokenizer_encoder", "pocket_tts_audio_tokenizer_decoder"),
    "qwen2_5_omni": ("qwen2_5_omni_text", "qwen2_5_omni_talker"),
    "qwen3_5": ("qwen3_5_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
    "qwen3_omni_moe": ("qwen3_omni_moe_talker_code_predictor", "qwen3_omni_moe_talker_text"),
    "t5gemma2_text": ("t5gemma2_decoder",),
}
# Attention classes whose configuration the file does not name, or names by the whole model's.
CONFIGS = {
    "ClvpSelfAttention": "clvp_encoder",
    "CodeGenAttention": "codegen",
    "DbrxAttention": "dbrx",
    "EsmSelfAttention": "esm",
    "EvollaSaProtSelfAttention": "evolla.protein_encoder_config",
    "Ernie4_5_VLMoeTextAttention": "ernie4_5_vl_moe_text",
    "GPTNeoXAttention": "gpt_neox",
    "GPTNeoXJapaneseAttention": "gpt_neox_japanese",
    "IdeficsAttention": "idefics",
    "Inkling2VisionAttention": "inkling2_vision",
    "MinistralAttention": "ministral",
    "NomicBertAttention": "nomic_bert",
    "PeAudioEncoderAttention": "pe_audio_encoder",
    "PeAudioVideoEncoderAttention": "pe_audio_video_encoder",
    "PeVideoEncoderAttention": "pe_video_encoder",
    "PixtralAttention": "pixtral",
    "Qwen3OmniMoeThinkerTextAttention": "qwen3_omni_moe_text",
    "VideoLlama3VisionAttention": "video_llama_3_vision",
    "VoxtralRealtimeAttention": "voxtral_realtime_encoder",
}


def folders() -> Iterator[Path]:
    """The files of models, one a folder."""
    root = Path(library("transformers").__file__).parent / "models"
    yield from sorted(root.glob("*/modeling_*.py"))


def calls(path: Path) -> Iterator[tuple[str, str, str]]:
    """(attention class, the class of its configuration or "", the rotation that it calls)."""
    classes = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}

    def config(name: str) -> str:
        node = classes.get(name)
        if node is None:
            return ""
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                stated = [a.annotation for a in method.args.args if a.arg.endswith("config") and a.annotation]
                return ast.unparse(stated[0]).strip("'") if stated else ""
        return next(filter(None, (config(ast.unparse(base)) for base in node.bases)), "")

    for name, node in classes.items():
        if "Indexer" in name or "Compressor" in name:
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and ROTATION.search(call.func.id):
                for each in config(name).split(" | "):
                    yield name, each, call.func.id


def turn(function: Callable[..., Any], x: Any, cos: Any, sin: Any) -> Any:
    """x (length, dim), through a rotation whichever way it takes vectors and tables."""
    torch = library("torch")
    names = list(inspect.signature(function).parameters)
    if names[:2] == ["tensor", "sin"]:
        return function(x[None, :, None], sin[None, :, : DIM // 2], cos[None, :, : DIM // 2])[0, :, 0]
    if "freqs_cis" in names or "freqs_ci" in names:
        table = torch.complex(cos[:, : DIM // 2].float(), sin[:, : DIM // 2].float())[None]
        heads_first = "position_ids" not in names and function.__module__.endswith("deepseek_v2")
        q = x[None, None] if heads_first else x[None, :, None]
        y = function(q, q, table)[0]
        return y[0, 0] if heads_first else y[0, :, 0]
    if names[0] == "x":
        more = {"position_ids": torch.zeros(1, len(x), 1)} if "position_ids" in names else {}
        return function(x[None, :, None], cos[None], sin[None], unsqueeze_dim=2, **more)[0, :, 0]
    if "v" in names:
        return function(x[None, None], x[None, None], x[None, None], cos, sin, torch.arange(len(x))[None])[0][0, 0]
    if function.__name__.endswith("_vision"):
        return function(x[:, None], x[:, None], cos, sin)[0][:, 0]
    return _first(function(x[None, None], x[None, None], cos[None], sin[None]))[0, 0]


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple) else answer


def turned(function: Callable[..., Any], x: Any, cos: float, sin: float, form: Any) -> Any:
    """x with every pair turned alike; tables are tried full and half as wide."""
    torch = library("torch")
    for width in (DIM, DIM // 2):
        table = torch.ones(len(x), width, dtype=form)
        try:
            answer = turn(function, x, table * cos, table * sin)
        except (RuntimeError, IndexError):
            continue
        if answer.shape == x.shape:
            return answer
    raise ValueError("neither width of table fits")


LAYOUTS = {
    "half": ([(k, k + DIM // 2) for k in range(DIM // 2)], [(k, k + DIM // 2) for k in range(DIM // 2)]),
    "interleaved": ([(2 * k, 2 * k + 1) for k in range(DIM // 2)], [(2 * k, 2 * k + 1) for k in range(DIM // 2)]),
    "interleaved-in/half-out": (
        [(2 * k, 2 * k + 1) for k in range(DIM // 2)],
        [(k, k + DIM // 2) for k in range(DIM // 2)],
    ),
}


def layout(function: Callable[..., Any]) -> tuple[str, str]:
    """(pairing, sign of the angle) of a rotation: what no turn and a quarter turn make of unit vectors."""
    units = library("torch").eye(DIM)
    still, quarter = (turned(function, units, cos, 1.0 - cos, units.dtype) for cos in (1.0, 0.0))
    for name, (read, written) in LAYOUTS.items():
        for sign in (1.0, -1.0):
            want_still, want_quarter = units * 0, units * 0
            for (a, b), (c, d) in zip(read, written, strict=True):
                want_still[a, c] = want_still[b, d] = 1.0
                want_quarter[a, d], want_quarter[b, c] = sign, -sign
            if (still == want_still).all() and (quarter == want_quarter).all():
                return name, "positive" if sign > 0 else "negative"
    raise ValueError("no known layout")


def compute(function: Callable[..., Any], table: str) -> str:
    """Whether products of bfloat16 vectors and that format's tables are rounded to bfloat16, or made in float32."""
    torch = library("torch")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, DIM, generator=generator).to(torch.bfloat16)
    angle = torch.tensor(0.7)
    form = torch.float32 if table == "float32" else torch.bfloat16
    cos, sin = (float(wave(angle).to(form)) for wave in (torch.cos, torch.sin))
    got = turned(function, x, cos, sin, form)
    wide = turned(function, x.float(), cos, sin, torch.float32)
    return "float32" if (got.float() == wide.to(got.dtype).float()).all() else "bfloat16"


def table_format(owner: Any, config: Any) -> str:
    """The number format of the tables that a rotary module hands to a bfloat16 model; nothing where none is told."""
    for name, module in vars(owner).items():
        if inspect.isclass(module) and name.endswith("RotaryEmbedding") and module.__module__ == owner.__name__:
            stated = list(inspect.signature(module.__init__).parameters.values())[1:2]
            if stated and stated[0].annotation is config:
                return _table_format(module, config)
    return ""


def _table_format(module: Any, config: Any) -> str:
    torch = library("torch")
    built, takes = module(config()), inspect.signature(module.forward).parameters
    labels = [{"layer_type": label} for label in getattr(built, "layer_types", None) or []]
    for axes, more in product(((), (2,), (3,)), labels if "layer_type" in takes and labels else [{}]):
        at = torch.zeros(1, 1, *axes, dtype=torch.long)
        try:
            answer = built(torch.zeros(1, 1, 1, 8, dtype=torch.bfloat16), at, **more)
        except (IndexError, KeyError, TypeError, RuntimeError):
            continue
        return str((answer[0] if isinstance(answer, tuple) else answer).dtype).removeprefix("torch.")
    return ""


def entry(owner: Any, config: Any, function: str) -> dict[str, str]:
    """One attention class: its pairing, and what is not as in most models."""
    rotation = getattr(owner, function)
    pairing, sign = layout(rotation)
    try:
        table = table_format(owner, config)
    except (AttributeError, KeyError, TypeError, ValueError):  # the defaults of some classes cannot be built
        table = ""
    facts = {"pairing": pairing, "compute_dtype": compute(rotation, table)}
    if sign != "positive":
        facts["angle_sign"] = sign
    if table not in ("", "bfloat16"):
        facts["table_dtype"] = table
    return facts


def build() -> dict[str, Any]:
    """The facts, by model type, and beside them the attention classes that no simple rotation fits."""
    facts: dict[str, Any] = {}
    apart: dict[str, str] = {}
    for path in folders():
        found = list(calls(path))
        owner = library(f"transformers.models.{path.parent.name}.{path.stem}") if found else None
        for name, config, function in found:
            stated = getattr(owner, config, None) if config else None
            model_type = CONFIGS.get(name) or getattr(stated, "model_type", "") or f"{path.parent.name}.{name}"
            try:
                new = entry(owner, stated, function)
            except (ValueError, TypeError, RuntimeError) as error:
                apart[f"{path.parent.name}.{name}"] = f"{function}: {error}"[:120]
                continue
            _add(facts, model_type, new)
    # The DiT sorts the channels of its one turning head, even ones first, before it calls the function.
    facts["qwen2_5_omni_dit"] = {**facts["qwen2_5_omni_dit"], "pairing": "interleaved-in/half-out"}
    for owner_type, types in SHARED.items():
        facts.update(dict.fromkeys(types, facts[owner_type]))
    return {"types": facts, "apart": apart}


def _add(facts: dict[str, Any], model_type: str, new: dict[str, str]) -> None:
    """Two rotations of one type are those of its `rope_interleave`, true and false, whose default is true."""
    old = facts.setdefault(model_type, new)
    if old != new and "without_rope_interleave" not in old:
        both = {each["pairing"]: each for each in (old, new)}
        if set(both) != {"half", "interleaved-in/half-out"}:
            raise ValueError(f"{model_type} turns in two ways: {old} and {new}")
        facts[model_type] = {**both["interleaved-in/half-out"], "without_rope_interleave": "half"}


def write() -> None:
    facts = {"transformers": importlib.metadata.version("transformers"), "script": __spec__.name, **build()}
    PATH.write_text(json.dumps(facts, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()
