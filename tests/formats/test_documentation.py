"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import service.formats

MODULES = [each.name for each in pkgutil.walk_packages(service.formats.__path__, "service.formats.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    count = sum(len(found.examples) for name in MODULES for found in finder.find(importlib.import_module(name)))
    assert count >= 10
