"""Rows about answers that are asked for again: beside nginx and beside bare Python."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Growth, Line, MissingError, Options, at_least, compared, in_turns
from tests.benchmarks.load import Ask, Headers, by_processor, load
from tests.benchmarks.servers import BARE, CALLABLE, SERVICE, Running, first_answer, nginx, running

# Values of so many bytes, and a header of 128.
SINUSOIDAL = "/v1/encodings/sinusoidal.npy?length={}&dim=128"
LENGTH = {"4 KB": 8, "64 KB": 128, "1 MB": 2048, "16 MB": 32768}
NGINX = "nginx, static file"
# As many requests, but for what the clock of processor time does not resolve.
SAME = 0.95
LARGE = SINUSOIDAL.format(2 << 20)


def _rate(server: Running, ask: Ask, seconds: float) -> float:
    return load(server, ask, seconds).rate


def beside_nginx(name: str, least: float, options: Options, by_bytes: bool, route: float | None = None) -> list[Line]:
    """The service, nginx and a bare ASGI callable in turns, with the same bytes: those of the service's answer.

    Where `route` says how much faster than that the service should be, a bare FastAPI route too.
    """
    path = SINUSOIDAL.format(LENGTH[name])
    unit = "MB/s" if by_bytes else "requests/s"
    with ExitStack() as stack:
        service = stack.enter_context(running(SERVICE, path, 0))
        body = first_answer(service.port, path)
        folder = stack.enter_context(TemporaryDirectory())
        Path(folder, "file").write_bytes(body)
        same = {"BENCHMARK_FILES": folder}
        servers = {
            service: path,
            stack.enter_context(nginx({"file": body}, 0)): "/file",
            stack.enter_context(running(CALLABLE, "/file", 0, environment=same)): "/file",
        }
        if route:
            servers[stack.enter_context(running(BARE, "/bytes/file", 0, environment=same))] = "/bytes/file"
        for server, asked in servers.items():
            if first_answer(server.port, asked) != body:
                raise RuntimeError(f"{asked} of port {server.port} has other bytes")

        def rate(server: Running, asked: str) -> float:
            found = load(server, Ask(asked), options.seconds)
            return found.bytes_rate / 1e6 if by_bytes else found.rate

        measures = [partial(rate, server, asked) for server, asked in servers.items()]
        ours, static, bare, *routed = in_turns(options.pairs, *measures)
    callable_ = at_least(compared(bare, static), unit, NGINX, least)
    lines = [
        at_least(compared(ours, static), unit, NGINX, least),
        replace(callable_, least="", reached=None),
    ]
    if route:
        lines.append(at_least(compared(ours, routed[0]), unit, "bare FastAPI route, the same bytes", route))
    return lines


def four(options: Options) -> list[Line]:
    return beside_nginx("4 KB", 0.25, options, by_bytes=False)


def sixty_four(options: Options) -> list[Line]:
    return beside_nginx("64 KB", 0.4, options, by_bytes=False, route=4)


def megabyte(options: Options) -> list[Line]:
    return beside_nginx("1 MB", 1.0, options, by_bytes=True)


def sixteen(options: Options) -> list[Line]:
    return beside_nginx("16 MB", 1.0, options, by_bytes=True)


def bodiless(options: Options) -> list[Line]:
    """HEAD and 304 of a result of a gigabyte, beside the repeated answer of 4 KB; by the server's processor time."""
    small = SINUSOIDAL.format(8)
    with running(SERVICE, small, 0) as service:
        size = len(first_answer(service.port, small))
        asked = (
            Headers(f"HEAD {LARGE}"),
            Headers(f"GET {LARGE}", "If-None-Match: *\r\n"),
            Headers(f"GET {small}", body=size),
        )
        with Growth(service) as growth:
            head, unchanged, whole = in_turns(options.pairs, *(partial(by_processor, service, ask) for ask in asked))
    found = [compared(each, whole) for each in (head, unchanged)]
    return [*(at_least(each, "requests/CPU s", "repeated 4 KB npy", SAME) for each in found), growth.line()]


def served_models(options: Options) -> list[Line]:
    """LitServe and BentoML, which compute the table for each request as they would a model's answer.

    Beside the service's answer when it is asked for again, and when it is computed for positions that nobody asked for.
    """
    if not options.peers_python:
        raise MissingError("LitServe and BentoML: give --peers-python, an interpreter that has both")
    from tests.benchmarks.servers import HERE  # noqa: PLC0415

    folder, body = str(HERE), '{"length":2048,"dim":128}'
    lit = (f"{folder}/peer_litserve.py",)
    bento = ("-m", "bentoml", "serve", "--working-dir", folder, "peer_bentoml:Table", "--port")
    quiet = {"BENTOML_DO_NOT_TRACK": "True", "PYTHONWARNINGS": "ignore", "BENTOML_HOME": "/tmp/posenc-benchmark"}
    path, lines = SINUSOIDAL.format(2048), []
    peers = [("LitServe", lit, "/predict"), ("BentoML", bento, "/table")]
    with running(SERVICE, path, 0) as service:
        first_answer(service.port, path)
        for name, command, theirs in peers:
            with running(
                command, theirs, 0, python=options.peers_python, body=body.encode(), environment=quiet, output=-3
            ) as peer:
                again, cold, other = in_turns(
                    options.pairs,
                    partial(_rate, service, Ask(path), options.seconds),
                    partial(_rate, service, Ask(f"{path}&offset=@0000"), options.seconds),
                    partial(_rate, peer, Ask(theirs, "POST", body=body), options.seconds),
                )
            found = [compared(each, other) for each in (again, cold)]
            lines += [at_least(each, "requests/s", f"{name}, the same table", 5) for each in found]
    return lines
