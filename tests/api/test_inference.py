"""The Open Inference Protocol at /v2, with raw requests as its text has them; Triton's client is in tests/consumers."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest

from service.api.inference import MODELS
from service.engine import SCHEMES
from service.formats.format import type_of
from tests.clients import Client, in_process, settings

LENGTH = "Inference-Header-Content-Length"
DTYPES = {
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "BOOL": np.dtype("?"),
}
ROPE = {"length": 3, "dim": 4}


def infer(
    client: Client,
    model: str,
    request: Mapping[str, Any] | bytes,
    rest: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Any:
    """A request as the binary extension frames it where bytes follow the JSON, else plain JSON."""
    head = request if isinstance(request, bytes) else json.dumps(request).encode()
    framed = {LENGTH: str(len(head))} if rest else {}
    return client.post(f"/v2/models/{model}/infer", content=head + rest, headers=framed | dict(headers or {}))


def outputs(answer: httpx.Response) -> dict[str, Any]:
    """The output tensors of a response, read by code of this test alone."""
    assert answer.status_code == 200, answer.text
    length = int(answer.headers.get(LENGTH, len(answer.content)))
    rest = answer.content[length:]
    found = {}
    for entry in json.loads(answer.content[:length])["outputs"]:
        dtype = DTYPES[entry["datatype"]]
        if "data" in entry:
            array = np.array(entry["data"]).astype(dtype)
        else:
            size = entry["parameters"]["binary_data_size"]
            array, rest = np.frombuffer(rest[:size], dtype), rest[size:]
        found[entry["name"]] = array.reshape(entry["shape"])
    assert rest == b""
    return found


def error(answer: httpx.Response, status: int = 400) -> str:
    """The protocol's error object, whose status is as due."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    told = answer.json()
    assert told.keys() == {"error"}
    return str(told["error"])


def bits(number: Any) -> Any:
    return np.asarray(number).tobytes()


# Health and metadata


def test_health(client: Client) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"live": True, "ready": True}
    assert client.get("/v2/models/masks.causal/ready").json() == {"name": "masks.causal", "ready": True}
    assert client.get("/v2/models/masks.causal/versions/1/ready").json()["ready"] is True


def test_a_draining_server_is_not_ready() -> None:
    with in_process(settings()) as client:
        client.app.state.draining = True
        answer = client.get("/v2/health/ready")
        assert error(answer, 503) == "the server is draining: it takes no new work"
        assert answer.headers["retry-after"] == "1"
        assert client.get("/v2/health/live").status_code == 200


def test_the_server_and_its_models(direct: Client) -> None:
    told = direct.get("/v2").json()
    assert (told["name"], told["extensions"]) == ("posenc", ["binary_tensor_data", "parameters", "model_repository"])
    names = [f"{scheme.family}.{scheme.name}" for scheme in SCHEMES]
    assert direct.get("/v2/models").json() == {"models": names}
    index = direct.post("/v2/repository/index").json()
    assert [entry["name"] for entry in index] == names
    assert index[0] == {"name": names[0], "version": "1", "state": "READY", "reason": ""}


@pytest.mark.parametrize("name", MODELS)
def test_metadata_tell_inputs_and_outputs(name: str, direct: Client) -> None:
    told = direct.get(f"/v2/models/{name}").json()
    assert told == direct.get(f"/v2/models/{name}/versions/1").json()
    assert (told["name"], told["versions"], told["platform"]) == (name, ["1"], "posenc")
    scheme = MODELS[name]
    assert [each["name"] for each in told["inputs"]] == [*scheme.structured, *(array.name for array in scheme.inputs)]
    assert told["outputs"]
    for each in [*told["inputs"], *told["outputs"]]:
        assert each["datatype"] in {*DTYPES, "BYTES"}
        assert set(each["shape"]) <= {-1, 1}


