"""Vectors turned by vLLM and keras-hub, frozen: `python -m tests.golden.make_turned PART SOURCE RELEASE`.

PART is `vllm` or `keras`. SOURCE is the unpacked wheel of vLLM, whose rotary package is imported with stand-ins for the
rest of it, or any folder for keras-hub (KERAS_BACKEND=torch). The vectors are `vectors(FORMAT)`, at `POSITIONS`:

    PART.CASE.inv_freq             where the library has one, float32
    PART.CASE.cos, PART.CASE.sin   (positions, pairs) float32, of vLLM's cache
    PART.CASE.FORMAT               the turned vectors (positions, heads, DIM); 16 bits as they are, uint16
"""

import sys
import types
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import FOLDER, Numbers, library, load, provenance, save
from tests.golden.make_scaling import lists

DIM, HEADS, BASE = 48, 2, 500_000.0
POSITIONS = np.array([0, 1, 17, 255, 1023, 4095, 4096, 8191], np.int64)
AXES = np.stack([POSITIONS, POSITIONS[::-1], (POSITIONS + 3) // 2])  # (axis, token)
FORMATS = ("float32", "float16", "bfloat16")
LENGTH, TRAINED, FACTOR = 8192, 2048, 4.0

Block = Mapping[str, Any]
YARN: Block = {"rope_type": "yarn", "factor": FACTOR, "original_max_position_embeddings": TRAINED}
DEEPSEEK: Block = {**YARN, "rope_type": "deepseek_yarn"}
LONGROPE: Block = {"rope_type": "longrope", "original_max_position_embeddings": TRAINED, **lists(DIM)}
SECTIONS: Block = {"mrope_section": [8, 10, 6]}
# What vLLM's get_rope takes; its cases, by the block of a configuration.
VLLM: Mapping[str, Block] = {
    "default": {},
    "gptj": {},
    "partial": {"partial_rotary_factor": 0.25},
    "linear": {"rope_type": "linear", "factor": FACTOR},
    # By a power of two positions and frequencies are divided alike.
    "linear_by_3": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "max_trained_positions": TRAINED},
    "alpha": {"rope_type": "dynamic", "alpha": 1000.0},
    "ntk": {"rope_type": "ntk", "factor": FACTOR},
    "ntk_mixed": {"rope_type": "ntk", "factor": FACTOR, "mixed_b": 0.625},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": TRAINED,
    },
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    "yarn": YARN,
    "yarn_real_ends": {**YARN, "truncate": False},
    "yarn_mscale": {**YARN, "mscale": 0.707},
    "yarn_both": {**YARN, "mscale": 1.2, "mscale_all_dim": 0.4},
    "yarn_attention": {**YARN, "attention_factor": 1.3},
    "deepseek": DEEPSEEK,
    "deepseek_mscale": {**DEEPSEEK, "mscale": 0.707},
    "deepseek_all_dim": {**DEEPSEEK, "mscale_all_dim": 0.707},
    "deepseek_both": {**DEEPSEEK, "mscale": 0.707, "mscale_all_dim": 0.707},
    "longrope_short": LONGROPE,
    "longrope_long": LONGROPE,
    "longrope_mscale": {**LONGROPE, "short_mscale": 1.1, "long_mscale": 1.25},
    "mrope": SECTIONS,
    "mrope_interleaved": {"mrope_section": [8, 8, 8], "mrope_interleaved": True},
    "mrope_yarn": {**YARN, **SECTIONS},
}
KERAS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "linear": {"rope_type": "linear", "scaling_factor": FACTOR},
    "dynamic": {"rope_type": "dynamic", "scaling_factor": FACTOR},
    "yarn": {"rope_type": "yarn", "scaling_factor": 16.0, "original_max_position_embeddings": TRAINED},
    "yarn_real_ends": {
        "rope_type": "yarn",
        "scaling_factor": 16.0,
        "original_max_position_embeddings": TRAINED,
        "truncate": False,
    },
}


def vectors(dtype: str) -> NDArray[Any]:
    """(positions, heads, DIM)."""
    numbers = np.random.default_rng(DIM).uniform(-4, 4, (len(POSITIONS), HEADS, DIM))
    return numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def bits(tensor: Any) -> NDArray[Any]:
    """A tensor of 16 bits as they are."""
    torch = library("torch")
    found: NDArray[Any] = tensor.detach().contiguous().view(torch.int16).numpy().view(np.uint16)
    return found


def tensor_of(dtype: str) -> Any:
    torch, x = library("torch"), vectors(dtype)
    return torch.tensor(x) if dtype == "float32" else torch.tensor(x.view(np.int16)).view(getattr(torch, dtype))


def array_of(tensor: Any, dtype: str) -> NDArray[Any]:
    return np.asarray(tensor.detach().numpy()) if dtype == "float32" else bits(tensor)


