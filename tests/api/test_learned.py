"""The learned family over HTTP: the caller's tables in every form, streamed answers, and refusals that say where."""

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save

from tests.api.problems import refused
from tests.clients import Client, in_process, settings
from tests.engine.answers import only

LOOKUP, RESAMPLE, FACTORISED = (f"/v1/learned/{name}" for name in ("lookup", "resample", "factorised"))
BINARY = {"Content-Type": "application/octet-stream"}
TABLE = np.random.default_rng(37).standard_normal((197, 6)).astype(np.float32)


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


@pytest.mark.parametrize("target", [LOOKUP, RESAMPLE, FACTORISED])
def test_tables_are_posted(client: Client, target: str) -> None:
    document = refused(client.get(target), "method-not-allowed")
    assert "POST" in document["detail"]
    assert client.get(target).headers["allow"] == "OPTIONS, POST"


def test_a_table_comes_as_npy_safetensors_or_json(client: Client) -> None:
    query = "grid=16,24&prefix=1"
    expected = only("learned/resample", {"x": TABLE}, grid=(16, 24), prefix=1)
    plain = client.post(f"{RESAMPLE}.npy?{query}", content=npy(TABLE), headers=BINARY)
    assert np.load(io.BytesIO(plain.content)).tobytes() == expected.tobytes()
    named = client.post(f"{RESAMPLE}.safetensors?{query}", content=save({"x": TABLE}), headers=BINARY)
    assert load(named.content)["x"].tobytes() == expected.tobytes()
    shown = client.post(f"{RESAMPLE}?{query}", json={"tensors": {"x": TABLE.tolist()}}).json()
    assert np.array(shown["tensors"]["x"]["data"], np.float32).tobytes() == expected.tobytes()
    told = {name: shown["parameters"][name] for name in ("grid", "old_grid", "bicubic_coefficient", "edges", "prefix")}
    assert told == {
        "grid": [16, 24],
        "old_grid": [14, 14],
        "bicubic_coefficient": "-0.75",
        "edges": "replicate",
        "prefix": 1,
    }
    assert shown["facts"] == {"old_rows": 197, "new_rows": 385}


def test_an_answer_can_be_resized_again(client: Client) -> None:
    once = client.post(f"{RESAMPLE}.safetensors?grid=20&prefix=1", content=save({"x": TABLE}), headers=BINARY)
    again = client.post(f"{RESAMPLE}.npy?grid=14&prefix=1", content=once.content, headers=BINARY)
    assert np.load(io.BytesIO(again.content)).shape == TABLE.shape


@pytest.mark.parametrize("extension", ["npy", "safetensors", "json", "csv"])
@pytest.mark.parametrize(
    "query", ["length=5000&prefix=1", "length=5000&method=repeat", "grid=70,60&prefix=1&dtype=float64"]
)
def test_long_tables_stream(extension: str, query: str) -> None:
    target = f"{RESAMPLE}?{query}" if extension == "json" else f"{RESAMPLE}.{extension}?{query}"
    with in_process(settings(stream_bytes=2**40)) as client:
        whole = client.post(target, content=npy(TABLE), headers=BINARY)
    with in_process(settings(stream_bytes=1000)) as client:
        streamed = client.post(target, content=npy(TABLE), headers=BINARY)
        assert "server-timing" not in streamed.headers
        assert client.resources.budget.in_use == 0
    assert whole.status_code == streamed.status_code == 200
    assert streamed.content == whole.content


def test_a18_a_position_past_the_table(client: Client) -> None:
    content = save({"x": np.zeros((512, 4), np.float32), "positions": np.array([[5, 512]])})
    document = refused(client.post(LOOKUP, content=content, headers=BINARY), "invalid-parameters")
    (fault,) = document["errors"]
    assert (fault["pointer"], fault["requested"], fault["limit"]) == ("/positions/0/1", 512, 511)
    assert "512 rows" in fault["detail"]


def test_2048_rows_do_not_serve_position_2048(client: Client) -> None:
    target = "/v1/encodings/learned?rows=2048&dim=4"
    assert client.get(f"{target}&positions=2047").status_code == 200
    document = refused(client.get(f"{target}&positions=2048"), "invalid-parameters")
    assert document["errors"][0]["limit"] == 2047


def test_a_preset_is_a_table_of_that_model(client: Client) -> None:
    spelled = client.get("/v1/encodings/learned.npy?rows=2050&std=0.02&offset_rule=opt&dim=8")
    named = client.get("/v1/encodings/learned.npy?preset=opt&dim=8")
    assert named.headers["etag"] == spelled.headers["etag"]
    assert np.load(io.BytesIO(named.content)).shape == (2050, 8)


def test_a_grid_that_does_not_match_says_what_would(client: Client) -> None:
    document = refused(client.post(f"{RESAMPLE}?grid=16", content=npy(TABLE), headers=BINARY), "invalid-parameters")
    assert document["detail"] == "197 rows are not 14 x 14 + 0 prefix rows; prefix=1 would do"


def test_an_answer_too_large_is_refused_before_it_is_made(client: Client) -> None:
    for query in ("length=9007199254740992", "grid=1099511627776,1099511627776&prefix=1", "length=400000000"):
        reply = client.post(f"{RESAMPLE}.npy?{query}&method=repeat", content=npy(TABLE), headers=BINARY)
        document = refused(reply, "result-too-large")
        assert document["errors"][0]["code"] == "too_large"
