"""What the explorer copies is run: the same bytes as the service answers, in Python, JavaScript and a shell."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.access import new_key
from tests.browser.explorer import Explorer, fragment
from tests.browser.watching import watched
from tests.tools import program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool

LAYERS = '{"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}'
REQUESTS = {
    "rope": ("/v1/encodings/rope?length=7&dim=12&base=500000", ""),
    "bfloat16": ("/v1/encodings/sinusoidal?length=5&dim=6&dtype=bfloat16", ""),
    "float16": ("/v1/encodings/sinusoidal?length=5&dim=7&dtype=float16", ""),
    "t5-buckets": ("/v1/biases/t5-buckets?queries=3&keys=5", ""),
    "causal": ("/v1/masks/causal?length=5", ""),
    "precision": ("/v1/analyses/precision?length=40&dim=8", ""),
    "layers": (f"/v1/encodings/rope?length=4&dim=8&rope_parameters={LAYERS}", ""),
    "vectors": ("/v1/apply/rope?offset=3", '{"tensors": {"q": [[0.1, 1e-3], [3, 4.0]],\n "k": [[5, 6], [-0.0, 8]]}}'),
    "bfloat16-vectors": ("/v1/apply/rope?dtype=bfloat16", '{"tensors": {"q": [[0.1, 1e-3]], "k": [[5, 6]]}}'),
    "segments": ("/v1/positions/multimodal", '{"segments": [{"type": "text", "tokens": 3}]}'),
}


KEYED = ("rope", "bfloat16", "vectors", "bfloat16-vectors")


@pytest.mark.parametrize(("asked", "keyed"), [*((each, False) for each in REQUESTS), *((each, True) for each in KEYED)])
def test_copied_code_gives_the_same_bytes(
    browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, keyed: bool
) -> None:
    address, body = REQUESTS[asked]
    key, entry = new_key("ci") if keyed else ("", "")
    if keyed:
        monkeypatch.setenv("POSENC_API_KEY", key)
    with watched(Explorer, browser, api_keys=entry, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.key = key
        page.open(fragment(address, body))
        names = _names(page)
        due = [hashlib.sha256(page.get(_raw(page.address(), name, len(names)), body)).hexdigest() for name in names]
        copied = page.code("python")
        shown = "".join(f"print(hashlib.sha256({_variable(name)}.tobytes()).hexdigest())\n" for name in names)
        assert _run([sys.executable, "-c", f"import hashlib\n{copied}\n{shown}"], tmp_path) == due
        copied = page.code("javascript")
        buffers = [f"Buffer.from({_variable(name)}.buffer)" for name in names]
        hashed = "".join(f"console.log(createHash('sha256').update({each}).digest('hex'));\n" for each in buffers)
        (tmp_path / "copied.mjs").write_text(f"import {{ createHash }} from 'node:crypto';\n{copied}\n{hashed}")
        assert _run([program("node"), "copied.mjs"], tmp_path) == due
        copied = page.code("curl")
        _run(["bash", "-euc", copied], tmp_path)
        file = re.match(r"curl -s '(.*?)' -o (\S+)", copied)
        assert file is not None
        assert (tmp_path / file[2]).read_bytes() == page.get(file[1].removeprefix(page.base), body)
        # torch is not here: tests/oracles runs the module.
        copied = page.code("pytorch")
        compile(copied, "copied", "exec")
        assert ("POSENC_API_KEY" in copied) == keyed
        assert [told for told in page.complaints if not (keyed and "401" in told)] == []


def _names(page: Explorer) -> list[str]:
    """The tensors of the answer, as the picture's description lists them."""
    told = str(page.side().locator(".picture img").get_attribute("alt")).partition(" as a heatmap: ")[2]
    return [each.split(",")[0] for each in told.split("; ")]


def _raw(address: str, name: str, count: int) -> str:
    path, _, query = address.partition("?")
    return f"{path}.bin?{query}" + (f"&tensor={name}" if count > 1 else "")


def _variable(name: str) -> str:
    return name.replace(".", "_")


def _run(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()
