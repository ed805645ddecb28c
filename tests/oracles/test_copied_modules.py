"""The PyTorch module that the explorer copies, made by its own JavaScript and run with PyTorch itself."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module

import pytest

from service.api import docs
from service.main import create_app
from service.settings import Settings
from tests.live import live
from tests.tools import program

pytestmark = pytest.mark.oracle

SNIPPET = """\
import { readBeginning } from "./explorer/safetensors.js";
import { snippet } from "./explorer/snippets.js";
import { parseAddress } from "./explorer/state.js";
const [base, address, body] = process.argv.slice(2);
const { key, parameters } = parseAddress(address);
const [name] = key.split("/").slice(-1);
const { schemes } = await (await fetch(`${base}/v1/schemes/${name}`)).json();
const entry = schemes.find(({ href }) => href === `/v1/${key}`);
const headers = { "Content-Type": "application/json" };
const asked = body ? { method: "POST", headers, body } : {};
const answer = await fetch(base + address.replace(/[?]|$/, ".safetensors?"), asked);
const shown = readBeginning(await answer.arrayBuffer(), Object.keys(entry.tensors), 4, 8);
process.stdout.write(JSON.stringify([snippet("pytorch", { entry, parameters, body }, shown, base), shown]));
"""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    settings = Settings(port=0, drain_seconds=0)
    with live(create_app(settings), settings) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("asked", "name", "shape", "dtype"),
    [
        ("/v1/encodings/rope?length=9&dim=12&dtype=bfloat16", "Rope", (9, 12), "bfloat16"),
        ("/v1/encodings/sinusoidal?length=5&dim=7&dtype=float16&offset=3", "Sinusoidal", (5, 7), "float16"),
        ("/v1/biases/t5-buckets?queries=3&keys=5", "T5Buckets", (3, 5), "int64"),
        ("/v1/masks/causal?length=6", "Causal", (6, 6), "bool"),
        ("/v1/biases/alibi-slopes?heads=5&dtype=float64", "AlibiSlopes", (5,), "float64"),
        ('/v1/apply/rope {"tensors": {"q": [[1e-3, 2], [3, -0.0]], "k": [[5, 6], [7, 8]]}}', "Rope", (2, 2), "float32"),
        (
            '/v1/encodings/rope?dim=8&length=3 {"rope_parameters": {"full_attention": {"rope_theta": 1e6},'
            ' "sliding_attention": {"rope_theta": 1e4}}}',
            "Rope",
            (3, 8),
            "float32",
        ),
    ],
)
def test_a_module_holds_what_the_service_answers(
    base: str, tmp_path_factory: pytest.TempPathFactory, asked: str, name: str, shape: tuple[int, ...], dtype: str
) -> None:
    folder = tmp_path_factory.mktemp("copied")
    shutil.copytree(docs.WEB / "explorer", folder / "explorer")
    # What a page says by type="module".
    (folder / "package.json").write_text('{"type": "module"}')
    torch = import_module("torch")
    script = folder / "copy.mjs"
    script.write_text(SNIPPET)
    done = subprocess.run(
        [program("node"), str(script), base, *asked.split(" ", 1), ""],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    code, shown = json.loads(done.stdout)
    scope: dict[str, object] = {}
    exec(code, scope)
    module = scope[name]()  # type: ignore[operator]
    buffers = dict(module.named_buffers())
    names = [each["name"].replace(".", "_") for each in shown["tensors"]]
    assert sorted(buffers) == sorted(names)
    assert module.state_dict() == {}
    answered = module() if isinstance(module(), tuple) else (module(),)
    for each, answer in zip(names, answered, strict=True):
        held = buffers[each]
        assert held is answer
        assert tuple(held.shape) == shape
        assert held.dtype == getattr(torch, dtype)
    # The first rows as the page shows them: seven digits of float32, four of float16, three of bfloat16.
    first = buffers[names[0]].reshape(-1, shape[-1])
    digits = {"bfloat16": 1e-2, "float16": 1e-3}.get(dtype, 1e-6)
    for row, values in zip(shown["rows"], first.tolist(), strict=False):
        assert row == pytest.approx(values[: len(row)], rel=digits, abs=1e-30)
    moved = module.to("meta")
    assert all(each.device.type == "meta" for each in moved.buffers())
