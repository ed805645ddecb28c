"""The examples in the docstrings of the modules around the process run as they are written."""

import doctest
import importlib

import pytest

MODULES = {"command": 1, "get": 1, "main": 1, "settings": 2, "spelling": 5}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = doctest.testmod(importlib.import_module(f"service.{name}"))
    assert result.failed == 0, capsys.readouterr().out
    assert result.attempted >= MODULES[name]
