"""The Python client against the service, against transports that misbehave, and its signatures against the records."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load

from service import client_names
from service.access import new_key
from service.client import (
    Answer,
    AsyncPosenc,
    Cache,
    Posenc,
    ProblemError,
    as_array,
    body_of,
    call_of,
    read_safetensors,
    write_safetensors,
)
from service.engine import SCHEMES
from service.engine.scheme import Example, Scheme
from service.main import create_app
from service.settings import Settings
from tests import client_methods
from tests.live import live

EXAMPLES = [
    pytest.param(scheme, example, id=f"{scheme.family}-{scheme.name}-{number}")
    for scheme in SCHEMES
    for number, example in enumerate(scheme.examples)
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(port=0, drain_seconds=0)
    with live(create_app(settings), settings) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def posenc(url: str) -> Iterator[Posenc]:
    with Posenc(url) as opened:
        yield opened


class Recorder(httpx.BaseTransport):
    """Passes requests on, or answers them from a list, and notes what came and went."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.inner = httpx.HTTPTransport()
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.statuses: list[int] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0) if self.answers else self.inner.handle_request(request)
        self.requests.append(request)
        self.statuses.append(answer.status_code)
        return answer

    def close(self) -> None:
        self.inner.close()


class AsyncRecorder(httpx.AsyncBaseTransport):
    """The same for an asynchronous client."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.inner = httpx.AsyncHTTPTransport()
        self.answers = list(answers)
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0) if self.answers else await self.inner.handle_async_request(request)
        self.statuses.append(answer.status_code)
        return answer

    async def aclose(self) -> None:
        await self.inner.aclose()


# The signatures


@pytest.mark.parametrize("name", client_methods.MADE)
def test_names_and_signatures_are_those_of_the_records(name: str) -> None:
    made = client_methods.MADE[name]()
    assert (client_methods.SERVICE / name).read_text(encoding="utf-8") == made, "run python -m tests.client_methods"


def test_the_names_are_those_of_the_registry() -> None:
    assert list(client_names.ARRAYS) == [f"{scheme.family}/{scheme.name}" for scheme in SCHEMES]
    assert client_names.ARRAYS["apply/rope"] == ("q", "k", "positions", "from_positions")
    assert client_names.LISTS["encodings/rope"] == ("positions",)
    assert client_names.LISTS["apply/rope"] == ()


def test_a_signature_has_every_parameter_array_and_pasted_block() -> None:
    found = client_methods.arguments(next(scheme for scheme in SCHEMES if scheme.key == ("apply", "rope")))
    assert found["q"] == ("ArrayLike", True)
    assert found["k"] == ("ArrayLike", False)
    assert found["pairing"] == ('Literal["half", "interleaved"]', False)
    assert found["rope_scaling"] == ("Mapping[str, Any]", False)
    assert found["offset"] == ("int", False)


def test_a_copy_of_its_files_is_a_client_by_itself(url: str, tmp_path: Path) -> None:
    """As the README says: in another package, where there is no `service`."""
    (tmp_path / "yours").mkdir()
    for file in client_methods.SERVICE.glob("client*"):
        shutil.copy(file, tmp_path / "yours")
    code = (
        "import sys; sys.modules['service'] = None; from yours.client import Posenc; "
        "print(Posenc(sys.argv[1]).rope(length=2, dim=4))"
    )
    done = subprocess.run([sys.executable, "-c", code, url], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "<encodings/rope cos: float32[2, 4], sin: float32[2, 4]>\n"


# Every scheme


def arguments(scheme: Scheme[Any, Any], example: Example) -> dict[str, Any]:
    """An example as arguments: a JSON body's numbers count as float32 where that decides."""
    body = dict(example.body or {})
    found: dict[str, Any] = {**example.query, **body.pop("tensors", {}), **body}
    field = scheme.params.model_fields.get("dtype")
    if example.body is not None and field is not None and field.default is None:
        found.setdefault("dtype", "float32")
    return found


