"""The same numbers in every format, for every scheme, and the same bytes from every process."""

import hashlib
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from service.formats import FORMATS
from tests.api.problems import fault, refused
from tests.api.requests import EXAMPLES, IN_EVERY_FORMAT, Arrays, Asked, read, with_tensor
from tests.clients import Client

ONE_TENSOR = ("bin", "csv")


@pytest.mark.parametrize("asked", IN_EVERY_FORMAT, ids=str)
def test_every_format_holds_the_numbers_of_the_engine(client: Client, asked: Asked) -> None:
    expected = asked.expected()
    if asked.extension in ("npy", "npz") and any(array.dtype == "bfloat16" for array in expected.values()):
        refused(asked.send(client), "not-acceptable")
        return
    together = asked.extension not in ONE_TENSOR and (
        asked.extension != "npy" or len({array.shape for array in expected.values()}) == 1
    )
    if together or len(expected) == 1:
        _same(asked, expected, client)
    else:
        for name, array in expected.items():
            _same(with_tensor(asked, name), {name: array}, client)


def _same(asked: Asked, expected: Arrays, client: Client) -> None:
    reply = asked.send(client, headers={"accept-encoding": "identity"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == FORMATS[asked.extension].media_type
    assert reply.headers["content-length"] == str(len(reply.content))
    found = read(asked.extension, reply, expected)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("asked", EXAMPLES, ids=str)
def test_the_json_answer_has_one_shape(direct: Client, asked: Asked) -> None:
    document = asked.send(direct).json()
    assert list(document) == ["family", "scheme", "revision", "parameters", "facts", "notes", "tensors"]
    assert (document["family"], document["scheme"]) == asked.scheme.key
    assert document["revision"] == asked.scheme.revision
    assert set(document["parameters"]) == set(asked.scheme.params.model_fields)
    for name, expected in asked.expected().items():
        tensor = document["tensors"][name]
        assert list(tensor) == ["axes", "shape", "dtype", "data"]
        assert tensor["shape"] == list(expected.shape)
        assert len(tensor["axes"]) == expected.ndim
        assert tensor["dtype"] == expected.dtype.name


def test_several_tensors_do_not_fit_a_format_of_one(client: Client) -> None:
    for extension in ONE_TENSOR:
        reply = client.get(f"/v1/encodings/rope.{extension}?length=2&dim=4")
        document = refused(reply, "not-acceptable")
        assert fault(document, "extension")["code"] == "several"
        assert "npz, safetensors, npy or json can hold it" in document["detail"]


@pytest.mark.parametrize("extension", ["npy", "npz"])
def test_numpy_files_have_no_bfloat16(client: Client, extension: str) -> None:
    reply = client.get(f"/v1/encodings/sinusoidal.{extension}?length=2&dim=4&dtype=bfloat16")
    document = refused(reply, "not-acceptable")
    assert fault(document, "extension")["code"] == "dtype"
    assert "safetensors" in document["detail"]


@pytest.mark.parametrize("extension", ["json", "safetensors", "bin", "csv"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_number_format_arrives_exactly(client: Client, extension: str, dtype: str) -> None:
    ending = "" if extension == "json" else f".{extension}"
    query = f"length=3&dim=6&offset=-1&dtype={dtype}"
    reference = read("safetensors", client.get(f"/v1/encodings/sinusoidal.safetensors?{query}"), {})
    found = read(extension, client.get(f"/v1/encodings/sinusoidal{ending}?{query}"), reference)
    assert found["encoding"].dtype.name == dtype
    assert found["encoding"].tobytes() == reference["encoding"].tobytes()
    assert abs(float(reference["encoding"][1, 0])) == 0
    assert abs(float(reference["encoding"][2, 0]) - 0.8414709848) < 0.004


def test_json_prints_float32_in_its_shortest_exact_form(client: Client) -> None:
    """S09: 0.1 as float32 is 0.1, not 0.10000000149011612; the smallest and the largest numbers survive."""
    passing_through = {"tensors": {"q": [0, 0, 0.1, 1e-45, 3.4028235e38, -0.0]}}
    reply = client.post("/v1/apply/rope?rotary_dim=2", json=passing_through)
    assert b'"data":[0.0,0.0,0.1,1e-45,3.4028235e+38,-0.0]' in reply.content


def test_a_transposed_answer_is_written_like_any_other(client: Client) -> None:
    """S05, S06: layouts that fill strided views, and vectors that come in Fortran order."""
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    buffer = io.BytesIO()
    np.save(buffer, x)
    headers = {"content-type": "application/octet-stream"}
    for extension in ("json", "npy", "safetensors", "csv"):
        ending = "" if extension == "json" else f".{extension}"
        reply = client.post(f"/v1/apply/sinusoidal{ending}", content=buffer.getvalue(), headers=headers)
        found = read(extension, reply, {"x": x})["x"]
        position, channel = np.meshgrid(np.arange(3.0), np.arange(4), indexing="ij")
        angle = position * np.where(channel < 2, 1.0, 0.01)
        expected = x + np.where(channel % 2 == 0, np.sin(angle), np.cos(angle))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


SCRIPT = """\
import hashlib, io, json, sys
from tests.api.requests import IN_EVERY_FORMAT
from tests.clients import in_process, settings
with in_process(settings()) as client:
    replies = {str(each): each.send(client) for each in IN_EVERY_FORMAT}
found = {name: hashlib.sha256(reply.content).hexdigest() for name, reply in replies.items() if reply.is_success}
json.dump(found, sys.stdout)
"""


def test_two_processes_send_the_same_bytes(direct: Client) -> None:
    """S38: no clock, no hash order, no state of the process in any file."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    there = json.loads(done.stdout)
    here = {str(asked): asked for asked in IN_EVERY_FORMAT if str(asked) in there}
    assert len(here) > 20
    for name, asked in here.items():
        assert hashlib.sha256(asked.send(direct).content).hexdigest() == there[name], name