def stand_ins(source: Path, longest: list[int]) -> Any:
    """vLLM's rotary package without what it imports: `longest` holds the max_model_len of its configuration."""
    torch = library("torch")

    class CustomOp(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is not installed where types are checked
        """What the operations are built on: a module, of which the PyTorch way is called."""

        def __init__(self, **_named: bool) -> None:
            super().__init__()

        @classmethod
        def register(cls, _name: str) -> Any:
            return lambda operation: operation

        @classmethod
        def enabled(cls) -> bool:
            return False

    never = SimpleNamespace(**{f"is_{name}": lambda: False for name in ("cuda", "rocm", "tpu", "xpu")})
    never.is_cpu, never.device_type = (lambda: True), "cpu"
    quiet = SimpleNamespace(warning_once=lambda *_: None, warning=lambda *_: None)
    model = SimpleNamespace(model_config=SimpleNamespace(max_model_len=0))

    def current() -> Any:
        model.model_config.max_model_len = longest[0]
        return model

    known: dict[str, dict[str, Any]] = {
        "vllm.logger": {"init_logger": lambda _name: quiet},
        "vllm.platforms": {"current_platform": never},
        "vllm.config": {"get_current_vllm_config": current},
        "vllm.utils.torch_utils": {"direct_register_custom_op": lambda **_: None, "async_tensor_h2d": None},
        "vllm.utils.flashinfer": {"has_flashinfer": lambda: False},
        "vllm.distributed": dict.fromkeys(("get_tensor_model_parallel_rank", "get_tensor_model_parallel_world_size")),
        "vllm._aiter_ops": {"rocm_aiter_ops": SimpleNamespace(is_triton_rotary_embed_enabled=lambda: False)},
        "vllm.triton_utils": {
            "tl": SimpleNamespace(constexpr=int),
            "triton": SimpleNamespace(jit=lambda function: function),
        },
        "vllm.model_executor.custom_op": {"CustomOp": CustomOp, "PluggableLayer": CustomOp},
    }
    folder = "vllm.model_executor.layers"
    for name in ("vllm", "vllm.utils", "vllm.model_executor", folder, *known):
        module = types.ModuleType(name)
        module.__path__ = [str(source / name.replace(".", "/"))]
        vars(module).update(known.get(name, {}))
        sys.modules[name] = module
    return library(f"{folder}.rotary_embedding")


def vllm(source: Path) -> Numbers:
    """vLLM's modules as `get_rope` builds them, and what their PyTorch way makes of the vectors."""
    torch, longest = library("torch"), [0]
    package = stand_ins(source, longest)
    arrays: Numbers = {}
    for name, block in VLLM.items():
        longest[0] = TRAINED if name == "longrope_short" else LENGTH
        package._ROPE_DICT.clear()
        several = "mrope_section" in block
        at = torch.tensor(AXES if several else POSITIONS)
        for dtype in FORMATS:
            module = package.get_rope(
                DIM,
                # YaRN's cache is as long as its lengths make it; the linear one's is that of the trained length.
                2 * TRAINED if name.startswith("linear") else LENGTH,
                is_neox_style=name != "gptj",
                rope_parameters={"rope_theta": BASE, **block},
                dtype=getattr(torch, dtype),
            )
            x = tensor_of(dtype)
            flat = x.reshape(len(x), -1)
            if name.startswith("deepseek"):
                turned, _ = module.forward_native(at, x, x)
            elif name == "longrope_short":
                # Its short cache ends at the trained length.
                within = at < TRAINED
                turned = x.clone()
                turned[within] = module(at[within], flat[within], flat[within])[0].view(-1, HEADS, DIM)
            else:
                turn = module.forward_native if hasattr(module, "forward_native") else module
                turned, _ = turn(at, flat, flat)
            arrays[f"vllm.{name}.{dtype}"] = array_of(turned.reshape(x.shape), dtype)
            if dtype == "float32" and not name.startswith("longrope"):
                cache = module.cos_sin_cache[torch.tensor(POSITIONS)].chunk(2, dim=-1)
                arrays |= {
                    f"vllm.{name}.{wave}": each.numpy() for wave, each in zip(("cos", "sin"), cache, strict=True)
                }
    return arrays


def keras(_source: Path) -> Numbers:
    """keras-hub's layer, of which the vectors are a sequence: at positions of the caller's own."""
    layers = library("keras_hub").layers
    arrays: Numbers = {}
    for name, options in KERAS.items():
        for dtype in FORMATS:
            layer = layers.RotaryEmbedding(max_wavelength=BASE, dtype=dtype, **options)
            turned = layer(tensor_of(dtype)[None], positions=POSITIONS)[0]
            arrays[f"keras.{name}.{dtype}"] = array_of(turned, dtype)
        arrays[f"keras.{name}.inv_freq"] = np.asarray(layer._get_inverse_freq(DIM).detach(), np.float32)
    return arrays


PARTS = {"vllm": (vllm, ("torch",)), "keras": (keras, ("torch", "keras", "keras-hub"))}


if __name__ == "__main__":
    part, place, release = sys.argv[1:]
    build, distributions = PARTS[part]
    before = load("turned") if (FOLDER / "turned.npz").is_file() else {}
    kept = {key: value for key, value in before.items() if key != "provenance" and not key.startswith(f"{part}.")}
    made = {f"{part}.provenance": provenance(*distributions), f"{part}.release": np.array(release)}
    save("turned", {**kept, **made, "positions": POSITIONS} | build(Path(place)))
