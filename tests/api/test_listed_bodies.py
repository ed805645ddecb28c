"""Lists that an address states and a JSON body states where they are long: timestamps."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from service.engine.timestamps import MOST_TIMESTAMPS
from tests.api.problems import fault, refused
from tests.api.test_bodies import BINARY, npy
from tests.clients import Client

CALENDAR = "/v1/encodings/calendar?features=hour-of-day,day-of-year&values=index&dtype=float64"
DISTANCE = "/v1/biases/temporal-distance?dim=2&unit=hours"
STAMPS = ["2024-02-29T12:00:00Z", "2024-03-01T00:00:00-05:00"]
BOTH = [CALENDAR, DISTANCE]


def hours(count: int) -> list[str]:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    return [(first + timedelta(hours=hour)).isoformat().replace("+00:00", "Z") for hour in range(count)]


@pytest.mark.parametrize("target", BOTH)
def test_a_body_says_what_the_address_says(client: Client, target: str) -> None:
    posted = client.post(target, json={"timestamps": STAMPS})
    assert posted.content == client.get(f"{target}&timestamps={','.join(STAMPS)}").content
    assert posted.json()["parameters"]["timestamps"] == STAMPS
    assert posted.headers["cache-control"] == "no-store"


def test_a_list_longer_than_any_address(client: Client) -> None:
    stamps = hours(2000)
    refused(client.get(f"{CALENDAR}&timestamps={','.join(stamps[:390])}"), "uri-too-long")
    found = client.post(CALENDAR, json={"timestamps": stamps}).json()["tensors"]["features"]["data"]
    assert found == [[hour % 24, hour // 24] for hour in range(2000)]
    few = stamps[:600]
    apart = client.post(DISTANCE, json={"timestamps": few}).json()
    assert apart["facts"] == {
        "times": 600,
        "largest_distance": 599,
        "table_bytes_per_channel": 4 * 600 * 600,
    }
    positions = client.post(DISTANCE.partition("&")[0], json={"positions": list(range(600))}).json()
    assert apart["tensors"] == positions["tensors"]


WRONG: list[tuple[Any, str, str]] = [
    ({"timestamps": []}, "/timestamps", "too_short"),
    ({"timestamps": None}, "/timestamps", "type"),
    ({"timestamps": ",".join(STAMPS)}, "/timestamps", "type"),
    ({"timestamps": {}}, "/timestamps", "type"),
    ({"timestamps": [STAMPS[0], 5]}, "/timestamps/1", "type"),
    ({"timestamps": [STAMPS]}, "/timestamps/0", "type"),
    ({"timestamps": [STAMPS[0], "2024-02-29"]}, "/timestamps/1", "timestamp"),
    ({"timestamps": STAMPS[:1] * (MOST_TIMESTAMPS + 1)}, "/timestamps", "too_long"),
    ({"timestamp": STAMPS}, "/timestamp", "unknown"),
    ({"timestamps": STAMPS, "positions": [1]}, "/positions", "conflict"),
    ({}, "/positions", "missing"),
]


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(("body", "pointer", "code"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_pointed_at(client: Client, target: str, body: Any, pointer: str, code: str) -> None:
    found = fault(refused(client.post(target, json=body), "invalid-parameters"), pointer)
    assert (found["pointer"], found["code"]) == (pointer, code)
    assert "validation" not in found["detail"]


@pytest.mark.parametrize("target", BOTH)
def test_a_list_is_stated_once(client: Client, target: str) -> None:
    reply = client.post(f"{target}&timestamps={STAMPS[0]}", json={"timestamps": STAMPS})
    found = fault(refused(reply, "invalid-parameters"), "timestamps")
    assert (found["parameter"], found["code"]) == ("timestamps", "repeated")


def test_an_empty_body_is_told_what_would_do(client: Client) -> None:
    assert "/positions or /timestamps" in refused(client.post(CALENDAR, json={}), "invalid-parameters")["detail"]
    reply = client.post(CALENDAR, content=npy(np.zeros(1)), headers=BINARY)
    assert reply.json()["parameters"]["timestamps"] is None


def test_documents_say_so(client: Client) -> None:
    entry = client.get("/v1/schemes/calendar").json()["schemes"][0]
    assert {"name": "timestamps", "required": False, "values": "structured"}.items() <= entry["inputs"][0].items()
    assert entry["parameters"]["properties"]["timestamps"]["maxItems"] == 512
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    body = schemas["EncodingsCalendarBody"]
    assert body["properties"]["timestamps"]["maxItems"] == MOST_TIMESTAMPS
    assert body["minProperties"] == 1
    assert "required" not in body