def test_metadata_in_full(direct: Client) -> None:
    told = direct.get("/v2/models/learned.lookup").json()
    assert told["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "positions", "datatype": "INT64", "shape": [-1]},
        {"name": "attention_mask", "datatype": "BOOL", "shape": [-1]},
    ]
    segments = direct.get("/v2/models/positions.multimodal").json()["inputs"]
    assert segments == [{"name": "segments", "datatype": "BYTES", "shape": [1]}]


# Inference


def test_a_table_in_json(client: Client) -> None:
    answer = infer(client, "encodings.rope", {"id": "42", "parameters": ROPE, "inputs": []})
    assert answer.headers["content-type"] == "application/json"
    assert (answer.headers["cache-control"], LENGTH.lower() in answer.headers) == ("no-store", False)
    told = answer.json()
    assert (told["id"], told["model_name"], told["model_version"]) == ("42", "encodings.rope", "1")
    assert (told["parameters"]["base"], told["parameters"]["attention_factor"]) == (10000.0, 1.0)
    assert told["outputs"][1]["data"] == [0.0, 0.0, 0.0, 0.0, 0.84147096, 0.009999833] * 1 + [
        0.84147096,
        0.009999833,
        0.9092974,
        0.019998666,
        0.9092974,
        0.019998666,
    ]
    assert outputs(answer)["cos"].shape == (3, 4)


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_a_table_in_bytes(datatype: str, client: Client) -> None:
    dtype = next(name for name, kind in type_of.items() if kind == DTYPES[datatype])
    request = {"parameters": {**ROPE, "dtype": dtype, "binary_data_output": True}, "inputs": []}
    answer = infer(client, "encodings.rope", request)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(answer.content))
    found = outputs(answer)
    plain = client.get(f"/v1/encodings/rope.bin?length=3&dim=4&dtype={dtype}&tensor=sin").content
    assert bits(found["sin"]) == plain
    assert list(found) == ["cos", "sin"]


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
@pytest.mark.parametrize("way", ["json", "binary"])
def test_vectors_there_and_back(datatype: str, way: str, client: Client) -> None:
    q = (np.arange(24) / 8 - 1.5).reshape(2, 3, 4).astype(DTYPES[datatype])
    entry: dict[str, Any] = {"name": "q", "shape": [2, 3, 4], "datatype": datatype}
    entry |= {"parameters": {"binary_data_size": q.nbytes}} if way == "binary" else {"data": q.astype(float).tolist()}
    request = {
        "parameters": {"offset": 7},
        "inputs": [entry],
        "outputs": [{"name": "q", "parameters": {"binary_data": way == "binary"}}],
    }
    found = outputs(infer(client, "apply.rope", request, q.tobytes() if way == "binary" else b""))
    assert found["q"].dtype == DTYPES[datatype]
    angle = 7.0
    first = q[0, 0].astype(float)
    turned = first[0] * np.cos(angle) - first[2] * np.sin(angle)
    assert (
        abs(float(found["q"][0, 0, 0]) - turned) < {"FP16": 2e-3, "BF16": 2e-2, "FP32": 1e-6, "FP64": 1e-14}[datatype]
    )
    assert found["q"].shape == (2, 3, 4)


def test_outputs_each_in_its_way(direct: Client) -> None:
    wanted = [{"name": "sin", "parameters": {"binary_data": True}}, {"name": "cos"}]
    answer = infer(direct, "encodings.rope", {"parameters": ROPE, "inputs": [], "outputs": wanted})
    entries = json.loads(answer.content[: int(answer.headers[LENGTH])])["outputs"]
    assert [(entry["name"], "data" in entry) for entry in entries] == [("sin", False), ("cos", True)]
    found = outputs(answer)
    assert np.array_equal(found["sin"], np.sin(np.outer(np.arange(3), [1, 0.01, 1, 0.01])).astype(np.float32))
    one = infer(direct, "encodings.rope", {"parameters": ROPE, "outputs": [{"name": "sin"}]})
    assert np.array_equal(outputs(one)["sin"], found["sin"])


