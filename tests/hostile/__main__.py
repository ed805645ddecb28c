"""python -m tests.hostile [PART ...]: the parts in full, two at a time, each in a process of its own.

Without names all of them. Files are mutated by atheris (libFuzzer, guided by coverage) where it can be imported, and by
our own mutations of the same files where not. Ends with 0 if every part held.
"""

import importlib.util
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

from tests.hostile.parts import PARTS, SEED

AT_ONCE = 2


def main(names: list[str]) -> int:
    """Longest first, so that the last to end is a short one."""
    unknown = set(names) - set(PARTS)
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return max(pool.map(one, names or list(PARTS)))


def one(name: str) -> int:
    """A part in a process of its own; its last line on success, everything it wrote on failure."""
    guided = name in ("npy", "safetensors", "inference") and importlib.util.find_spec("atheris") is not None
    arguments = ["tests.hostile.files", name, str(PARTS[name].cases)] if guided else ["tests.hostile", "--here", name]
    began = time.monotonic()
    # Iteration over sets and the like is a part of what a seed fixes.
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False,
    )  # fmt: skip
    how = "atheris" if guided else "ours"
    seconds = time.monotonic() - began
    print(
        f"{name}: {PARTS[name].cases} cases, seed {SEED}, {how}, {seconds:.0f} s, exit code {done.returncode}",
        flush=True,
    )
    print(done.stdout if done.returncode else "  " + done.stdout.rstrip().rpartition("\n")[2], flush=True)
    return int(done.returncode != 0)


def here(name: str) -> int:
    warnings.simplefilter("error")
    print(dict(sorted(PARTS[name].run(PARTS[name].cases).items())))
    return 0


if __name__ == "__main__":
    sys.exit(here(sys.argv[2]) if sys.argv[1:2] == ["--here"] else main(sys.argv[1:]))
