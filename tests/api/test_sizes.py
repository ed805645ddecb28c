"""What would be too large is refused before anything is allocated; what is large is counted."""

import time
import tracemalloc

import pytest

from service.api.limits import Budget, Share
from service.api.problems import Problem
from tests.api.problems import fault, refused
from tests.clients import Call, Client, in_process, settings

GIB = 2**30
TOO_LARGE = [
    ("/v1/biases/alibi?heads=32&length=8192", 32 * 8192**2 * 4, 256 * 2**20),
    ("/v1/biases/alibi.csv?heads=32&length=8192", 32 * 8192**2 * 4, 256 * 2**20),
    ("/v1/biases/alibi.npy?heads=65536&length=8192", 65536 * 8192**2 * 4, 8 * GIB),
    ("/v1/encodings/sinusoidal?length=1000000&dim=1024", 1000000 * 1024 * 4, 256 * 2**20),
    ("/v1/encodings/rope.npz?length=9007199254740992&dim=65536", 2 * 2**53 * 65536 * 4, 8 * GIB),
    ("/v1/encodings/rope.safetensors?length=9007199254740992&dim=65536", 2 * 2**53 * 65536 * 4, 8 * GIB),
    ("/v1/encodings/rope?length=9007199254740992&dim=65536", 2 * 2**53 * 65536 * 4, 256 * 2**20),
    ("/v1/biases/alibi.bin?heads=65536&queries=4503599627370495&keys=16777216&offset=0",
     65536 * 4503599627370495 * 2**24 * 4, 8 * GIB),
    ("/v1/biases/alibi.npz?heads=1&queries=9007199254740991&keys=1&offset=0", 4 * (2**53 - 1), 8 * GIB),
]  # fmt: skip