def test_parameters_as_input_tensors(direct: Client) -> None:
    text = struct.pack("<I", 7) + b"sin-cos"
    request = {
        "parameters": {"priority": 1, "timeout": 5},
        "inputs": [
            {"name": "positions", "shape": [3], "datatype": "FP64", "data": [0, 0.5, -3]},
            {"name": "dim", "shape": [1], "datatype": "INT64", "data": [4]},
            {"name": "layout", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(text)}},
        ],
    }
    found = outputs(infer(direct, "encodings.sinusoidal", request, text))["encoding"]
    expected = direct.get("/v1/encodings/sinusoidal.bin?positions=0,0.5,-3&dim=4&layout=sin-cos").content
    assert bits(found) == expected


def test_lists_and_truth_values_as_parameters(direct: Client) -> None:
    window = {"name": "window", "shape": [2], "datatype": "INT32", "data": [2, 3]}
    found = outputs(infer(direct, "biases.swin-index", {"inputs": [window]}))["index"]
    assert bits(found) == direct.get("/v1/biases/swin-index.bin?window=2,3").content
    scaled = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "truncate": False}
    found = outputs(infer(direct, "encodings.rope", {"parameters": {**ROPE, **scaled, "dim": 64}}))["cos"]
    query = "length=3&dim=64&rope_type=yarn&factor=4.0&original_max_position_embeddings=64&truncate=false&tensor=cos"
    assert bits(found) == direct.get(f"/v1/encodings/rope.bin?{query}").content
    pasted = {"parameters": {**ROPE, "rope_scaling": '{"rope_type": "linear", "factor": 2.0}'}}
    assert outputs(infer(direct, "encodings.rope", pasted))["sin"][2, 0] == np.float32(np.sin(1.0))


def test_structures_and_long_lists(direct: Client) -> None:
    example = MODELS["positions.multimodal"].examples[2]
    segments = (example.body or {})["segments"]
    expected = direct.post("/v1/positions/multimodal", params=dict(example.query), json=example.body).json()
    in_parameters = {"parameters": {"segments": json.dumps(segments), **example.query}}
    in_tensors = {"inputs": [_bytes("segments", segments)], "parameters": example.query}
    for given in (in_parameters, in_tensors):
        found = outputs(infer(direct, "positions.multimodal", given))
        for name, array in found.items():
            assert array.tolist() == expected["tensors"][name]["data"]
    stamps = ["2024-02-29T23:00:00Z"] * 600
    request = {
        "parameters": {"features": "hour-of-day"},
        "inputs": [{"name": "timestamps", "shape": [2, 300], "datatype": "BYTES", "data": [stamps[:300]] * 2}],
    }
    assert set(outputs(infer(direct, "encodings.calendar", request))["features"].ravel()) == {np.float32(0.5)}


def _bytes(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "shape": [1], "datatype": "BYTES", "data": [json.dumps(value)]}


def test_masks_are_truth_values(direct: Client) -> None:
    mask = {
        "name": "attention_mask",
        "shape": [2, 3],
        "datatype": "BOOL",
        "data": [True, True, False, True, True, True],
    }
    found = outputs(infer(direct, "positions.from-mask", {"inputs": [mask]}))["positions"]
    plain = direct.post(
        "/v1/positions/from-mask", json={"tensors": {"attention_mask": [[True, True, False], [True, True, True]]}}
    )
    assert found.tolist() == plain.json()["tensors"]["positions"]["data"]
    request = {"parameters": {"length": 3, "binary_data_output": True}}
    causal = outputs(infer(direct, "masks.causal", request))["mask"]
    assert causal.dtype == np.bool_
    assert causal.tolist() == np.tril(np.ones((3, 3), bool)).tolist()


def test_an_answer_that_streams() -> None:
    with in_process(settings(memory_bytes=40 << 20, table_cache_bytes=0)) as client:
        request = {"parameters": {"length": 65536, "dim": 256, "binary_data_output": True}}
        found = outputs(infer(client, "encodings.rope", request))
        assert found["sin"].shape == (65536, 256)
        assert found["sin"][65535, 0] == np.float32(np.sin(65535.0))
        assert client.resources.budget.in_use == 0


