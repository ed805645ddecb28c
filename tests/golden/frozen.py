"""Frozen arrays: numbers of named library releases, with where they came from written inside the file.

`python -m tests.golden.make_rope` (and `make_sinusoidal`, `make_alibi`, `make_masks`, ...) makes a file again;
it needs the libraries that the file names. The tests only read. The same libraries give the same bytes.
"""

import importlib.metadata
import json
import os
import platform
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent

Numbers = dict[str, NDArray[Any]]


def library(name: str) -> Any:
    """A module of an oracle library; typed as anything, since the type checker runs without these libraries.

    PyTorch's float32 powers differ by up to two ulp between instruction sets, so the generic one is chosen
    (unless the environment names another) before PyTorch first starts, and one thread.
    """
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "default")
    with warnings.catch_warnings():
        # What the libraries deprecate of each other while they are imported is not ours to mend.
        warnings.simplefilter("ignore")
        import_module("torch").set_num_threads(1)
        return import_module(name)


def provenance(*distributions: str, sources: Mapping[str, str] | None = None) -> NDArray[np.str_]:
    """Versions (of files too) and the instruction set, as JSON text in a 0-d array."""
    facts = {name: importlib.metadata.version(name) for name in distributions} | dict(sources or {})
    if "torch" in distributions:
        facts["cpu_capability"] = library("torch").backends.cpu.get_cpu_capability()
    facts["libc"] = " ".join(platform.libc_ver())
    facts["machine"] = platform.machine()
    return np.array(json.dumps(facts, sort_keys=True))


def save(name: str, arrays: Numbers, *distributions: str, sources: Mapping[str, str] | None = None) -> None:
    """Write `name`.npz beside this file."""
    # numpy's zip members carry a fixed date, so equal arrays make an equal file.
    members: dict[str, Any] = {**arrays}
    np.savez_compressed(FOLDER / f"{name}.npz", provenance=provenance(*distributions, sources=sources), **members)


def load(name: str) -> Numbers:
    """The arrays of `name`.npz, `provenance` among them."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}