@pytest.mark.parametrize(("scheme", "example"), EXAMPLES)
def test_every_example_answers_as_the_json_does(
    scheme: Scheme[Any, Any], example: Example, posenc: Posenc, url: str
) -> None:
    method = getattr(getattr(posenc, scheme.family), scheme.name.replace("-", "_"))
    answer = method(**arguments(scheme, example))
    query = {**example.query, "nonfinite": "string"}
    path = f"{url}/v1/{scheme.family}/{scheme.name}"
    shown = httpx.request("POST" if example.body else "GET", path, params=query, json=example.body).json()
    assert (answer.family, answer.scheme, answer.revision) == (scheme.family, scheme.name, scheme.revision)
    assert (answer.facts, answer.notes) == (shown["facts"], shown["notes"])
    assert answer.parameters.keys() == shown["parameters"].keys()
    assert set(answer) == set(shown["tensors"])
    for name, tensor in shown["tensors"].items():
        assert (str(answer[name].dtype), list(answer[name].shape)) == (tensor["dtype"], tensor["shape"])
        expected = np.array(tensor["data"], float).astype(answer[name].dtype)
        assert np.array_equal(answer[name], expected, equal_nan=tensor["dtype"] != "bool")


def test_schemes_go_by_their_name_alone(posenc: Posenc) -> None:
    assert np.array_equal(posenc.alibi_slopes(heads=3).array, np.array([0.0625, 0.00390625, 0.25], np.float32))
    assert np.array_equal(posenc.rope(length=3, dim=4)["sin"], posenc.encodings.rope(length=3, dim=4)["sin"])
    assert {"rope", "apply", "alibi_slopes", "bundle"} <= set(dir(posenc))
    assert "resample" in dir(posenc.learned)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (lambda client: client.ropee, "'ropee' is no scheme; did you mean 'rope'?"),
        (lambda client: client.apply.kerpel, "'kerpel' is no scheme; did you mean 'kerple'?"),
        (lambda client: client.q, "'q' is no scheme"),
    ],
)
def test_a_misspelt_scheme(wrong: Callable[[Any], Any], line: str, posenc: Posenc) -> None:
    with pytest.raises(AttributeError) as error:
        wrong(posenc)
    assert str(error.value) == line


def test_bfloat16_there_and_back(posenc: Posenc) -> None:
    random = np.random.default_rng(7)
    q = random.standard_normal((3, 5, 8)).astype(ml_dtypes.bfloat16)
    turned = posenc.apply.rope(q=q, offset=1000)["q"]
    assert turned.dtype == ml_dtypes.bfloat16
    back = posenc.apply.rope(q=turned, offset=1000, direction="inverse")["q"]
    assert np.abs(back.astype(float) - q.astype(float)).max() < 0.05
    assert not np.array_equal(turned, q)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_body_decides_the_number_format(dtype: str, posenc: Posenc) -> None:
    x = np.linspace(-1, 1, 12).reshape(3, 4).astype(dtype)
    assert posenc.apply.sinusoidal(x=x, offset=5)["x"].dtype == dtype


def test_views_and_other_byte_orders_are_sent_as_the_values_they_are(posenc: Posenc) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = posenc.apply.sinusoidal(x=np.ascontiguousarray(x.T))["x"]
    assert np.array_equal(posenc.apply.sinusoidal(x=x.T)["x"], expected)
    assert np.array_equal(posenc.apply.sinusoidal(x=x.T.astype(">f4"))["x"], expected)
    with pytest.raises(TypeError, match="x is complex64; the service reads float16"):
        posenc.apply.sinusoidal(x=x.astype(np.complex64))


# What goes where


@pytest.mark.parametrize(
    ("key", "given", "query"),
    [
        ("encodings/rope", {"positions": [0, 7.5, -3], "dim": 4}, "positions=0,7.5,-3&dim=4"),
        ("encodings/rope", {"positions": np.array([0.1], np.float32), "dim": 4}, "positions=0.10000000149011612&dim=4"),
        ("encodings/rope", {"dim": np.int64(4), "base": None, "length": 2}, "dim=4&length=2"),
        ("encodings/rope", {"truncate": True, "dim": 4}, "truncate=true&dim=4"),
        ("encodings/rope", {"truncate": np.False_, "dim": 4}, "truncate=false&dim=4"),
        (
            "encodings/rope",
            {"rope_scaling": {"rope_type": "linear"}},
            "rope_scaling=%7B%22rope_type%22%3A+%22linear%22%7D",
        ),
        ("biases/swin-index", {"window": (2, 3)}, "window=2,3"),
    ],
)
def test_what_an_address_can_say_goes_in_it(key: str, given: dict[str, Any], query: str) -> None:
    call = call_of(key, given)
    assert (call.path, call.query, call.content) == (f"/v1/{key}.safetensors", query, None)


