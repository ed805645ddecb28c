"""Bodies that hold more than arrays: a list of objects, or one of several arrays; what is wrong is pointed at."""

import json
from typing import Any

import numpy as np
import pytest

from service.api.problems import steps_within
from tests.api.problems import fault, refused
from tests.api.test_bodies import BINARY, npy
from tests.clients import Client

MULTIMODAL, FROM_MASK, PACKED = "/v1/positions/multimodal", "/v1/positions/from-mask", "/v1/positions/packed"
TEXT = {"type": "text", "tokens": 2}
IMAGE = {"type": "image", "grid": [4, 4]}


def test_the_answer_states_the_segments_with_their_defaults(client: Client) -> None:
    reply = client.post(f"{MULTIMODAL}?advance=max-all", json={"segments": [TEXT, IMAGE]})
    document = reply.json()
    assert document["parameters"]["segments"] == [TEXT, {**IMAGE, "tokens": None}]
    assert document["parameters"]["advance"] == "max-all"
    assert document["facts"] == {"tokens": 6, "last_position": 3, "rope_delta": -2}
    assert document["tensors"]["positions"]["data"][2] == [0, 1, 2, 3, 2, 3]
    assert reply.headers["cache-control"] == "no-store"


WRONG: list[tuple[Any, str, str]] = [
    ({}, "/segments", "missing"),
    ({"segments": []}, "/segments", "too_short"),
    ({"segments": None}, "/segments", "type"),
    ({"segments": {}}, "/segments", "type"),
    ({"segments": [1]}, "/segments/0", "type"),
    ({"segments": [TEXT, {"tokens": 2}]}, "/segments/1/type", "missing"),
    ({"segments": [{"type": "smell", "tokens": 2}]}, "/segments/0/type", "choice"),
    ({"segments": [{"type": ["text"], "tokens": 2}]}, "/segments/0/type", "choice"),
    ({"segments": [{"type": "text"}]}, "/segments/0/tokens", "missing"),
    ({"segments": [{**TEXT, "tokens": 0}]}, "/segments/0/tokens", "out_of_range"),
    ({"segments": [{**TEXT, "tokens": 2.0}]}, "/segments/0/tokens", "type"),
    ({"segments": [{**TEXT, "tokens": True}]}, "/segments/0/tokens", "type"),
    ({"segments": [{**TEXT, "grid": [1, 2]}]}, "/segments/0/grid", "unknown"),
    ({"segments": [{**IMAGE, "grid": [4]}]}, "/segments/0/grid", "too_short"),
    ({"segments": [TEXT, {**IMAGE, "grid": [4, "4"]}]}, "/segments/1/grid/1", "type"),
    ({"segments": [{"type": "video", "grid": [1, 2, 2], "seconds_per_grid": 0}]}, "/segments/0/seconds_per_grid",
     "out_of_range"),
    ({"segments": [TEXT, {**IMAGE, "tokens": 5}]}, "/segments/1/tokens", "conflict"),
    ({"segments": [TEXT], "tensors": {}}, "/tensors", "unknown"),
    ({"segment": [TEXT]}, "/segment", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "pointer", "code"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_in_a_segment_is_pointed_at(client: Client, body: Any, pointer: str, code: str) -> None:
    (found,) = refused(client.post(MULTIMODAL, json=body), "invalid-parameters")["errors"]
    assert (found["pointer"], found["code"]) == (pointer, code)


def test_every_wrong_segment_is_a_fault_of_its_own_and_a_short_list_is_none(client: Client) -> None:
    segments = [{**TEXT, "tokens": 0}, {"type": "smell"}, 3]
    document = refused(client.post(MULTIMODAL, json={"segments": segments}), "invalid-parameters")
    assert [each["pointer"] for each in document["errors"]] == ["/segments/0/tokens", "/segments/1/type", "/segments/2"]


def test_the_types_are_named(client: Client) -> None:
    reply = client.post(MULTIMODAL, json={"segments": [{"type": "immage"}]})
    found = fault(refused(reply, "invalid-parameters"), "/segments/0/type")
    assert found["detail"] == "this is immage; known are text, shared, audio, image, video"
    assert found["did_you_mean"] == "image"
    reply = client.post(MULTIMODAL, json={"segments": [{**TEXT, "tokens": 2**30}]})
    found = fault(refused(reply, "invalid-parameters"), "/segments/0/tokens")
    assert found["detail"] == "this is 1073741824; it must be less than or equal to 1048576"


def test_grid_and_tokens_that_disagree_are_both_named(client: Client) -> None:
    segments = [{"type": "video", "grid": [2, 4, 6], "tokens": 13}]
    found = fault(
        refused(client.post(MULTIMODAL, json={"segments": segments}), "invalid-parameters"), "/segments/0/tokens"
    )
    assert (found["requested"], found["limit"]) == (13, 12)
    assert found["detail"] == "the sequence has 13 tokens here; the grid 2 x 4 x 6, merged, makes 12"


def test_large_wrong_segments_do_not_come_back(client: Client) -> None:
    for segments in ([{"type": "x" * 2**16}] * 20, [{"y" * 2**16: 1, **TEXT}], json.loads("[" * 900 + "]" * 900)):
        reply = client.post(MULTIMODAL, json={"segments": segments})
        refused(reply, "invalid-parameters")
        assert "x" * 65 not in reply.text
        assert "y" * 65 not in reply.text


def test_segments_are_for_the_body_alone(client: Client) -> None:
    reply = client.post(f"{MULTIMODAL}?segments=[]", json={"segments": [TEXT]})
    found = fault(refused(reply, "invalid-parameters"), "segments")
    assert found["detail"] == "segments is a part of the JSON body, not of the query"


def test_where_no_array_is_taken_only_json_is(client: Client) -> None:
    document = refused(client.post(MULTIMODAL, content=npy(np.zeros(3)), headers=BINARY), "unsupported-media-type")
    assert document["detail"] == "Content-Type is application/octet-stream; application/json (UTF-8) would do"
    document = refused(client.post(FROM_MASK, content=b"", headers={}), "unsupported-media-type")
    assert "npy and safetensors" in document["detail"]


def test_one_of_several_arrays_is_needed(client: Client) -> None:
    bodies: list[dict[str, Any]] = [{}, {"tensors": {}}]
    for body in bodies:
        found = fault(refused(client.post(FROM_MASK, json=body), "invalid-parameters"), "/tensors/attention_mask")
        assert found["code"] == "missing"
        assert "/tensors/attention_mask or /tensors/input_ids" in found["detail"]
    both = {"tensors": {"segment_lengths": [2], "cu_seqlens": [0, 2]}}
    assert fault(refused(client.post(PACKED, json=both), "invalid-parameters"), "/tensors/cu_seqlens")


def test_a_single_npy_is_the_first_of_them(client: Client) -> None:
    reply = client.post(PACKED, content=npy(np.array([2, 1])), headers=BINARY)
    assert reply.json()["tensors"]["positions"]["data"] == [0, 1, 0]


def test_a_step_that_leads_nowhere_is_left_out() -> None:
    assert steps_within(("a", "tag", 1, "b", "c"), {"a": [0, {"b": 5}]}) == ["a", 1, "b", "c"]
    assert steps_within(("a",), {}) == ["a"]
