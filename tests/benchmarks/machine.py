"""Where and with what a benchmark ran: each prints it, for its figures are those of one machine."""

import datetime
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OURS = ("numpy", "uvicorn", "uvloop", "httptools", "orjson", "fastapi", "torch", "transformers", "x-transformers")
THEIRS = ("torch", "litserve", "bentoml", "fastapi", "uvicorn", "numpy")
ASKS = "import sys; from tests.benchmarks.machine import versions; print(versions(sys.argv[1:]))"
PROGRAMS = {"nginx": ("nginx", "-v"), "wrk": ("wrk", "-v")}


def machine(*pythons: str) -> str:
    """One paragraph: processor, cores, day, system, versions; of these interpreters, too."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    told = [versions(OURS), *(f"{name} {found}" for name, found in _programs()), *map(_of_other, filter(None, pythons))]
    return f"{today}, {os.cpu_count()} cores of {processor()}, {system}: {'; '.join(told)}"


def processor() -> str:
    """As the kernel names it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def versions(names: tuple[str, ...] | list[str]) -> str:
    """Of this interpreter, and of those packages that it has."""
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _of_other(python: str) -> str:
    done = subprocess.run([python, "-c", ASKS, *THEIRS], capture_output=True, text=True, check=True)
    return f"peers in {done.stdout.strip()}"


def _programs() -> list[tuple[str, str]]:
    """Those that are here; wrk ends with 1 when it is asked."""
    found = []
    for name, command in PROGRAMS.items():
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        if said := re.search(r"(?:nginx/|wrk (?:debian/)?)([\w.]+)", done.stdout + done.stderr):
            found.append((name, said[1]))
    return found
