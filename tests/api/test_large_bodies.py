"""Large JSON bodies: tensors of any size are read, and nothing else that would hold up everybody (S16)."""

import io
import json
from typing import Any

import numpy as np
import pytest

from tests.api.problems import fault, refused
from tests.api.test_bodies import JSON
from tests.clients import Client, in_process, settings

ADD = "/v1/apply/sinusoidal.npy"
AT = "/v1/encodings/sinusoidal.npy?dim=2"
INFER = "/v2/models/apply.sinusoidal/infer"
ROWS = 30_000
LONG = [[float(row), 0.5] for row in range(ROWS)]


def posted(client: Client, body: str, target: str = ADD) -> Any:
    return client.post(target, content=body.encode(), headers=JSON)


@pytest.mark.parametrize("text", ["[[[[[1]]]]]," * 690_000 + "1", "[]," * 2_700_000 + "1", '{"a":1},' * 900_000 + "1"])
def test_what_would_hold_up_everybody_is_refused(client: Client, text: str) -> None:
    reply = posted(client, '{"tensors":{"x":[' + text + "]}}")
    assert "Tensors of any size are" in refused(reply, "bad-request")["detail"]


def test_a_large_tensor_is_read_as_a_small_one_is(client: Client) -> None:
    large = np.load(io.BytesIO(posted(client, json.dumps({"tensors": {"x": LONG}})).content))
    small = np.load(io.BytesIO(posted(client, json.dumps({"tensors": {"x": LONG[:10]}})).content))
    assert large.shape == (ROWS, 2)
    assert large[:10].tobytes() == small.tobytes()


def test_inference_reads_it_too(client: Client) -> None:
    entry = {"name": "x", "shape": [ROWS, 2], "datatype": "FP32", "data": LONG}
    reply = client.post(INFER, json={"inputs": [entry]}).json()
    large = np.load(io.BytesIO(posted(client, json.dumps({"tensors": {"x": LONG}})).content))
    assert reply["outputs"][0]["data"] == pytest.approx(large.ravel().tolist(), rel=1e-6)
    reply = client.post(INFER, json={"inputs": [{**entry, "datatype": "BYTES"}]})
    assert reply.json()["error"].endswith("BYTES are strings in JSON")


MISPLACED: list[tuple[str, Any, str]] = [
    ("/v1/apply/rope", {"x": LONG}, "/x"),
    ("/v1/apply/rope", {"tensors": {"x": LONG}}, "/tensors/x"),
    ("/v1/apply/rope", {"tensors": {"q": {"q": LONG}}}, "/tensors/q"),
    (
        "/v1/apply/rope",
        {"tensors": {"q": [LONG]}, "rope_parameters": {"positions": LONG}},
        "/rope_parameters/positions",
    ),
    ("/v1/apply/rope", {"tensors": {"q": [LONG]}, "rope_parameters": {"factor": LONG}}, "/rope_parameters/factor"),
    ("/v1/apply/rope", {"tensors": {"q": [LONG]}, "rope_parameters": {"q": LONG}}, "/rope_parameters/q"),
    ("/v1/positions/multimodal", {"segments": [{"type": "text", "tokens": LONG}]}, "/segments"),
    ("/v1/encodings/calendar?features=hour-of-day", {"timestamps": LONG}, "/timestamps/0"),
    ("/v1/apply/sinusoidal", {"tensors": {"x": [[True] * 200] * 200}}, "/tensors/x/0/0"),
    ("/v1/apply/sinusoidal", {"tensors": {"x": [*LONG, [1]]}}, f"/tensors/x/{ROWS}"),
    ("/v1/apply/sinusoidal", {"tensors": {"x": [*LONG, [1, 2**53 + 1]]}}, f"/tensors/x/{ROWS}/1"),
]


@pytest.mark.parametrize(("target", "body", "pointer"), MISPLACED, ids=range(len(MISPLACED)))
def test_a_large_list_where_none_belongs_is_pointed_at(client: Client, target: str, body: Any, pointer: str) -> None:
    found = refused(posted(client, json.dumps(body), target), "invalid-parameters")["errors"][0]
    assert found["pointer"].startswith(pointer)


def test_the_objects_of_a_body_are_counted() -> None:
    """A body of lists takes many times as much as one of digits."""
    lists, digits = ('{"positions":[' + unit + "1]}" for unit in ("[]," * 150_000, "123456789," * 45_000))
    with in_process(settings(memory_bytes="24MiB")) as client:
        assert posted(client, digits, AT).status_code == 200
        found = refused(posted(client, lists, AT), "result-too-large")
        assert fault(found, "query")["requested"] > 24_000_000
        assert client.resources.budget.in_use == 0
