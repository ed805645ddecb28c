"""Rows about answers that are asked for again: beside nginx and beside bare Python."""

from functools import partial

from tests.benchmarks.figures import Growth, Line, MissingError, Options, at_least, in_turn
from tests.benchmarks.load import Ask, Headers, by_processor, load
from tests.benchmarks.servers import BARE, CALLABLE, SERVICE, Running, first_answer, nginx, running

# Values of so many bytes, and a header of 128.
SINUSOIDAL = "/v1/encodings/sinusoidal.npy?length={}&dim=128"
LENGTH = {"4 KB": 8, "64 KB": 128, "1 MB": 2048, "16 MB": 32768}
SIZE = {"4 KB": 4 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20}
# As many requests, but for what the clock of processor time does not resolve.
SAME = 0.95
LARGE = SINUSOIDAL.format(2 << 20)


def _rate(server: Running, ask: Ask, seconds: float) -> float:
    return load(server, ask, seconds).rate


def beside_nginx(name: str, least: float, options: Options, by_bytes: bool) -> list[Line]:
    """The service, a bare ASGI callable and nginx, with the same number of bytes."""
    path, size = SINUSOIDAL.format(LENGTH[name]), SIZE[name]
    with (
        running(SERVICE, path, 0) as service,
        running(CALLABLE, f"/{size}", 0) as callable_,
        nginx({"file": bytes(size + 128)}, 0) as static,
    ):
        first_answer(service.port, path)

        def rate(server: Running, asked: str) -> float:
            found = load(server, Ask(asked), options.seconds)
            return found.bytes_rate / 1e6 if by_bytes else found.rate

        ours = in_turn(options.pairs, lambda: rate(service, path), lambda: rate(static, "/file"))
        bare = in_turn(options.pairs, lambda: rate(callable_, f"/{size}"), lambda: rate(static, "/file"))
    unit = "MB/s" if by_bytes else "requests/s"
    line = at_least(f"repeated {name} npy", ours, unit, "nginx, static file", least)
    known = Line(
        "the same from a bare ASGI callable on uvicorn", f"{bare[0]:,.0f} {unit}", "nginx", f"{bare[2]:.2f}", "", None
    )
    return [line, known]


def four(options: Options) -> list[Line]:
    return beside_nginx("4 KB", 0.25, options, by_bytes=False)


def sixty_four(options: Options) -> list[Line]:
    return beside_nginx("64 KB", 0.4, options, by_bytes=False)


def megabyte(options: Options) -> list[Line]:
    return beside_nginx("1 MB", 1.0, options, by_bytes=True)


def sixteen(options: Options) -> list[Line]:
    return beside_nginx("16 MB", 1.0, options, by_bytes=True)


def route(options: Options) -> list[Line]:
    path, theirs = SINUSOIDAL.format(128), "/bytes/65536"
    with running(SERVICE, path, 0) as service, running(BARE, theirs, 0) as bare:
        first_answer(service.port, path)
        found = in_turn(
            options.pairs,
            lambda: load(service, Ask(path), options.seconds).rate,
            lambda: load(bare, Ask(theirs), options.seconds).rate,
        )
    return [at_least("repeated 64 KB npy", found, "requests/s", "bare FastAPI route, the same bytes", 4)]


def bodiless(options: Options) -> list[Line]:
    """HEAD and 304 of a result of a gigabyte, beside the repeated answer of 4 KB; by the server's processor time."""
    small = SINUSOIDAL.format(8)
    with running(SERVICE, small, 0) as service:
        size = len(first_answer(service.port, small))
        growth = Growth(service.pid)
        lines = []
        for word, ask in (
            ("HEAD", Headers(f"HEAD {LARGE}")),
            ("304", Headers(f"GET {LARGE}", "If-None-Match: *\r\n")),
        ):
            found = in_turn(
                options.pairs,
                partial(by_processor, service, ask),
                partial(by_processor, service, Headers(f"GET {small}", body=size)),
            )
            lines.append(at_least(f"{word} for a 1 GB result", found, "requests/CPU s", "repeated 4 KB npy", SAME))
        grown = growth.peak
    return [*lines, Line("memory growth meanwhile", f"{grown:.1f} MiB", "", "", "< 64 MiB", grown < 64)]


def served_models(options: Options) -> list[Line]:
    """LitServe and BentoML, which compute the table for each request as they would a model's answer."""
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
                found = in_turn(
                    options.pairs,
                    lambda: load(service, Ask(path), options.seconds).rate,
                    partial(_rate, peer, Ask(theirs, "POST", body=body), options.seconds),
                )
            lines.append(at_least("npy 2048 x 128", found, "requests/s", f"{name}, the same table", 5))
    return lines
