"""Work is admitted by bytes: what does not fit now is sent away for a moment, what never can is refused for good."""

from collections import Counter
from collections.abc import Hashable
from types import TracebackType
from typing import Self

from service.api.problems import Problem

RETRY = {"Retry-After": "1"}
EXACT_BYTES = 2**53


def exact(size: int) -> int | float:
    """As JSON readers hold whole numbers, to 2^53, and as orjson writes them, to 2^64: beyond, the nearest float64."""
    return size if size <= EXACT_BYTES else float(size)


def overloaded(detail: str) -> Problem:
    """A 503 that says when to come back."""
    return Problem("overloaded", detail, headers=RETRY)


class Budget:
    """Bytes of work under way; used from the event loop only, so it needs no lock."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.in_use = 0


class Share:
    """What one request holds of the budget; it grows as the request does and is given back as a whole.

    >>> budget = Budget(100)
    >>> with Share(budget) as share:
    ...     share.take(60)
    ...     budget.in_use
    60
    >>> budget.in_use
    0
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held = 0

    def take(self, size: int) -> None:
        """Admit that much more: a 422 if it can never fit, a 503 with Retry-After if it does not now."""
        if self.held + size > self._budget.limit_bytes:
            raise too_large(
                self.held + size,
                self._budget.limit_bytes,
                "send or ask for less at a time",
                what="the work for this request",
            )
        if self._budget.in_use + size > self._budget.limit_bytes:
            raise overloaded("the memory for answers is in use at the moment")
        self._budget.in_use += size
        self.held += size

    def give_back(self) -> None:
        self._budget.in_use -= self.held
        self.held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class Crowd:
    """What is waited for, by whomever: so many things at a time, and what comes then is sent away for a moment.

    >>> crowd = Crowd("pictures wait to be drawn", 1)
    >>> crowd.join("a")
    >>> crowd.join("a")
    >>> crowd.refusal("a"), crowd.refusal("b").detail
    (None, '1 pictures wait to be drawn at the moment')
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self.waited: Counter[Hashable] = Counter()

    def refusal(self, thing: Hashable) -> Problem | None:
        """A 503 with Retry-After if that is one too many."""
        if len(self.waited) < self._most or thing in self.waited:
            return None
        return overloaded(f"{len(self.waited)} {self._what} at the moment")

    def join(self, thing: Hashable) -> None:
        """One more waits for it."""
        self.waited[thing] += 1

    def leave(self, thing: Hashable) -> None:
        """One waits no more."""
        self.waited[thing] -= 1
        if not self.waited[thing]:
            del self.waited[thing]


def refuse_large(requested: int, limit: int, advice: str, *, what: str = "the answer") -> None:
    """Refuse an answer above the limit before anything is allocated."""
    if requested > limit:
        raise too_large(requested, limit, advice, what=what)


def too_large(requested: int, limit: int, advice: str, *, what: str = "the answer") -> Problem:
    detail = f"{what} would take {requested} bytes; the limit is {limit}: {advice}"
    fault = {
        "parameter": "query",
        "code": "too_large",
        "detail": detail,
        "requested": exact(requested),
        "limit": limit,
    }
    return Problem("result-too-large", detail, [fault])
