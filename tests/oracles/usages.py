"""Which usages of a scheme a test compares with their library.

A test that proves rows of `used_by` says so where it stands, and gets the rows' own parameters to prove them with:

    @proves("encodings/timestep", {"stable-diffusion": "stable_diffusion", "ernie-image": "ernie"})
    def test_a_usage_is_its_librarys(direct, timestep, usage, oracle): ...

A row is called by its preset or by its `who`. What stands beside it, `oracle`, is for the test:
the name of a frozen case, a function of the library, a formula. `test_usages.py` finds the rows that nobody proves.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engine import by_key
from service.engine.scheme import Scheme, Usage

Key = tuple[str, str]

PROVED: dict[Key, set[str]] = {}


def name_of(usage: Usage) -> str:
    """What a usage is called in tests."""
    return usage.preset or usage.who


def usage_of(scheme: Scheme[Any, Any], name: str) -> Usage:
    """The usage of that name; the tests that name one which is gone do not even start."""
    (usage,) = [each for each in scheme.used_by if name in (each.preset, each.who)]
    return usage


def proves(address: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrise a test over usages and what each is compared with, and note that they are compared."""
    family, _, name = address.partition("/")
    scheme = by_key(family, name)
    usages = {row: usage_of(scheme, row) for row in rows}
    PROVED.setdefault(scheme.key, set()).update(map(name_of, usages.values()))
    pairs = [pytest.param(usages[row], oracle, id=row) for row, oracle in rows.items()]
    return pytest.mark.parametrize(("usage", "oracle"), pairs)
