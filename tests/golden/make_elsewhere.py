"""Sinusoidal tables of libraries that live tests do not install, frozen: `python -m tests.golden.make_elsewhere`.

`keras_hub.dim`, `neuralforecast.dim` and `tensor2tensor.dim` (rows at `ROWS`), `mlx.dim`, `mlx.cos_first.dim` and
`mlx.full_turns.dim` (at `PLACES`), and `tensor2tensor.timescales.dim` with `TIMESCALES`, float32. KERAS_BACKEND=torch
does for keras-hub. neuralforecast and tensor2tensor are read, not imported: the second needs TensorFlow 1, for whose
operations numpy stands in.

`torchtune.half` and `torchtune.interleaved` are the rows of a projection of `HEADS` heads of `HEAD_DIM` channels, put
into the order of Hugging Face's code and back (int64).
"""

import ast
import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save
from tests.golden.make_sinusoids import EVEN, LENGTH, ODD_TOO, ROWS

PLACES = (0.0, 0.25, 1.0, 3.0, 40.0, 299.5, 599.0)
TIMESCALES = (0.5, 3000.0, 5)
HEADS, HEAD_DIM = 3, 10

SOURCES = ("keras-hub", "keras", "mlx", "neuralforecast", "tensor2tensor", "torchtune", "torch", "numpy")

Singles = NDArray[np.float32]


def keras_hub(dim: int) -> Singles:
    layer = import_module("keras_hub").layers.SinePositionEncoding()
    return np.asarray(layer(library("torch").zeros(1, LENGTH, dim))[0])[ROWS]


def mlx(dim: int, **options: bool) -> Singles:
    encoding = import_module("mlx.nn").SinusoidalPositionalEncoding(dim, **options)
    return np.asarray(encoding(import_module("mlx.core").array(PLACES)))


def definition(package: str, path: str, name: str, names: dict[str, Any]) -> Any:
    """A function or class, or one within another, out of the source of a package; `names` are its globals."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    found: Any = ast.parse((Path(next(iter(spec.submodule_search_locations))) / path).read_text())
    for part in name.split("."):
        (found,) = [node for node in found.body if getattr(node, "name", None) == part]
    found.decorator_list = []
    exec(compile(ast.Module([found], []), path, "exec"), names)
    return names[found.name]


def neuralforecast(dim: int) -> Singles:
    torch = library("torch")
    names = {"torch": torch, "nn": torch.nn, "math": math}
    module = definition("neuralforecast", "common/_modules.py", "PositionalEmbedding", names)(dim, LENGTH)
    return np.asarray(module(torch.zeros(1, LENGTH, dim))[0])[ROWS]


STAND_IN = SimpleNamespace(
    range=np.arange,
    to_float=np.float32,
    maximum=np.maximum,
    exp=np.exp,
    expand_dims=np.expand_dims,
    concat=np.concatenate,
    sin=np.sin,
    cos=np.cos,
    pad=np.pad,
    mod=np.mod,
    reshape=np.reshape,
)


def tensor2tensor(dim: int, low: float = 1.0, high: float = 1.0e4, start: int = 0) -> Singles:
    """Run under numpy in place of TensorFlow, in its float32."""
    names = {"tf": STAND_IN, "math": math}
    signal = definition("tensor2tensor", "layers/common_attention.py", "get_timing_signal_1d", names)
    return np.asarray(signal(LENGTH, dim, low, high, start)[0], np.float32)[ROWS]


def torchtune(name: str) -> NDArray[np.int64]:
    rows = library("torch").arange(HEADS * HEAD_DIM)[:, None]
    permute = definition("torchtune", "models/convert_weights.py", name, {"head_dim": HEAD_DIM, "dim": 1})
    return np.asarray(permute(rows, HEADS))[:, 0]


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {
        "torchtune.half": torchtune("tune_to_hf._permute"),
        "torchtune.interleaved": torchtune("hf_to_tune._permute"),
    }
    for dim in ODD_TOO:
        arrays[f"keras_hub.{dim}"] = keras_hub(dim)
        arrays[f"tensor2tensor.{dim}"] = tensor2tensor(dim)
    for dim in (2, *EVEN):
        arrays[f"mlx.{dim}"] = mlx(dim)
        arrays[f"mlx.cos_first.{dim}"] = mlx(dim, cos_first=True)
        arrays[f"mlx.full_turns.{dim}"] = mlx(dim, full_turns=True)
        arrays[f"neuralforecast.{dim}"] = neuralforecast(dim)
        arrays[f"tensor2tensor.timescales.{dim}"] = tensor2tensor(dim, *TIMESCALES)
    return arrays


if __name__ == "__main__":
    save("elsewhere", build(), *SOURCES)
