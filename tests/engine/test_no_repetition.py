"""No two scheme files share logic: what two of them compute alike has a place in the engine's shared files."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import service.engine

SHARED_LINES = 6


class _Shape(ast.NodeTransformer):
    """Code without its names and values, so that a copy with other names is still a copy."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name("n", node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.copy_location(ast.Attribute(self.visit(node.value), "a", node.ctx), node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(0), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.copy_location(ast.Constant(0), node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return ast.copy_location(ast.keyword("k", self.visit(node.value)), node)


def _shapes(source: str) -> Iterator[list[str]]:
    """The shape of each function's body, line by line: docstrings and annotations are not logic."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            shape = _Shape().visit(ast.Module(body, []))
            yield [line.strip() for line in ast.unparse(ast.fix_missing_locations(shape)).splitlines()]


def _repeated(sources: dict[str, str]) -> dict[tuple[str, ...], set[str]]:
    """Runs of lines of one shape, and the files that hold them, where they are several."""
    holders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name, source in sources.items():
        for lines in _shapes(source):
            for start in range(len(lines) - SHARED_LINES + 1):
                holders[tuple(lines[start : start + SHARED_LINES])].add(name)
    return {run: names for run, names in holders.items() if len(names) > 1}


def test_no_two_schemes_share_six_lines_of_one_shape() -> None:
    engine = Path(str(service.engine.__file__)).parent
    sources = {str(file): file.read_text() for file in engine.rglob("*.py")}
    schemes = {name: source for name, source in sources.items() if re.search(r"^SCHEME\b", source, re.MULTILINE)}
    assert len(schemes) == len(service.engine.SCHEMES)
    assert _repeated(schemes) == {}


def test_a_copy_with_other_names_is_found() -> None:
    copied = "def {0}(x):\n a = x.{0}\n b = a + 1\n c = b * 2\n if c:\n  a = f(a, {0}=3)\n return a\n"
    assert _repeated({"one": copied.format("first"), "other": copied.format("second")})