def test_no_bytes_at_all(direct: Client) -> None:
    """An input without values, in both ways: the scheme says what it makes of it."""
    for entry, rest in (({"data": []}, b""), ({"parameters": {"binary_data_size": 0}}, b"")):
        request = {"inputs": [{"name": "q", "shape": [0, 4], "datatype": "FP32", **entry}]}
        head = json.dumps(request).encode()
        told = error(infer(direct, "apply.rope", request, rest, headers={LENGTH: str(len(head))}))
        assert told.startswith("q has the shape (0, 4); ")


# Refusals: wrong names, datatypes, sizes

Q = {"name": "q", "shape": [2, 4], "datatype": "FP32"}


def binary(size: int, **changes: Any) -> dict[str, Any]:
    return {"inputs": [{**Q, **changes, "parameters": {"binary_data_size": size}}]}


@pytest.mark.parametrize(
    ("request_", "rest", "says"),
    [
        ({"inputs": [{**Q, "name": "query", "data": [0] * 8}]}, b"", "query is no input of apply.rope; "),
        ({"inputs": [{**Q, "datatype": "FP8", "data": [0] * 8}]}, b"", "/inputs/0/datatype: q is of FP8; known are"),
        ({"inputs": [{**Q, "datatype": None, "data": [0] * 8}]}, b"", "/inputs/0/datatype: q is of None"),
        ({"inputs": [{**Q, "datatype": "BYTES", "data": ["a"] * 8}]}, b"", "the input q holds numbers, not BYTES"),
        ({"inputs": [{**Q, "datatype": "BYTES", "data": [1] * 8}]}, b"", "/inputs/0/data: BYTES are strings in JSON"),
        ({"inputs": [{**Q, "datatype": "INT8", "data": [0] * 7 + [128]}]}, b"", "/inputs/0/data: a value is no INT8"),
        ({"inputs": [{**Q, "datatype": "UINT8", "data": [0] * 7 + [-1]}]}, b"", "/inputs/0/data: a value is no UINT8"),
        ({"inputs": [{**Q, "datatype": "INT32", "data": [0.5] * 8}]}, b"", "/inputs/0/data: a value is no INT32"),
        ({"inputs": [{**Q, "datatype": "BOOL", "data": [1] * 8}]}, b"", "/inputs/0/data: BOOL are true and false"),
        ({"inputs": [{**Q, "data": [0] * 7}]}, b"", "/inputs/0/data: data of [7] values came; the shape is [2, 4]"),
        (
            {"inputs": [{**Q, "data": [[0] * 2] * 4}]},
            b"",
            "/inputs/0/data: data of [4, 2] values came; the shape is [2",
        ),
        ({"inputs": [{**Q, "data": [[0, 1], [2]]}]}, b"", "/inputs/0/data/1: this list has 1 items"),
        ({"inputs": [{**Q, "data": ["1"] * 8}]}, b"", "/inputs/0/data/0: this is a string; numbers are read"),
        ({"inputs": [{**Q, "data": 3}]}, b"", "/inputs/0/data: a list is needed"),
        ({"inputs": [Q]}, b"", "/inputs/0: q needs either data or the parameter binary_data_size"),
        ({"inputs": [{**Q, "shape": [-2, 4], "data": []}]}, b"", "/inputs/0/shape: the input q: the shape"),
        ({"inputs": [{**Q, "shape": "2", "data": []}]}, b"", "/inputs/0/shape: the input q: 2 is no shape"),
        ({"inputs": [{**Q, "shape": [1 << 60, 4], "data": []}]}, b"", "/inputs/0/shape: the input q: the shape"),
        ({"inputs": [{**Q, "data": [0] * 8, "stride": 1}]}, b"", "/inputs/0: stride is not known here; known are name"),
        (
            {"inputs": [{**Q, "data": [0] * 8, "parameters": {"shared_memory_region": "x"}}]},
            b"",
            "/inputs/0/parameters: ",
        ),
        ({"inputs": [{**Q, "data": [0] * 8}] * 2}, b"", "/inputs/1: the input q comes twice"),
        ({"inputs": [{**Q, "data": [0] * 8}] * 65}, b"", "/inputs: 65 tensors came; at most 64 are read"),
        ({"inputs": [{"shape": [1]}]}, b"", "/inputs/0/name: a name is needed, as a string"),
        ({"inputs": [7]}, b"", "/inputs/0: a JSON object is needed"),
        ({"inputs": {}}, b"", "/inputs: a list is needed"),
        ({"inputs": []}, b"", "the input q is missing"),
        ([], b"", "a JSON object is needed"),
        ({"inputs": [], "model": 1}, b"", "model is not known here; known are id, model_name"),
        ({"inputs": [], "id": 7}, b"", "/id: the id must be a string"),
        ({"inputs": [], "parameters": {"offset": [1]}}, b"", "/parameters/offset: a string, a number or a truth value"),
        ({"inputs": [], "parameters": {"binary_data_output": 1}}, b"", "/parameters/binary_data_output: 1 is no truth"),
        (binary(31), bytes(31), "/inputs/0: [2, 4] FP32 take 32 bytes; binary_data_size is 31"),
        (binary(32), bytes(31), "/inputs/0: q takes 32 bytes of binary data, and 31 are left in the body"),
        (binary(32), bytes(33), "1 bytes follow the last binary input: the sizes disagree with the body"),
        (binary(-1), bytes(32), "/inputs/0/parameters/binary_data_size: -1 is no number of bytes"),
        (binary(True), bytes(32), "/inputs/0/parameters/binary_data_size: True is no number of bytes"),
        (binary(8, datatype="BOOL"), b"\2" * 8, "/inputs/0: a boolean is neither 0 nor 1"),
        (binary(6, datatype="BYTES"), b"\4\0\0\0ab", "/inputs/0: the BYTES end within element 0"),
        (binary(5, datatype="BYTES"), b"\1\0\0\0\xff", "/inputs/0: the BYTES are not UTF-8"),
        (binary(5, datatype="BYTES"), b"\1\0\0\0a", "/inputs/0: 1 BYTES came; the shape [2, 4] has 8"),
    ],
)
def test_a_request_that_is_wrong(request_: Any, rest: bytes, says: str, direct: Client) -> None:
    assert error(infer(direct, "apply.rope", request_, rest)).startswith(says)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"parameters": {"lenght": 3, "dim": 4}}, "lenght is not a parameter of encodings/rope; did you mean length?"),
        ({"parameters": {"length": 3, "dim": 5}}, "dim makes the rotated width 5"),
        (
            {"parameters": ROPE, "outputs": [{"name": "tan"}]},
            "/outputs/0/name: there is no output 'tan'; known are cos, sin",
        ),
        ({"parameters": ROPE, "outputs": [{"name": "cos"}] * 2}, "/outputs/1: the output cos is asked for twice"),
        (
            {"parameters": ROPE, "outputs": [{"name": "cos", "parameters": {"classification": 2}}]},
            "/outputs/0/parameters: ",
        ),
        (
            {"parameters": ROPE, "outputs": [{"name": "cos", "parameters": {"binary_data": 2}}]},
            "/outputs/0/parameters/bin",
        ),
        ({"parameters": {**ROPE, "sequence_id": 4}}, "sequence_id is not a parameter of encodings/rope"),
        (
            {"parameters": ROPE, "inputs": [{"name": "dim", "shape": [1], "datatype": "INT64", "data": [4]}]},
            "dim is a parameter and an input; give it once",
        ),
        ({"parameters": {"length": 1 << 40, "dim": 4}}, "the values of the answer would take"),
    ],
)
def test_parameters_and_outputs_that_are_wrong(request_: Any, says: str, direct: Client) -> None:
    assert error(infer(direct, "encodings.rope", request_)).startswith(says)


