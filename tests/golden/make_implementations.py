"""How other implementations scale RoPE, frozen: `python -m tests.golden.make_implementations PART SOURCE RELEASE`.

PART is `mlx`, `litgpt`, `transformers4` or `ggml` (vLLM and keras-hub: `make_turned`). SOURCE is where its code lies:
mlx-lm's `models/rope_utils.py`, litgpt's `model.py`, any folder for transformers, a checkout of ggml. Each part needs
an environment of its own (mlx; torch; transformers 4.57; a C++ compiler), so each run adds its arrays:

    mlx.TYPE.inv_freq, mlx.TYPE.scale            1 / the periods that it hands to mx.fast.rope; what it multiplies x by
    litgpt.yarn.cos, litgpt.yarn.sin             (positions, pairs)
    transformers4.CASE.inv_freq, .attention_factor, of the cases of make_scaling
    ggml.TYPE.cos, ggml.TYPE.sin                 (positions, pairs), of `ggml_rope_cache_init`; of the names of
                                                 `MULTIPLE` at `AXES`, of `ggml_mrope_cache_init`
    ggml.TYPE.half, ggml.TYPE.interleaved        `vectors()` turned by them, of `rotate_pairs`
"""

import ast
import ctypes
import importlib.util
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np

from tests.golden.frozen import FOLDER, Numbers, library, load, provenance, save
from tests.golden.make_scaling import CASES, block_of, lists

WIDTH, BASE = 96, 500_000.0
FACTOR, TRAINED = 16.0, 4096
POSITIONS = np.array([0, 1, 17, 255, 4095, 4096, 8193, 131_071], np.int64)
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


AXES = np.stack([POSITIONS, POSITIONS[::-1], (POSITIONS + 3) // 2, POSITIONS % 5], axis=1)
# Sections of pairs, width of the head, rotated width by which the angle falls, imrope and vision.
MULTIPLE: dict[str, tuple[tuple[int, ...], int, int, bool, bool]] = {
    "mrope": ((12, 20, 16, 0), WIDTH, WIDTH, False, False),
    "imrope": ((18, 15, 15, 0), WIDTH, WIDTH, True, False),
    "vision": ((24, 24, 24, 24), WIDTH, WIDTH // 2, False, True),
}


def vectors() -> Any:
    """(positions, WIDTH) of float16, for ggml to turn."""
    return np.random.default_rng(WIDTH).uniform(-4, 4, (len(POSITIONS), WIDTH)).astype(np.float16)


def ggml(source: Path) -> Numbers:
    """ggml's own functions, compiled without contractions: cos and sin of each pair, and float16 turned by them."""
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
        table = np.empty((len(POSITIONS), WIDTH), np.float32)
        for row, at in zip(table, POSITIONS.tolist(), strict=True):
            functions.table(at, freq_scale, _pointer(factors), ext_factor, WIDTH, TRAINED, BASE, _pointer(row))
        arrays |= {f"ggml.{name}.cos": table[:, ::2].copy(), f"ggml.{name}.sin": table[:, 1::2].copy()}
        for pairing, pairs in (("half", WIDTH // 2), ("interleaved", 1)):
            turned = np.empty((len(POSITIONS), WIDTH), np.float16)
            for row, x, out in zip(table, vectors(), turned, strict=True):
                functions.turn(WIDTH, pairs, _pointer(row), _pointer(x), _pointer(out), 2 if pairs > 1 else 1)
            arrays[f"ggml.{name}.{pairing}"] = turned
    for name, (sections, width, rotated, imrope, vision) in MULTIPLE.items():
        table = np.empty((len(POSITIONS), width), np.float32)
        for row, at in zip(table, AXES, strict=True):
            of = _pointer(np.array(sections, np.int32))
            functions.axes(*map(float, at), of, imrope, vision, width, rotated, BASE, _pointer(row))
        arrays |= {f"ggml.{name}.cos": table[:, ::2].copy(), f"ggml.{name}.sin": table[:, 1::2].copy()}
    return arrays


def _pointer(array: Any) -> Any:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


PREFACE = """
#include <math.h>
#include <stdint.h>
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define GGML_ASSERT(x)
template <typename T> struct type_conversion_table;
template <> struct type_conversion_table<_Float16> {
    static float to_f32(_Float16 x) { return x; }
    static _Float16 from_f32(float x) { return (_Float16) x; }
};
"""
ENTRIES = """
extern "C" void table(
    float at, float freq_scale, const float * factors, float ext, int width, int trained, float base, float * out
) {
    float dims[2];
    ggml_rope_yarn_corr_dims(width, trained, base, 32.0f, 1.0f, dims);
    ggml_rope_cache_init(at, freq_scale, factors, dims, width, ext, 1.0f, out, 1.0f, powf(base, -2.0f / width));
}
extern "C" void axes(
    float t, float h, float w, float e, int * sections, int imrope, int vision, int width, int rotated, float base,
    float * out
) {
    float dims[2] = {0.0f, 0.0f};
    ggml_mrope_cache_init(
        t, h, w, e, sections, imrope, vision, 1.0f, nullptr, dims, width, 0.0f, 1.0f, out, 1.0f,
        powf(base, -2.0f / rotated));
}
extern "C" void turn(int n, int pairs, const float * cache, const _Float16 * x, _Float16 * out, int scale) {
    rotate_pairs<_Float16>(n, pairs, cache, x, out, scale);
}
"""


def _compiled(source: Path, folder: Path) -> Any:
    operations = (source / "src/ggml-cpu/ops.cpp").read_text()
    names = ("static float rope_yarn_ramp", "static void rope_yarn(", "static void ggml_rope_cache_init(",
             "static void ggml_mrope_cache_init(")  # fmt: skip
    corrections = ("static float ggml_rope_yarn_corr_dim(", "void ggml_rope_yarn_corr_dims(")
    parts = [_function(operations, name) for name in names]
    parts += [_function((source / "src/ggml.c").read_text(), name) for name in corrections]
    parts += ["template <typename T>" + _function(operations, "static void rotate_pairs(")]
    file, library = folder / "rope.cpp", folder / "rope.so"
    file.write_text("\n".join([PREFACE, *parts, ENTRIES]))
    subprocess.run(["c++", "-O2", "-ffp-contract=off", "-shared", "-fPIC", file, "-o", library, "-lm"], check=True)
    functions = ctypes.CDLL(str(library))
    single, whole, pointer = ctypes.c_float, ctypes.c_int, ctypes.c_void_p
    functions.table.argtypes = [single, single, pointer, single, whole, whole, single, pointer]
    functions.axes.argtypes = [*[single] * 4, pointer, *[whole] * 4, single, pointer]
    functions.turn.argtypes = [whole, whole, pointer, pointer, pointer, whole]
    for function in (functions.table, functions.axes, functions.turn):
        function.restype = None
    return functions


def _function(text: str, head: str) -> str:
    start = text.index(f"\n{head}")
    return text[start : text.index("\n}\n", start) + 3]


PARTS: dict[str, tuple[Callable[[Path], Numbers], tuple[str, ...]]] = {
    "mlx": (mlx, ("mlx",)),
    "litgpt": (litgpt, ("torch",)),
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
