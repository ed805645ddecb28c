"""Every usage that a record claims is compared with its library by a test that names it (`tests/oracles/usages.py`)."""

from importlib import import_module
from pathlib import Path

import pytest

from service.engine import SCHEMES
from tests.oracles.usages import PROVED, name_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/oracles", "tests/engine")
ROWS = [(scheme.key, name_of(usage)) for scheme in SCHEMES for usage in scheme.used_by]


@pytest.fixture(scope="module")
def proved() -> dict[tuple[str, str], set[str]]:
    """What the tests say they prove: all of them are imported, whichever were asked to run."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("test_*.py")):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return PROVED


@pytest.mark.parametrize(("key", "row"), ROWS, ids=[f"{'/'.join(key)}: {row}" for key, row in ROWS])
def test_a_test_compares_it_with_its_library(
    proved: dict[tuple[str, str], set[str]], key: tuple[str, str], row: str
) -> None:
    assert row in proved.get(key, set())