def test_what_it_cannot_goes_in_the_body() -> None:
    many = call_of("encodings/rope", {"positions": np.arange(513), "dim": 4})
    assert (many.query, many.media_type) == ("dim=4", "application/octet-stream")
    wide = call_of("encodings/rope", {"positions": [1.2345678901234567] * 200, "dim": 4})
    assert wide.query == "dim=4"
    grid = call_of("encodings/rope", {"positions": [[0, 1], [2, 3]], "dim": 4})
    assert np.array_equal(load(grid.content or b"")["positions"], [[0, 1], [2, 3]])
    flat = call_of("apply/rope", {"q": np.ones((2, 4), np.float32), "positions": [3, 4]})
    assert np.array_equal(load(flat.content or b"")["positions"], [3, 4])
    stamps = call_of("encodings/calendar", {"timestamps": ["2024-01-01T00:00:00Z"] * 600})
    assert (stamps.media_type, len(json.loads(stamps.content or b"")["timestamps"])) == ("application/json", 600)


def test_lists_and_arrays_in_one_json_body() -> None:
    given: dict[str, Any] = {"segments": [{"text": 3}], "positions": np.arange(2), "x": np.ones(2)}
    arrays = {name: as_array(given[name]) for name in ("positions", "x")}
    content, media_type = body_of(arrays, {"segments": given["segments"]})
    assert media_type == "application/json"
    assert json.loads(content or b"") == {"segments": [{"text": 3}], "positions": [0, 1], "tensors": {"x": [1.0, 1.0]}}


def test_safetensors_are_those_of_the_library() -> None:
    arrays: dict[str, Any] = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "b": np.array([True, False]),
        "c": np.empty((0, 4), np.float16),
        "d": np.float64(2.5).reshape(()),
    }
    body = write_safetensors(arrays)
    for found in (load(body), read_safetensors(body)[0]):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert found[name].shape == array.shape
            assert np.array_equal(found[name], array)


def test_an_answer_shows_what_it_holds(posenc: Posenc) -> None:
    answer = posenc.rope(length=2, dim=4, dtype="bfloat16")
    assert repr(answer) == "<encodings/rope cos: bfloat16[2, 4], sin: bfloat16[2, 4]>"
    assert len(answer) == 2
    with pytest.raises(ValueError, match="too many values"):
        _ = answer.array
    with pytest.raises(ValueError, match="read-only"):
        answer["cos"][0] = 1


# The cache


@pytest.mark.parametrize("folder", [None, "kept"])
def test_an_answer_that_did_not_change_is_not_sent_again(folder: str | None, url: str, tmp_path: Path) -> None:
    recorder = Recorder()
    with Posenc(url, cache=folder and tmp_path / folder, transport=recorder) as client:
        first, second = client.rope(length=5, dim=4), client.rope(length=5, dim=4)
    assert recorder.statuses == [200, 304]
    assert recorder.requests[1].headers["if-none-match"].startswith('"')
    assert np.array_equal(first["sin"], second["sin"])
    assert first["sin"][1, 0] == np.float32(np.sin(1.0))


def test_a_pinned_answer_is_not_asked_for_again(url: str) -> None:
    recorder = Recorder()
    with Posenc(url, transport=recorder) as client:
        first, second = (client.rope(length=5, dim=4, revision=1) for _ in range(2))
    assert recorder.statuses == [200]
    assert np.array_equal(first["cos"], second["cos"])


def test_a_post_is_not_kept(url: str) -> None:
    recorder = Recorder()
    with Posenc(url, transport=recorder) as client:
        for _ in range(2):
            client.apply.sinusoidal(x=np.ones((2, 4), np.float32))
    assert recorder.statuses == [200, 200]


def test_a_folder_serves_another_client_and_a_broken_file_does_not(url: str, tmp_path: Path) -> None:
    with Posenc(url, cache=tmp_path) as client:
        expected = client.rope(length=5, dim=4)["cos"]
    recorder = Recorder()
    with Posenc(url, cache=tmp_path, transport=recorder) as client:
        assert np.array_equal(client.rope(length=5, dim=4)["cos"], expected)
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-1])
        assert np.array_equal(client.rope(length=5, dim=4)["cos"], expected)
        file.write_bytes(b"junk")
        assert np.array_equal(client.rope(length=5, dim=4)["cos"], expected)
    assert recorder.statuses == [304, 200, 200]


