"""The parameters' validators are built when first used, which saves some 65 ms of the start: once, whichever
thread comes first.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from service.engine import SCHEMES
from service.engine.scheme import Params

THREADS = 8


def fresh() -> type[Params]:
    """Parameters whose validators nobody has built."""

    class Fresh(Params):
        length: Annotated[int, Field(ge=1)]
        layout: Literal["a", "b"] = "a"

    return Fresh


def test_nothing_is_built_before_it_is_used() -> None:
    model = fresh()
    assert not model.__pydantic_complete__
    assert model.model_validate({"length": 3}).model_dump() == {"length": 3, "layout": "a"}
    assert model.__pydantic_complete__


@pytest.mark.parametrize("turn", range(20))
def test_the_first_use_may_be_that_of_many_threads(turn: int) -> None:
    model, barrier = fresh(), Barrier(THREADS)

    def use(number: int) -> object:
        barrier.wait()
        if number % 3 == 0:
            return model.model_json_schema()["properties"]["length"]["minimum"]
        if number % 3 == 1:
            return model.model_validate({"length": number + turn}).model_dump()
        with pytest.raises(ValidationError) as refusal:
            model.model_validate({"length": 0, "layout": "c", "x": 1})
        return refusal.value.error_count()

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(use, range(THREADS)))
    for number, each in enumerate(found):
        assert each == [1, {"length": number + turn, "layout": "a"}, 3][number % 3]


def test_every_scheme_can_be_built() -> None:
    for scheme in SCHEMES:
        scheme.params.model_rebuild()
        assert scheme.params.__pydantic_complete__
