"""No dependency has a version that is known to be bad: of those locked, installed, or allowed by pyproject.toml.

What builds the package is judged by the locks and by what pyproject.toml asks for: pip builds in an environment of its
own, and an older one that Python itself puts beside the service takes no part.
"""

import re
import tomllib
from importlib.metadata import version

import pytest

from tests.deploy.advisories import ADVISORIES, Advisory
from tests.deploy.dockerfile import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock")
LOCKED = {
    name: dict(re.findall(r"(?m)^([a-z0-9][a-z0-9-]*)==([^ \\]+)", (ROOT / name).read_text(encoding="utf-8")))
    for name in LOCKS
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIRED, BUILDERS = (
    dict(re.findall(r"(?m)^([a-z0-9-]+)>=([0-9.]+)", "\n".join(requirements)))
    for requirements in (PROJECT["project"]["dependencies"], PROJECT["build-system"]["requires"])
)
LEAST = REQUIRED | BUILDERS


def numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text.partition("+")[0])]


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda each: f"{each.package}-{each.name}")
def test_no_version_is_known_to_be_bad(advisory: Advisory) -> None:
    fixed = numbers(advisory.fixed)
    for name in LOCKS:
        assert numbers(LOCKED[name][advisory.package]) >= fixed, name
    if advisory.package in LEAST:
        assert numbers(LEAST[advisory.package]) >= fixed, "pyproject.toml allows a bad version"
    if advisory.package not in BUILDERS:
        assert numbers(version(advisory.package)) >= fixed


def test_the_lists_are_read() -> None:
    assert {"fastapi", "uvicorn", "numpy", "orjson"} <= set(REQUIRED) <= set(LOCKED["requirements.lock"])
    assert set(BUILDERS) == {"setuptools"}
    assert set(LOCKED["requirements.lock"]) <= set(LOCKED["requirements-dev.lock"])
    assert numbers("2026.10.19.post1") > numbers("2024.7.4")
    assert not numbers("0.9") >= numbers("0.16.0")


def test_what_is_locked_for_both_is_one_version() -> None:
    runtime, dev = (LOCKED[name] for name in LOCKS)
    assert {name: dev[name] for name in runtime} == runtime


def test_an_advisory_has_a_name_and_is_listed_once() -> None:
    assert len({(each.package, each.name) for each in ADVISORIES}) == len(ADVISORIES)
    for each in ADVISORIES:
        assert re.fullmatch(r"CVE-20\d\d-\d{4,6}", each.name)