def test_a_structure_that_is_none(direct: Client) -> None:
    for given in (7, True):
        assert error(infer(direct, "positions.multimodal", {"parameters": {"segments": given}})) == (
            "segments is JSON in one string"
        )
    assert error(infer(direct, "positions.multimodal", {"parameters": {"segments": "["}})).startswith("not JSON: ")
    assert error(infer(direct, "positions.multimodal", {})) == "the input segments is missing"
    assert error(infer(direct, "positions.from-mask", {})) == "the input attention_mask is missing"


def test_infinities_need_binary_data(direct: Client) -> None:
    request: dict[str, Any] = {"parameters": {"length": 3, "dtype": "float32", "fill": "-inf"}}
    told = error(infer(direct, "masks.causal", request))
    assert told == "mask is not finite everywhere, as JSON must be: ask for binary_data"
    request["parameters"]["binary_data_output"] = True
    assert outputs(infer(direct, "masks.causal", request))["mask"][0, 2] == -np.inf


@pytest.mark.parametrize(
    ("length", "says"),
    [
        ("9999", "Inference-Header-Content-Length is 9999, and the body has "),
        ("-1", "Inference-Header-Content-Length is -1; a number of bytes is needed"),
        ("1e3", "Inference-Header-Content-Length is 1e3; a number"),
        ("9" * 30, "Inference-Header-Content-Length is 999999999999999999999999999999; a number"),
        ("5", "not JSON: "),
        ("0", "JSON was due, and the body is empty"),
    ],
)
def test_a_length_of_the_header_that_is_wrong(length: str, says: str, direct: Client) -> None:
    answer = infer(direct, "encodings.rope", {"parameters": ROPE}, headers={LENGTH: length})
    assert error(answer).startswith(says)


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/v2/models/encodings.rop", 404, "there is no model encodings.rop; nearest are encodings.rope"),
        ("GET", "/v2/models/encodings.rope/versions/2", 404, "encodings.rope has no version 2; this build computes 1"),
        ("POST", "/v2/models/rope/infer", 404, "there is no model rope"),
        ("GET", "/v2/nothing", 404, "there is nothing at /v2/nothing"),
        ("GET", "/v2/models/encodings.rope/infer", 405, "GET is not possible here"),
        ("GET", "/v2?" + "x" * 9000, 414, "the address has 9004 bytes"),
    ],
)
def test_addresses_that_are_wrong(method: str, path: str, status: int, says: str, direct: Client) -> None:
    assert error(direct.request(method, path), status).startswith(says)


