"""How other implementations scale RoPE, frozen: `python -m tests.golden.make_implementations PART SOURCE RELEASE`.

PART is `mlx`, `keras`, `litgpt`, `vllm`, `transformers4` or `ggml`. SOURCE is where its code lies: mlx-lm's
`models/rope_utils.py`, keras-hub's `layers/modeling/rotary_embedding.py`, litgpt's `model.py`, vLLM's
`rotary_embedding/ntk_scaling_rope.py`, any folder for transformers, a checkout of ggml. Each part needs an environment
of its own (mlx; keras, on torch; torch; torch; transformers 4.57; a C compiler), so each run adds its arrays:

    mlx.TYPE.inv_freq, mlx.TYPE.scale            1 / the periods that it hands to mx.fast.rope; what it multiplies x by
    keras.TYPE.inv_freq
    litgpt.yarn.cos, litgpt.yarn.sin             (positions, pairs)
    vllm.ntk.inv_freq, vllm.ntk_mixed.inv_freq
    transformers4.CASE.inv_freq, .attention_factor, of the cases of make_scaling
    ggml.TYPE.cos, ggml.TYPE.sin                 (positions, pairs), of `ggml_rope_cache_init`
"""

import ast
import ctypes
import importlib.util
import math
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np

from tests.golden.frozen import FOLDER, Numbers, library, load, provenance, save
from tests.golden.make_scaling import CASES, block_of, lists

WIDTH, BASE = 96, 500_000.0
FACTOR, TRAINED = 16.0, 4096
POSITIONS = np.array([0, 1, 17, 255, 4095, 4096, 8193, 131_071], np.int64)
MIXED_B = 0.625
MSCALES: dict[str, dict[str, float]] = {"neither": {}, "mscale": {"mscale": 0.5}, "all_dim": {"mscale_all_dim": 0.5}}


