"""The meters, the caches and the budget as metrics, made at a scrape; nothing is kept for it.

Base units are seconds and bytes. Labels come from short lists: the template of a route, four methods and `other`, a
status, the type of a problem, a family. What the library knows of the process is told as it tells it.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import numpy as np
from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector

from service import __version__
from service.api.meters import BYTES, Histogram
from service.api.problem_types import PROBLEMS
from service.api.reply_cache import ReplyCache
from service.api.resources import Resources
from service.engine.tables import States, TableCache

ANSWER = ("route", "method", "status", "way")


def written(collected: Collector, *, openmetrics: bool) -> bytes:
    """All of them, in one of the two formats."""
    if openmetrics:
        # prometheus_client types its text format and not this one: it is called as what it returns there.
        generate: Callable[[Collector], bytes] = openmetrics_exposition.generate_latest
        return generate(collected)
    return generate_latest(collected)


class Collected(Collector):
    """What a scrape finds; with several workers, every sample with the one that it is of."""

    def __init__(self, resources: Resources, draining: bool, worker: str | None) -> None:
        self.resources = resources
        self.draining = draining
        self.labels = {} if worker is None else {"worker": worker}

    def collect(self) -> Iterator[Metric]:
        for family in self._families():
            labelled = Metric(family.name, family.documentation, family.type, family.unit)
            labelled.samples = [each._replace(labels={**each.labels, **self.labels}) for each in family.samples]
            yield labelled

    def _families(self) -> Iterator[Metric]:
        yield from self._answers()
        yield from self._work()
        yield from self._caches()
        yield from self._process()

    def _answers(self) -> Iterator[Metric]:
        meters = self.resources.gate.meters
        kinds = sorted(meters.answers.items(), key=lambda item: item[0][1:] + item[0][:1])
        times = HistogramMetricFamily(
            "posenc_http_request_duration_seconds",
            "From the complete header of a request to the last byte of its answer given to the socket; what the server "
            "holds for a slow client at the end (64 KB, or a block of what is made) is not waited for. One count for "
            "each answer. way: repeated (from the cache of replies), made, early (refused before either was asked).",
            labels=ANSWER,
        )
        sizes = HistogramMetricFamily(
            "posenc_http_response_size_bytes",
            "Bodies of answers that have one, coded as they were; of clients that left, what was sent until then.",
            labels=["route"],
        )
        for (way, route, method, status), answers in kinds:
            _add(times, [route, method, str(status), way], answers.times)
        for route, group in groupby(kinds, key=lambda item: item[0][1]):
            whole = Histogram(BYTES)
            for _, answers in group:
                whole.merge(answers.sizes)
            _add(sizes, [route], whole)
        refusals = CounterMetricFamily("posenc_refusals", "Answers that are problem documents.", labels=["problem"])
        for slug in PROBLEMS:
            refusals.add_metric([slug], meters.refusals[slug])
        in_flight = "Requests whose answer is being made or sent; this one is among them."
        yield from (times, sizes, refusals)
        yield _gauge("posenc_http_requests_in_flight", in_flight, meters.in_flight)

    def _work(self) -> Iterator[Metric]:
        stages = HistogramMetricFamily(
            "posenc_stage_duration_seconds",
            "Of each answer that was made: waiting for the work pool (queue), computing rows or taking them from the "
            "cache of tables, whose misses say what was computed (compute), writing them (encode).",
            labels=["stage", "family"],
        )
        for (stage, family), seconds in sorted(self.resources.gate.meters.stages.items()):
            _add(stages, [stage, family], seconds)
        budget = self.resources.budget
        yield stages
        yield _gauge("posenc_work_in_use_bytes", "Memory that work under way was given.", budget.in_use)
        yield _gauge("posenc_work_limit_bytes", "Memory that work may have; beyond it is 503.", budget.limit_bytes)

    def _caches(self) -> Iterator[Metric]:
        replies, tables, meters = self.resources.replies, self.resources.tables, self.resources.gate.meters
        caches: dict[str, ReplyCache | TableCache | States] = {
            "replies": replies,
            "tables": tables,
            "states": tables.states,
        }
        lookups = CounterMetricFamily(
            "posenc_cache_lookups",
            "Replies: finished answers; joined are those that were being made for someone else. Tables: blocks of "
            "rows. States: what rows are computed from.",
            labels=["cache", "result"],
        )
        lookups.add_metric(["replies", "joined"], meters.joined)
        evictions = CounterMetricFamily("posenc_cache_evictions", "Entries let go to make room.", labels=["cache"])
        held = GaugeMetricFamily("posenc_cache_bytes", "What the entries take.", labels=["cache"])
        limits = GaugeMetricFamily("posenc_cache_limit_bytes", "What they may take.", labels=["cache"])
        for name, cache in caches.items():
            counted = cache.lookups
            lookups.add_metric([name, "hit"], counted.hits + (meters.repeated if name == "replies" else 0))
            lookups.add_metric([name, "miss"], counted.misses)
            evictions.add_metric([name], counted.evictions)
            held.add_metric([name], cache.held_bytes)
            limits.add_metric([name], cache.limit_bytes)
        return iter((lookups, evictions, held, limits))

    def _process(self) -> Iterator[Metric]:
        build = {"version": __version__, "python": platform.python_version(), "numpy": np.__version__}
        info = GaugeMetricFamily("posenc_build_info", "What runs here.", labels=list(build))
        info.add_metric(list(build.values()), 1)
        yield info
        yield _gauge(
            "posenc_ready",
            "1 where /health/ready says 200.",
            int(self.resources.readiness.not_ready(self.draining) is None),
        )
        for library in (ProcessCollector(registry=None), PlatformCollector(registry=None), _garbage()):
            yield from library.collect()


def _garbage() -> Collector:
    registry = CollectorRegistry()
    GCCollector(registry)
    return registry


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value)


def _add(family: HistogramMetricFamily, labels: Iterable[str], histogram: Histogram) -> None:
    buckets = [(_bound(bound), below) for bound, below in histogram.buckets()]
    family.add_metric(list(labels), buckets, histogram.total)


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)