def test_the_memory_cache_is_bounded() -> None:
    cache = Cache(limit_bytes=10)
    for name in "abc":
        cache.put(name, f'"{name}"', b"1234")
        cache.get("a")
    assert cache.get("a") == ('"a"', b"1234")
    assert cache.get("b") is None
    cache.put("c", '"d"', b"12")
    assert cache.get("c") == ('"d"', b"12")
    cache.put("d", '"d"', b"1234")
    assert all(cache.get(name) for name in "acd")


def test_a_folder_without_room_costs_no_answer(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "kept")
    (tmp_path / "kept").rmdir()
    cache.put("a", '"a"', b"1234")
    assert cache.get("a") is None
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        Cache(tmp_path / "file")


# Refusals and a server that is busy


def test_a_refusal_carries_the_problem_document(posenc: Posenc) -> None:
    with pytest.raises(ProblemError) as error:
        posenc.encodings.rope(lenght=4, dim=8)  # type: ignore[call-arg]
    assert error.value.status == 422
    assert error.value.problem["type"] == "/problems/invalid-parameters"
    assert error.value.problem["errors"][0]["did_you_mean"] == "length"
    assert str(error.value).startswith("422 lenght is not a parameter of encodings/rope")


def test_a_refusal_of_something_in_between() -> None:
    page = httpx.Response(502, headers={"Content-Type": "text/html"}, text="<h1>Bad Gateway</h1>")
    with Posenc(transport=Recorder(page)) as client, pytest.raises(ProblemError) as error:
        client.rope(length=4, dim=8)
    assert error.value.problem == {
        "type": "about:blank",
        "title": "Bad Gateway",
        "status": 502,
        "detail": "Bad Gateway",
        "instance": "",
        "errors": [],
    }


def test_an_answer_without_a_tag_is_not_kept(url: str) -> None:
    body = write_safetensors({"cos": np.ones(2, np.float32)})
    recorder = Recorder(httpx.Response(200, content=body), httpx.Response(200, content=body))
    with Posenc(url, transport=recorder) as client:
        assert client.rope(dim=2).array.tolist() == [1.0, 1.0]
        client.rope(dim=2)
    assert "if-none-match" not in recorder.requests[1].headers


def busy(after: str | None) -> httpx.Response:
    return httpx.Response(503, headers={} if after is None else {"Retry-After": after})


