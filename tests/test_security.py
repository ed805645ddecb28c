"""Every row of the threat table names tests that exist."""

import ast
import re

import pytest

from tests.readme import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TABLE = re.search(r"(?s)<!-- threats -->\n(.*)<!-- /threats -->", TEXT)
assert TABLE is not None
HEAD, RULE, *ROWS = TABLE[1].splitlines()
TESTS = re.findall(r"`(tests/[a-z_/]+\.py)::(\w+)`", TABLE[1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_a_row_says_what_could_happen_what_stands_against_it_and_what_proves_it(row: str) -> None:
    threat, stands, proofs = (cell.strip() for cell in row.strip("|").split("|"))
    assert len(threat) > 10
    assert len(stands) > 10
    assert re.fullmatch(r"`tests/\S+::test_\w+`(, `tests/\S+::test_\w+`)*", proofs)


@pytest.mark.parametrize(("path", "name"), TESTS, ids=lambda part: part.rpartition("/")[2])
def test_the_named_test_exists(path: str, name: str) -> None:
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    assert name in {each.name for each in body if isinstance(each, ast.FunctionDef)}


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 20
    assert len(TESTS) >= len(ROWS)