def test_media_types_and_codings(direct: Client) -> None:
    body = json.dumps({"parameters": ROPE}).encode()
    told = error(infer(direct, "encodings.rope", body, headers={"Content-Type": "text/csv"}), 415)
    assert told == "Content-Type is text/csv; application/json or application/octet-stream would do"
    told = error(infer(direct, "encodings.rope", body, headers={"Content-Encoding": "gzip"}), 415)
    assert told == "Content-Encoding is gzip; send the body as it is"
    for kind in ("application/json", "application/octet-stream"):
        assert infer(direct, "encodings.rope", body, headers={"Content-Type": kind}).status_code == 200


def test_limits() -> None:
    with in_process(settings(json_bytes=4000, body_bytes=500)) as client:
        many = {"parameters": {"length": 100, "dim": 4}}
        assert error(infer(client, "encodings.rope", many)).startswith("the answer as text would take 13600 bytes")
        many["parameters"]["binary_data_output"] = True
        assert len(outputs(infer(client, "encodings.rope", many))["cos"]) == 100
        assert error(infer(client, "encodings.rope", b" " * 501), 413).startswith("the body has at least 501 bytes")
        client.resources.budget.in_use = client.resources.budget.limit_bytes
        answer = infer(client, "encodings.rope", many)
        assert error(answer, 503) == "the memory for answers is in use at the moment"
        assert answer.headers["retry-after"] == "1"


def test_behind_a_prefix_too() -> None:
    with in_process(settings()) as client:

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(client.app, root_path="/posenc")
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
                return await http.get("/posenc/v2/models/x")

        assert error(client.run(ask()), 404).startswith("there is no model x")
