"""The same bytes on every processor: vector units off in numpy and in glibc, in separate processes."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

PROGRAM = """
import hashlib, sys
from fractions import Fraction
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__ as features
from service.engine.reals import Reals, geometric
from service.engine.rounding import DTYPES
from service.engine.single import float32_frequencies, ggml_angles, write_float32
from service.engine.waves import Waves, products

digest = hashlib.sha256()
frequencies = geometric(10000.0, [Fraction(-k, 40) for k in range(40)])
waves = Waves(frequencies)
fractional = np.arange(200) / 7
for dtype in DTYPES.values():
    for positions in (range(-100, 1900), fractional, np.array([2.0 ** 53, 1e15 + 3])):
        table = np.empty((len(positions), 80), dtype)
        waves.write(positions, table[:, 0::2], table[:, 1::2])
        digest.update(table.tobytes())
    table = np.empty((200, 40), dtype)
    products(fractional, frequencies, table)
    digest.update(table.tobytes())
    angles = ggml_angles(10000.0, 80, fractional)
    digest.update(angles.tobytes())
    write_float32(angles, table, None)
    digest.update(table.tobytes())
for form in ("power", "exp-log"):
    digest.update(float32_frequencies(500000.0, 96, 48, form=form).tobytes())
control = np.sin(np.arange(20000) * 0.37).tobytes() + np.exp(np.arange(20000) / 1e3).tobytes()
control += np.sin(np.arange(20000, dtype=np.float32) * np.float32(0.37)).tobytes()
still_on = [name for name in sys.argv[1:] if features[name]]
print(digest.hexdigest(), hashlib.sha256(control).hexdigest(), *still_on)
"""


def features(pattern: tuple[str, ...]) -> list[str]:
    """The processor features in use with such names, as numpy spells them, less those numpy is built for."""
    umath = import_module("numpy._core._multiarray_umath")
    baseline = umath.__cpu_baseline__
    return [
        name
        for name, there in umath.__cpu_features__.items()
        if there and name not in baseline and name in umath.__cpu_dispatch__ and name.startswith(pattern)
    ]


def run(environment: dict[str, str], names: list[str]) -> list[str]:
    """The digest of the service's bytes, that of the control, and the features of these names still on."""
    command = [sys.executable, "-c", PROGRAM, *names]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return finished.stdout.split()


def test_the_bytes_are_the_same_on_every_processor() -> None:
    wide = features(("AVX512", "X86_V4"))
    vector = features(("AVX", "FMA", "X86_V3", "X86_V4"))
    if not vector:
        pytest.skip("this processor, or numpy's build, has nothing to switch off")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NPY_", "GLIBC_"))}
    plain["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    glibc = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4,-AVX"}
    full = run(plain, vector)
    narrower = run({**plain, "NPY_DISABLE_CPU_FEATURES": ",".join(wide)}, wide)
    narrowest = run({**plain, **glibc, "NPY_DISABLE_CPU_FEATURES": ",".join(vector)}, vector)
    assert full[2:] == vector
    assert narrower[2:] == narrowest[2:] == [], "numpy did not obey the switch"
    assert narrowest[1] != full[1], "the control should differ: numpy's and glibc's own sines do"
    assert full[0] == narrower[0] == narrowest[0]
