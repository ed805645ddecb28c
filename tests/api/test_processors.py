"""The same bytes and ETags on every processor: what numpy, the C library and BLAS use of it is switched off, each on
its own and all together, in processes of their own. That a switch took effect is seen from results that do differ.
"""

import json
import os
import platform
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.processor import core, features

GLIBC = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4,-AVX"}
BLAS = {"OPENBLAS_CORETYPE": "Nehalem"}  # 2008: no AVX
VECTORS = tuple(name for name in features() if name.startswith(("AVX", "FMA", "X86_V3", "X86_V4")))
WIDEST = tuple(name for name in VECTORS if name.startswith(("AVX512", "X86_V4")))

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not VECTORS, reason="this processor, or numpy's build, has nothing to switch off"
)


def numpy_without(names: tuple[str, ...]) -> dict[str, str]:
    return {"NPY_DISABLE_CPU_FEATURES": ",".join(names)}


@cache
def run(*switches: tuple[str, str]) -> dict[str, Any]:
    """What `tests.processor` prints under these switches."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NPY_", "GLIBC_", "OPENBLAS_"))}
    paths = os.pathsep.join(path for path in sys.path if path)
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.processor"],
        env={**kept, "PYTHONPATH": paths, **dict(switches)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def under(switches: dict[str, str]) -> dict[str, Any]:
    return run(*switches.items())


def changed(switches: dict[str, str]) -> set[str]:
    """The controls that come out differently under these switches."""
    plain, switched = run()["controls"], under(switches)["controls"]
    return {name for name in plain if plain[name] != switched[name]}


def test_each_switch_takes_effect() -> None:
    assert set(VECTORS) <= set(run()["features"])
    assert not set(VECTORS) & set(under(numpy_without(VECTORS))["features"]), "numpy did not obey"
    assert "numpy" in changed(numpy_without(VECTORS))
    assert "libc" not in changed(numpy_without(VECTORS))
    assert "libc" in changed(GLIBC)


@pytest.mark.skipif(core() in (None, "Nehalem", "Prescott"), reason="BLAS has nothing to switch off")
def test_the_switch_of_blas_takes_effect() -> None:
    assert under(BLAS)["core"] == "Nehalem"
    assert changed(BLAS) == {"blas"}


@pytest.mark.parametrize(
    "switches",
    [
        pytest.param(numpy_without(WIDEST), id="numpy without AVX-512"),
        pytest.param(numpy_without(VECTORS), id="numpy without vectors"),
        pytest.param(GLIBC, id="C library without vectors"),
        pytest.param(BLAS, id="BLAS without vectors"),
        pytest.param({**numpy_without(VECTORS), **GLIBC, **BLAS}, id="all without vectors"),
    ],
)
def test_the_answers_are_the_same(switches: dict[str, str]) -> None:
    plain, switched = run()["answers"], under(switches)["answers"]
    assert len(plain) > 300
    assert switched == plain
