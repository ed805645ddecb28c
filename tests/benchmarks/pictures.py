"""A flood of pictures, none of which was drawn before, and how long /health/live takes meanwhile."""

from functools import partial

from tests.benchmarks.figures import Line, Options
from tests.benchmarks.large import health_line, health_while
from tests.benchmarks.load import Ask, Load, load
from tests.benchmarks.servers import SERVICE, first_answer, running

CLIENTS = 64
SECONDS = 15
# The largest that is asked for often, and the smallest that is drawn: more refusals in the same time.
FLOODS = {
    "4096 x 512 as png": "/v1/encodings/sinusoidal.png?length=4096&dim=512&offset=@",
    "50 x 128 as svg": "/v1/encodings/sinusoidal.svg?length=50&dim=128&offset=@",
    "32 heads of a bias as png": "/v1/biases/alibi.png?heads=32&length=512&offset=@",
}


def flood(_options: Options) -> list[Line]:
    """64 clients that ask at once, again and again, whatever they are told."""
    lines = []
    for path in FLOODS.values():
        with running(SERVICE, "/health/live") as service, running(SERVICE, "/health/live") as idle:
            first_answer(service.port, path.replace("@", "0"))
            found: list[Load] = []
            ask = Ask(path, connections=CLIENTS, may_refuse=True)
            asked = partial(load, service, ask, SECONDS, core=None)
            late, meanwhile = health_while([service, idle], lambda: found.append(asked()))  # noqa: B023 - it ends here
        (load_found,) = found
        drawn = load_found.rate - load_found.refused
        what = f"{drawn:.1f} drawn a second, {load_found.refused:,.0f} refused"
        lines += [
            Line(what, "", "", "", None),
            health_line(late, meanwhile),
        ]
    return lines
