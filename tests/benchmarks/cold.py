"""Rows about answers that nobody asked for before: every request has positions, or a base, of its own."""

from tests.benchmarks.figures import Found, Line, Options, at_least, in_turn
from tests.benchmarks.load import Ask, load
from tests.benchmarks.servers import BARE, SERVICE, running


def _beside(ours: str, theirs: str, options: Options, seconds: float) -> Found:
    """Two connections, so that neither waits for the load."""
    first = [path.replace("@", "1") for path in (ours, theirs)]
    with running(SERVICE, first[0], 0) as a, running(BARE, first[1], 0) as b:
        return in_turn(
            options.pairs,
            lambda: load(a, Ask(ours, connections=2), seconds).rate,
            lambda: load(b, Ask(theirs, connections=2), seconds).rate,
        )


def npy(options: Options) -> list[Line]:
    """At positions that nobody asked for, and with a base that nobody asked for: its frequencies are computed too."""
    lines = []
    for new in ("offset=@0000", "base=1@.5"):
        query = f"length=4096&dim=128&{new}"
        found = _beside(f"/v1/encodings/sinusoidal.npy?{query}", f"/npy?{query}", options, options.seconds)
        lines.append(at_least(found, "requests/s", "bare FastAPI and numpy computing the same", 2))
    return lines


def json(options: Options) -> list[Line]:
    query = "length=2048&dim=128&offset=@0000"
    found = _beside(f"/v1/encodings/sinusoidal?{query}", f"/json?{query}", options, 3 * options.seconds)
    return [at_least(found, "requests/s", "FastAPI answering .tolist()", 20)]
