"""Every example in the engine's docstrings runs and says what it gives."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import service.engine

MODULES = [module.name for module in pkgutil.walk_packages(service.engine.__path__, "service.engine.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
