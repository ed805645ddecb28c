"""What /metrics says: every answer counted once, labels from short lists, formats that Prometheus reads."""

import random
import re
import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from service.api.meters import BYTES, METHODS, OTHER, SECONDS, UNROUTED, Histogram
from service.api.metrics import OPENMETRICS, TEXT, wanted_type
from service.api.problem_types import PROBLEMS
from service.engine import SCHEMES
from service.main import Service
from tests.clients import Call, in_process, on_port, settings
from tests.clients import Client as HttpClient
from tests.live import Client, wait_until

Sample = tuple[str, frozenset[tuple[str, str]]]
SMALL = "/v1/encodings/sinusoidal.npy?length=3&dim=4"
SLOPES = "/v1/biases/alibi-slopes.npy?heads=4"
LARGE = "/v1/encodings/sinusoidal.npy?length=2000&dim=64"
STREAMED = "/v1/encodings/sinusoidal.bin?length=40000&dim=64"
COUNT = "posenc_http_request_duration_seconds_count"


@pytest.fixture
def server() -> Iterator[HttpClient]:
    with on_port(settings(header_seconds=5, reply_cache_bytes=8 << 20)) as opened:
        yield opened


def port_of(client: HttpClient) -> int:
    port = client.http.base_url.port
    assert port is not None
    return port


def routes_of(client: HttpClient) -> list[str]:
    """The labels of all routes."""
    assert isinstance(client.app, Service)
    return list(client.app.door.routes.values())


