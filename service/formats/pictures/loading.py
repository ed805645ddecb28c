"""matplotlib, loaded with the first picture: its fonts, its rendering of letters and its colour maps.

Its figures are not used. They go through floating-point transforms and BLAS, whose last bits differ between
processors, and through a font manager that searches the machine and wants a folder to write to. Here every length is
a whole number of pixels, and what is drawn depends on this package and matplotlib's version alone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

_LOADING = Lock()


@cache
def data() -> Path:
    """Where matplotlib's own fonts and defaults are, found without loading it."""
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "mpl-data"


def matplotlib() -> Any:
    """The module, whatever the user's configuration says; it needs no home and no folder to write to."""
    with _LOADING, _its_own_defaults():
        import matplotlib as loaded  # noqa: PLC0415 - takes a quarter of a second

        return loaded


@contextmanager
def _its_own_defaults() -> Iterator[None]:
    """While this lasts, matplotlib reads its shipped settings first, before it would look for a home."""
    mine = {"MATPLOTLIBRC": str(data() / "matplotlibrc"), "MPLBACKEND": "agg"}
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
