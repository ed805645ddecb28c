"""JSON bodies that hypothesis draws: documents of any shape whose names are those that the service knows, whole or in
the place of one value of a valid document."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.bodies import JSON, documents, written
from tests.hostile.called import Sent, called

Document = tuple[bytes, bytes, Any]


def names_in(value: Any) -> set[str]:
    """Every name of the document, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    return set()


def values(names: list[str]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.sampled_from(names)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=9) | st.dictionaries(st.sampled_from(names) | st.text(), inner, max_size=5)
        ),
        max_leaves=30,
    )


def run(cases: int) -> Counter[int]:
    """So many documents, the same each time."""
    kinds = documents()
    known = sorted({name for kind in kinds.values() for _, _, document in kind for name in names_in(document)})

    with called() as service:

        @settings(
            max_examples=cases, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(st.sampled_from(sorted(kinds)), st.randoms(use_true_random=False), values(known))
        def send(kind: str, draw: Any, value: Any) -> None:
            path, query, document = draw.choice(kinds[kind])
            service.ask(Sent("POST", path, query, JSON, written(placed(document, value, draw))))

        send()
        return service.seen


def placed(document: Any, value: Any, draw: Any) -> Any:
    """The document with that value somewhere in it, or in its place."""
    if not isinstance(document, dict | list) or not document or draw.random() < 0.3:
        return value
    key = draw.choice(list(document) if isinstance(document, dict) else range(len(document)))
    inside = placed(document[key], value, draw)
    if isinstance(document, dict):
        return document | {key: inside}
    return [*document[:key], inside, *document[key + 1 :]]