def scraped(client: HttpClient, **headers: str) -> dict[Sample, float]:
    """Every sample by name and labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read_text(answer.text)
        for sample in family.samples
    }


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    """The sum over the samples that have those labels."""
    return sum(found for (called, marks), found in samples.items() if called == name and labels.items() <= marks)


def risen(
    before: dict[Sample, float], after: dict[Sample, float], name: str, *marks: str
) -> dict[tuple[str, ...], float]:
    """By how much each sample of a name grew, by the values of some labels."""
    grown: dict[tuple[str, ...], float] = {}
    for (called, labels), found in after.items():
        more = found - before.get((called, labels), 0)
        if called == name and more:
            key = tuple(dict(labels)[mark] for mark in marks)
            grown[key] = grown.get(key, 0) + more
    return grown


# Formats


def test_the_text_format_is_well_formed_and_well_named(direct: HttpClient) -> None:
    answer = direct.get("/metrics")
    assert answer.headers["content-type"] == TEXT
    assert answer.headers["cache-control"] == "no-store"
    families = list(read_text(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    for family in families:
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        ours = family.name.startswith("posenc_")
        assert ours or family.name.startswith(("process_", "python_")), family.name
        for sample in family.samples if ours else ():
            assert re.fullmatch(r"[a-z_]+", sample.name)
            assert (family.type == "counter") == sample.name.endswith("_total")
            assert not re.search(r"(milli|micro|nano)seconds|kilo|mega|_(ms|kb|mb)\b", sample.name)
            assert all(re.fullmatch(r"[a-z]+", label) for label in sample.labels), sample.labels
    assert {"posenc_build_info", "process_resident_memory_bytes", "python_info", "process_open_fds"} <= set(names)


def test_openmetrics_is_written_where_it_is_asked_for(direct: HttpClient) -> None:
    answer = direct.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"] == OPENMETRICS
    assert answer.text.endswith("# EOF\n")
    found = {family.name for family in read_openmetrics(answer.text)}  # type: ignore[no-untyped-call]  # theirs
    assert found == {family.name for family in read_text(direct.get("/metrics").text)}


ACCEPT = {
    "": TEXT,
    "*/*": TEXT,
    "text/plain": TEXT,
    "application/openmetrics-text": OPENMETRICS,
    "Application/OpenMetrics-Text;version=9.9;q=0.5, text/plain;q=0.4": OPENMETRICS,
    "application/openmetrics-text;q=0.3, text/plain;q=0.4": TEXT,
    "application/openmetrics-text;q=0": TEXT,
    "application/openmetrics-text;q=x;version=": OPENMETRICS,
    "text/plain;q=2, application/openmetrics-text;q=0.001": TEXT,
    # As Prometheus 3 sends it.
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1"
    ";q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": OPENMETRICS,
}


@pytest.mark.parametrize("accept", ACCEPT)
def test_accept_decides_about_the_format(accept: str) -> None:
    assert wanted_type(accept) == ACCEPT[accept]


@given(st.text(alphabet=";,=q.01/ \tplainopenmetricstxa-*", max_size=80))
def test_no_accept_is_a_fault(accept: str) -> None:
    assert wanted_type(accept) in (TEXT, OPENMETRICS)


def test_head_has_the_header_alone(direct: HttpClient) -> None:
    head = direct.head("/metrics")
    assert head.status_code == 200
    assert head.content == b""


def test_they_can_be_switched_off() -> None:
    with in_process(settings(metrics="off")) as client:
        assert client.get("/metrics").status_code == 404


def test_with_workers_every_sample_says_whose_it_is() -> None:
    with in_process(settings(workers=2)) as client:
        workers = {dict(labels).get("worker", "") for _, labels in scraped(client)}
        assert len(workers) == 1
        assert workers.pop().isdecimal()
    with in_process(settings()) as client:
        assert not any("worker" in dict(labels) for _, labels in scraped(client))


# Counts


def test_every_answer_is_counted_once_with_its_labels(server: HttpClient) -> None:
    file, scheme = "/v1/encodings/{scheme}.{extension}", "/v1/encodings/{scheme}"
    before = scraped(server)
    tag = server.get(SMALL).headers["etag"]
    for _ in range(5):
        server.get(SMALL)
    server.get(SMALL, headers={"if-none-match": tag})
    server.head(SMALL)
    server.get(SMALL, headers={"range": "bytes=0-9"})
    server.get("/v1/encodings/sinusoidal?length=0")
    refused_bytes = len(server.request("DELETE", SMALL).content)
    server.request("OPTIONS", "/v1/encodings/sinusoidal")
    server.get("/v1/encodings/sinusoid")
    server.post("/v1/apply/rope", content=b"{", headers={"content-type": "application/json"})
    assert len(server.get(STREAMED).content) == 40000 * 64 * 4
    with Client(port_of(server)) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        client.read()
    after = scraped(server)
    found = risen(before, after, COUNT, "route", "method", "status", "way")
    assert found == {
        (file, "GET", "200", "made"): 2,
        (file, "GET", "200", "repeated"): 5,
        (file, "GET", "304", "repeated"): 1,
        (file, "HEAD", "200", "repeated"): 1,
        (file, "GET", "206", "made"): 1,
        (file, "other", "405", "made"): 1,
        (scheme, "GET", "422", "made"): 1,
        (scheme, "OPTIONS", "204", "made"): 1,
        ("/v1/apply/{scheme}", "POST", "400", "made"): 1,
        ("unrouted", "GET", "404", "made"): 1,
        ("unrouted", "GET", "400", "early"): 1,
        ("/metrics", "GET", "200", "made"): 1,
    }
    assert risen(before, after, "posenc_refusals_total", "problem") == {
        ("invalid-parameters",): 1, ("method-not-allowed",): 1, ("not-found",): 1, ("bad-request",): 2
    }  # fmt: skip
    sizes = risen(before, after, "posenc_http_response_size_bytes_sum", "route")
    assert sizes[(file,)] == 6 * (128 + 48) + 10 + 40000 * 64 * 4 + refused_bytes
    assert risen(before, after, "posenc_http_response_size_bytes_count", "route")[(file,)] == 9
    assert value(after, "posenc_http_requests_in_flight") == 1


def test_clients_that_leave_are_counted_once(server: HttpClient) -> None:
    before, meters = scraped(server), server.resources.gate.meters
    post = b"POST /v1/apply/rope HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for sent in (
        b"GET " + STREAMED.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        post + b"Content-Length: 9\r\n\r\n{",
        post + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ):
        with Client(port_of(server)) as client:
            client.send(sent)
            if b"nonsense" in sent:
                client.read()
            else:
                wait_until(lambda: meters.in_flight > 0)
    wait_until(lambda: meters.in_flight == 0)
    found = risen(before, scraped(server), COUNT, "method", "status", "way")
    assert found == {("GET", "200", "made"): 2, ("POST", "400", "made"): 1, ("POST", "400", "early"): 1}


def test_stages_and_caches(server: HttpClient) -> None:
    before = scraped(server)
    call: Call = ("GET", LARGE, {})
    server.together([call] * 4)
    server.get(SLOPES)
    server.get(SLOPES)
    server.get("/v1/encodings/sinusoidal.npy?length=1999&dim=64")
    entries = {"a": "/v1/encodings/rope?length=4&dim=8"}
    server.post("/v1/bundle.npz", json=entries)
    server.post("/v2/models/biases.alibi-slopes/infer", json={"parameters": {"heads": 4}, "inputs": []})
    after = scraped(server)
    for stage in ("queue", "compute", "encode"):
        counts = risen(before, after, "posenc_stage_duration_seconds_count", "family", "stage")
        families = {family: count for (family, of), count in counts.items() if of == stage}
        assert families == {"encodings": 2, "biases": 2, "bundle": 1}
    assert value(after, "posenc_stage_duration_seconds_sum", stage="compute") > 0
    lookups = risen(before, after, "posenc_cache_lookups_total", "cache", "result")
    assert lookups["replies", "miss"] == 3
    assert lookups["replies", "hit"] + lookups.get(("replies", "joined"), 0) == 4
    assert lookups["tables", "miss"] == 2  # sinusoidal and cos: sin was computed with that
    assert lookups["tables", "hit"] >= 1
    assert lookups["states", "miss"] >= 1
    for cache in ("replies", "tables", "states"):
        assert (
            0 < value(after, "posenc_cache_bytes", cache=cache) < value(after, "posenc_cache_limit_bytes", cache=cache)
        )


def test_what_is_let_go_is_counted() -> None:
    with in_process(settings(reply_cache_bytes=65536, table_cache_bytes=65536)) as client:
        for length in range(1, 60):
            client.get(f"/v1/encodings/sinusoidal.npy?length={length}&dim=16&base={length + 2}")
        samples = scraped(client)
        for cache in ("replies", "tables"):
            assert value(samples, "posenc_cache_evictions_total", cache=cache) > 0, cache
            assert value(samples, "posenc_cache_bytes", cache=cache) <= 65536


def test_work_under_way_and_readiness_are_told(direct: HttpClient) -> None:
    samples = scraped(direct)
    assert value(samples, "posenc_ready") == 1
    assert value(samples, "posenc_work_in_use_bytes") == 0
    assert value(samples, "posenc_work_limit_bytes") == 2 * 2**30
    direct.app.state.draining = True
    try:
        assert value(scraped(direct), "posenc_ready") == 0
    finally:
        direct.app.state.draining = False


# Labels


def test_a_thousand_addresses_and_methods_make_few_series(direct: HttpClient) -> None:
    chance = random.Random(1)
    for number in range(1000):
        method = chance.choice(("GET", "HEAD", "PUT", "".join(chance.choices(string.ascii_uppercase, k=6))))
        word = "".join(chance.choices(string.ascii_letters + '/%{}"\\', k=12))
        direct.request(method, f"/{chance.choice(('', 'v1/', 'v1/encodings/', 'health/'))}{word}?{number}")
    samples = scraped(direct)
    known = set(routes_of(direct)) | {UNROUTED}
    for name, labels in samples:
        marks = dict(labels)
        if name.startswith("posenc_http"):
            assert marks.get("route", UNROUTED) in known
            assert marks.get("method", "GET") in {*METHODS, OTHER}
        assert marks.get("problem", "not-found") in PROBLEMS
    assert len(known) < 60
    unrouted = [labels for name, labels in samples if name == COUNT and ("route", UNROUTED) in labels]
    assert len(unrouted) <= 8


def test_every_scheme_has_the_label_of_its_family(direct: HttpClient) -> None:
    labels = set(routes_of(direct))
    for scheme in SCHEMES:
        assert f"/v1/{scheme.family}/{{scheme}}" in labels
        assert f"/v1/{scheme.family}/{scheme.name}" not in labels
    assert "/v1/models/resolve" in labels
    assert "/web/{file}" in labels


# Histograms


@given(st.lists(st.floats(0, 100)), st.sampled_from([SECONDS, BYTES]))
def test_a_bucket_holds_what_is_at_most_its_bound(values: list[float], bounds: tuple[float, ...]) -> None:
    histogram = Histogram(bounds)
    for each in values:
        histogram.add(each)
    assert dict(histogram.buckets()) == {
        bound: sum(each <= bound for each in values) for bound in (*bounds, float("inf"))
    }
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))