def test_a_busy_server_is_asked_again_when_it_says(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    recorder = Recorder(busy("2"), busy(None), busy("86400"))
    with Posenc(url, transport=recorder) as client:
        assert client.rope(length=2, dim=4)["cos"].shape == (2, 4)
    assert slept == [2.0, 1.0, 60.0]
    assert recorder.statuses == [503, 503, 503, 200]


def test_a_server_that_stays_busy_is_a_refusal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    recorder = Recorder(busy("1"), busy("1"))
    with Posenc(url, retries=1, transport=recorder) as client, pytest.raises(ProblemError, match=r"^503 "):
        client.rope(length=2, dim=4)
    assert slept == [1.0]


def test_a_bundle(posenc: Posenc) -> None:
    entries = {"rope": posenc.address("rope", length=3, dim=4), "slopes": posenc.address("alibi-slopes", heads=2)}
    answer = posenc.bundle(entries)
    assert set(answer) == {"rope.cos", "rope.sin", "slopes"}
    assert answer.entries["rope"]["parameters"]["base"] == 10000.0
    assert np.array_equal(answer["rope.sin"], posenc.rope(length=3, dim=4)["sin"])
    assert repr(answer).startswith("<bundle rope.cos: float32[3, 4], ")


# Asynchronous


def test_the_asynchronous_client(url: str) -> None:
    transport = AsyncRecorder(busy("0"))

    async def ask() -> tuple[Answer, Answer, Answer]:
        async with AsyncPosenc(url, transport=transport) as client:
            rope = await client.rope(length=3, dim=4)
            turned = await client.apply.rope(q=np.ones((3, 4), np.float32))
            bundled = await client.bundle({"slopes": client.address("alibi-slopes", heads=2)})
            return rope, turned, bundled

    rope, turned, bundled = asyncio.run(ask())
    assert transport.statuses == [503, 200, 200, 200]
    assert rope["cos"].shape == (3, 4)
    assert np.allclose(
        turned["q"], rope["cos"] + np.concatenate([-rope["sin"][:, :2], rope["sin"][:, 2:]], 1), atol=1e-6
    )
    assert bundled["slopes"].tolist() == [0.0625, 0.00390625]


# PyTorch, where it is not there


class FakeTensor:
    def __init__(self, array: Any, dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def view(self, dtype: str) -> "FakeTensor":
        return FakeTensor(self.array.view(np.int16), dtype)

    detach = cpu = contiguous = lambda self: self

    def numpy(self) -> Any:
        return self.array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Enough of PyTorch to see what is asked of it; the real one is in `tests/oracles/test_consumers.py`."""
    module = SimpleNamespace(
        int16="int16", bfloat16="torch.bfloat16", from_numpy=lambda array: FakeTensor(array, str(array.dtype))
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.usefixtures("torch")
def test_tensors_for_pytorch(posenc: Posenc) -> None:
    answer = posenc.rope(length=2, dim=4, dtype="bfloat16")
    tensor = answer.to_torch()["cos"]
    assert tensor.dtype == "torch.bfloat16"
    assert np.array_equal(tensor.array, answer["cos"].view(np.int16))
    assert tensor.array.flags.writeable
    plain = posenc.rope(length=2, dim=4).to_torch()["sin"]
    assert (plain.dtype, plain.array.tolist()) == ("float32", posenc.rope(length=2, dim=4)["sin"].tolist())


@pytest.mark.usefixtures("torch")
def test_tensors_of_pytorch(posenc: Posenc) -> None:
    x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    expected = posenc.apply.sinusoidal(x=x)["x"]
    assert np.array_equal(posenc.apply.sinusoidal(x=FakeTensor(x, "torch.float32"))["x"], expected)
    brain = x.astype(ml_dtypes.bfloat16)
    expected = posenc.apply.sinusoidal(x=brain)["x"]
    assert np.array_equal(posenc.apply.sinusoidal(x=FakeTensor(brain, "torch.bfloat16"))["x"], expected)


# Addresses


def test_an_address_is_what_a_browser_asks_for(posenc: Posenc, url: str) -> None:
    address = posenc.address("encodings/rope", length=2, dim=4, base=5e5)
    assert address == "/v1/encodings/rope?length=2&dim=4&base=500000.0"
    assert httpx.get(url + address).json()["parameters"]["base"] == 500000.0
    with pytest.raises(TypeError, match="arrays travel in a body"):
        posenc.address("apply/rope", q=np.ones((2, 4)))


# A server that wants keys


def test_a_key_goes_in_the_header_and_nowhere_else() -> None:
    key, entry = new_key("ci")
    settings = Settings(port=0, drain_seconds=0, api_keys=entry)
    with live(create_app(settings), settings) as server:
        url = f"http://127.0.0.1:{server.port}"
        recorder = Recorder()
        with Posenc(url, api_key=key, transport=recorder) as keyed:
            assert keyed.alibi_slopes(heads=3).array.shape == (3,)
            assert keyed.apply.rope(q=np.ones((1, 2, 4), np.float32))["q"].shape == (1, 2, 4)
        assert [request.headers["authorization"] for request in recorder.requests] == [f"Bearer {key}"] * 2
        assert not any(key in str(request.url) for request in recorder.requests)
        with Posenc(url) as without, pytest.raises(ProblemError) as refused:
            without.alibi_slopes(heads=3)
        assert refused.value.status == 401

        async def awaited() -> int:
            async with AsyncPosenc(url, api_key=key) as opened:
                return len((await opened.alibi_slopes(heads=3)).array)

        assert asyncio.run(awaited()) == 3


def test_a_quota_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("service.client.time.sleep", pauses.append)
    recorder = Recorder(httpx.Response(429, headers={"Retry-After": "7"}))
    with Posenc(url, transport=recorder) as opened:
        assert opened.alibi_slopes(heads=3).array.shape == (3,)
    assert pauses == [7.0]
    assert recorder.statuses == [429, 200]