def module_of(path: Path) -> Any:
    """A file as a module, whatever package it is from."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mlx(source: Path) -> Numbers:
    """mlx-lm's rotary modules."""
    utils = module_of(source)
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    found = {
        "longrope": utils.SuScaledRoPE(WIDTH, BASE, int(FACTOR * TRAINED), TRAINED, **lists(WIDTH)),
        "llama3": utils.Llama3RoPE(WIDTH, base=BASE, scaling_config=llama3),
        "proportional": utils.ProportionalRoPE(WIDTH, WIDTH // 4, base=BASE, factor=8.0),
    }
    for name, given in MSCALES.items():
        yarn = {"base": BASE, "scaling_factor": FACTOR, "original_max_position_embeddings": TRAINED, **given}
        found[f"yarn.{name}"] = utils.YarnRoPE(WIDTH, **yarn)
    arrays: Numbers = {f"mlx.{name}.inv_freq": 1 / np.array(rope._freqs) for name, rope in found.items()}
    scales = {"longrope": found["longrope"]._scale} | {f"yarn.{name}": found[f"yarn.{name}"].mscale for name in MSCALES}
    return arrays | {f"mlx.{name}.scale": np.array(scale, np.float64) for name, scale in scales.items()}


def keras(source: Path) -> Numbers:
    """keras-hub's rotary layer."""
    export = types.ModuleType("keras_hub.src.api_export")
    export.keras_hub_export = lambda _name: lambda layer: layer  # type: ignore[attr-defined]
    for name in ("keras_hub", "keras_hub.src"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["keras_hub.src.api_export"] = export
    layer = module_of(source).RotaryEmbedding
    given = {"max_wavelength": BASE, "scaling_factor": FACTOR, "original_max_position_embeddings": TRAINED}
    return {
        f"keras.{kind}.inv_freq": np.asarray(layer(rope_type=kind, **given)._get_inverse_freq(WIDTH))
        for kind in ("linear", "dynamic", "yarn")
    }


def litgpt(source: Path) -> Numbers:
    """litgpt's cache, whose YaRN ramp runs the other way."""
    names = _some_of(source, ("yarn_get_mscale", "build_rope_cache"), {})
    yarn = {"factor": FACTOR, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_seq_len": TRAINED}
    cos, sin = names["build_rope_cache"](int(POSITIONS[-1]) + 1, WIDTH, base=BASE, extra_config=yarn)
    return {
        "litgpt.yarn.cos": cos[POSITIONS, : WIDTH // 2].numpy(),
        "litgpt.yarn.sin": sin[POSITIONS, : WIDTH // 2].numpy(),
    }


def _some_of(source: Path, wanted: tuple[str, ...], names: dict[str, Any]) -> dict[str, Any]:
    """Functions or classes of a file that cannot be imported whole."""
    tree = ast.parse(source.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in wanted]
    names |= {"torch": library("torch"), "math": math, "Optional": Optional}
    exec(compile(tree, source.name, "exec"), names)
    return names


class Plain:
    """The part of vLLM's RotaryEmbedding that its NTK scaling calls, written out."""

    def __init__(self, _head: int, rotary_dim: int, _length: int, base: float, _neox: bool, _dtype: object) -> None:
        self.rotary_dim, self.base = rotary_dim, base

    def _compute_inv_freq(self, base: float) -> Any:
        torch = library("torch")
        return 1.0 / (base ** (torch.arange(0, self.rotary_dim, 2, dtype=torch.float) / self.rotary_dim))


def vllm(source: Path) -> Numbers:
    """vLLM's fixed and mixed NTK scaling."""
    embedding = _some_of(source, ("NTKScalingRotaryEmbedding",), {"RotaryEmbedding": Plain})[
        "NTKScalingRotaryEmbedding"
    ]
    found = {
        name: embedding(WIDTH, WIDTH, TRAINED, BASE, True, FACTOR, None, mixed)
        for name, mixed in (("ntk", None), ("ntk_mixed", MIXED_B))
    }
    return {f"vllm.{name}.inv_freq": each._compute_inv_freq(BASE).numpy() for name, each in found.items()}


def transformers4(_source: Path) -> Numbers:
    """transformers 4.57, which has the block of a configuration beside its base and its trained length."""
    rules = library("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    arrays: Numbers = {}
    for name, (block, largest, length) in CASES.items():
        if block["rope_type"] not in rules:
            continue
        given = block_of(block, WIDTH, BASE)
        trained = {"original_max_position_embeddings": TRAINED} if block["rope_type"] == "longrope" else {}
        config = library("transformers").LlamaConfig(
            hidden_size=WIDTH,
            num_attention_heads=1,
            head_dim=WIDTH,
            max_position_embeddings=largest,
            rope_theta=given.pop("rope_theta"),
            rope_scaling=given,
            **trained,
        )
        inv_freq, factor = rules[block["rope_type"]](config, None, seq_len=length)
        arrays[f"transformers4.{name}.inv_freq"] = inv_freq.numpy()
        arrays[f"transformers4.{name}.attention_factor"] = np.array(factor, np.float64)
    return arrays


def ggml(source: Path) -> Numbers:
    """ggml's own C functions, compiled without contractions: cos and sin of each pair."""
    with tempfile.TemporaryDirectory() as folder:
        functions = _compiled(source, Path(folder))
    arrays: Numbers = {}
    divisors = np.array(lists(WIDTH)["long_factor"], np.float32)
    scale = float(np.float32(1) / np.float32(FACTOR))
    for name, factors, freq_scale, ext_factor in (
        ("default", None, 1.0, 0.0),
        ("linear", None, scale, 0.0),
        ("yarn", None, scale, 1.0),
        ("divisors", divisors, 1.0, 0.0),
    ):
        table = np.stack([functions(float(at), freq_scale, factors, ext_factor) for at in POSITIONS])
        arrays |= {f"ggml.{name}.cos": table[:, ::2].copy(), f"ggml.{name}.sin": table[:, 1::2].copy()}
    return arrays


def _compiled(source: Path, folder: Path) -> Callable[..., Any]:
    operations = (source / "src/ggml-cpu/ops.cpp").read_text()
    names = ("static float rope_yarn_ramp", "static void rope_yarn(", "static void ggml_rope_cache_init(")
    corrections = ("static float ggml_rope_yarn_corr_dim(", "void ggml_rope_yarn_corr_dims(")
    parts = [_function(operations, name) for name in names]
    parts += [_function((source / "src/ggml.c").read_text(), name) for name in corrections]
    entry = """
void table(
    float at, float freq_scale, const float * factors, float ext, int width, int trained, float base, float * out
) {
    float dims[2];
    ggml_rope_yarn_corr_dims(width, trained, base, 32.0f, 1.0f, dims);
    ggml_rope_cache_init(at, freq_scale, factors, dims, width, ext, 1.0f, out, 1.0f, powf(base, -2.0f / width));
}
"""
    macros = "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"
    file, library = folder / "rope.c", folder / "rope.so"
    file.write_text(
        f"#define _GNU_SOURCE\n#include <math.h>\n#include <stdint.h>\n{macros}" + "\n".join([*parts, entry])
    )
    subprocess.run(["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", file, "-o", library, "-lm"], check=True)
    table = ctypes.CDLL(str(library)).table
    single, pointer = ctypes.c_float, ctypes.POINTER(ctypes.c_float)
    table.argtypes = [single, single, pointer, single, ctypes.c_int, ctypes.c_int, single, pointer]
    table.restype = None

    def row(at: float, freq_scale: float, factors: Any, ext: float) -> Any:
        out = np.empty(WIDTH, np.float32)
        given = None if factors is None else factors.ctypes.data_as(pointer)
        table(at, freq_scale, given, ext, WIDTH, TRAINED, BASE, out.ctypes.data_as(pointer))
        return out

    return row


def _function(text: str, head: str) -> str:
    start = text.index(f"\n{head}")
    return text[start : text.index("\n}\n", start) + 3]


PARTS: dict[str, tuple[Callable[[Path], Numbers], tuple[str, ...]]] = {
    "mlx": (mlx, ("mlx",)),
    "keras": (keras, ("keras",)),
    "litgpt": (litgpt, ("torch",)),
    "vllm": (vllm, ("torch",)),
    "transformers4": (transformers4, ("torch", "transformers")),
    "ggml": (ggml, ()),
}


if __name__ == "__main__":
    part, place, release = sys.argv[1:]
    build, distributions = PARTS[part]
    before = load("implementations") if (FOLDER / "implementations.npz").is_file() else {}
    kept = {key: value for key, value in before.items() if key != "provenance" and not key.startswith(f"{part}.")}
    made = {f"{part}.provenance": provenance(*distributions), f"{part}.release": np.array(release)}
    kept |= {**made, "positions": POSITIONS}
    save("implementations", kept | build(Path(place)))