@pytest.mark.parametrize(("target", "requested", "limit"), TOO_LARGE, ids=[target[:60] for target, _, _ in TOO_LARGE])
def test_an_answer_over_the_limit_is_refused_before_allocation(
    client: Client, target: str, requested: int, limit: int
) -> None:
    """S14: the size and the limit in bytes, in less than 50 ms, with nothing allocated."""
    client.get(target)  # what is imported or cached once is not of this request
    tracemalloc.start()
    try:
        reply = client.get(target + "&revision=1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20
    found = fault(refused(reply, "result-too-large"), "query")
    assert found["code"] == "too_large"
    assert found["limit"] == limit
    assert found["requested"] == (requested if requested <= 2**53 else float(requested))
    assert str(requested) in found["detail"]
    took = []
    for number in range(5):
        begun = time.process_time()
        client.get(f"{target}&nonfinite=refuse&base=1{number}")
        took.append(time.process_time() - begun)
    assert min(took) < 0.05


def test_the_largest_counts_are_refused_by_range(client: Client) -> None:
    assert fault(refused(client.get("/v1/biases/alibi?heads=2147483648&length=2"), "invalid-parameters"), "heads")


def test_text_is_refused_by_the_text_it_could_become(client: Client) -> None:
    """S13: 8192 x 4096 floats are 134 MB of values and more than 256 MiB of JSON at their longest."""
    target = "/v1/encodings/sinusoidal{}?length=8192&dim=4096"
    for ending in ("", ".csv"):
        found = fault(refused(client.get(target.format(ending)), "result-too-large"), "query")
        assert found["limit"] == 256 * 2**20 < found["requested"] < 8 * 256 * 2**20
        assert ".npy" in found["detail"]
    head = client.head(target.format(".npy"))
    assert (head.status_code, head.headers["content-length"]) == (200, str(8192 * 4096 * 4 + 128))


def test_the_limits_are_the_settings() -> None:
    with in_process(settings(result_bytes=1000, json_bytes=2000)) as client:
        assert client.get("/v1/encodings/sinusoidal.npy?length=25&dim=10").status_code == 200
        found = fault(refused(client.get("/v1/encodings/sinusoidal.npy?length=26&dim=10"), "result-too-large"), "query")
        assert (found["requested"], found["limit"]) == (1040, 1000)
        assert client.get("/v1/encodings/sinusoidal?length=5&dim=10").status_code == 200
        refused(client.get("/v1/encodings/sinusoidal?length=26&dim=10"), "result-too-large")


def test_what_does_not_fit_now_is_503_and_what_never_can_is_422(client: Client) -> None:
    budget = client.resources.budget
    free = budget.limit_bytes - budget.in_use
    target = "/v1/encodings/sinusoidal.npy?length=100&dim=64&base="
    for path in (target + "5001", "/v1/encodings/sinusoidal.npy?length=100000&dim=64&base=5001"):
        budget.in_use += free
        try:
            reply = client.get(path)
            live = client.get("/health/live")
        finally:
            budget.in_use -= free
        refused(reply, "overloaded")
        assert reply.headers["retry-after"] == "1"
        assert live.status_code == 200
        assert client.get(path).status_code == 200
    assert budget.in_use == budget.limit_bytes - free
    with in_process(settings(memory_bytes=2**20)) as small:
        assert small.get("/v1/encodings/sinusoidal.npy?length=10&dim=64").status_code == 200
        found = fault(
            refused(small.get("/v1/encodings/sinusoidal.npy?length=2000&dim=64"), "result-too-large"), "query"
        )
        assert found["limit"] == 2**20 < found["requested"]


def test_a_full_budget_does_not_stop_what_takes_no_work(client: Client) -> None:
    target = "/v1/encodings/sinusoidal.npy?length=3&dim=4&base=5002"
    tag = client.get(target).headers["etag"]
    budget = client.resources.budget
    free = budget.limit_bytes - budget.in_use
    budget.in_use += free
    try:
        assert client.get(target).status_code == 200
        assert client.get(target + "&offset=0").status_code == 200
        assert client.head(target + "1").status_code == 200
        assert client.get(target + "&dtype=float32", headers={"if-none-match": tag}).status_code == 304
        assert client.get("/v1/schemes").status_code == 200
        refused(client.get(target + "&dim=4"), "invalid-parameters")
    finally:
        budget.in_use -= free


def test_a_row_of_a_gigabyte_is_counted_as_such() -> None:
    """One row is computed in one piece: no block is smaller."""
    with in_process(settings(memory_bytes=2**26)) as client:
        reply = client.get("/v1/biases/alibi.npy?heads=1&queries=1&keys=16777216&dtype=float64")
        found = fault(refused(reply, "result-too-large"), "query")
        assert found["requested"] > 1_000_000_000
        part = client.get(
            "/v1/biases/alibi.npy?heads=1&queries=1&keys=16777216&dtype=float64", headers={"range": "bytes=0-9"}
        )
        refused(part, "result-too-large")


def test_a_line_of_many_columns_is_counted_without_writing_it(direct: Client) -> None:
    tracemalloc.start()
    try:
        reply = direct.get("/v1/biases/alibi.csv?heads=1&queries=1&keys=16777216")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fault(refused(reply, "result-too-large"), "query")["requested"] > 300_000_000
    assert peak < 2**20


def test_hundreds_of_small_answers_fit_at_once(client: Client) -> None:
    """They are counted as what they take, not as a block each."""
    calls: list[Call] = [
        ("GET", f"/v1/encodings/sinusoidal.npy?length=4&dim=8&base=6{number}", {}) for number in range(600)
    ]
    assert {reply.status_code for reply in client.together(calls)} == {200}
    assert client.resources.budget.in_use == 0


@pytest.mark.parametrize("target", ["/v1/encodings/sinusoidal?length=0&dim=4", "/v1/biases/alibi?heads=0&length=2"])
def test_nothing_is_not_answered_with_nothing(client: Client, target: str) -> None:
    """S12: an empty table is a 422, in JSON as in every other format."""
    refused(client.get(target), "invalid-parameters")


def test_a_share_is_given_back_as_a_whole() -> None:
    budget = Budget(100)
    with Share(budget) as share, Share(budget) as other:
        share.take(30)
        share.take(30)
        other.take(40)
        with pytest.raises(Problem) as full:
            other.take(1)
        assert (full.value.status, full.value.headers["Retry-After"]) == (503, "1")
        with pytest.raises(Problem) as never:
            other.take(61)
        assert (never.value.status, never.value.errors[0]["requested"]) == (422, 101)
        assert budget.in_use == 100
    assert budget.in_use == 0
