"""The examples in the docstrings of the models room are true."""

import doctest
import importlib
import pkgutil

import pytest

import service.models

MODULES = [name for _, name, _ in pkgutil.walk_packages(service.models.__path__, "service.models.")]


@pytest.mark.parametrize("name", ["service.models", *MODULES])
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
