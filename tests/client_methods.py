"""Makes what the Python client knows of the schemes, from their records.

`python -m tests.client_methods` writes `service/client_names.py`, which the client reads, and
`service/client_methods.pyi`, which type checkers read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.api.parameters import listed_schema, parameters_schema, structured_schema
from service.api.pasted import query_names
from service.engine import SCHEMES
from service.engine.quantities import LONGEST_LIST
from service.engine.scheme import Scheme

SERVICE = Path(__file__).parents[1] / "service"
AnyScheme = Scheme[Any, Any]
FAMILIES = tuple(dict.fromkeys(scheme.family for scheme in SCHEMES))
SHORT = ("encodings", "biases", "masks", "analyses")
SCALARS = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}


def names() -> str:
    """The module of names."""
    lines = [
        '"""The names of the catalogue as the client needs them. Made by `python -m tests.client_methods`."""',
        "",
        "# The arrays of each scheme, which travel in a body.",
        "ARRAYS: dict[str, tuple[str, ...]] = {",
        *(f'    "{_key(scheme)}": {_tuple([array.name for array in scheme.inputs])},' for scheme in SCHEMES),
        "}",
        "# Those of them that are parameters too: a short list of them stands in the address.",
        "LISTS: dict[str, tuple[str, ...]] = {",
        *(f'    "{_key(scheme)}": {_tuple(_both(scheme))},' for scheme in SCHEMES),
        "}",
        "# The families whose schemes go by their name alone.",
        f"SHORT = {_tuple(list(SHORT))}",
        f"MOST_LISTED = {LONGEST_LIST}  # entries of a list in an address",
    ]
    return "\n".join(lines) + "\n"


def _key(scheme: AnyScheme) -> str:
    return f"{scheme.family}/{scheme.name}"


def _both(scheme: AnyScheme) -> list[str]:
    """Arrays that are parameters as well, where a body is not needed for something else anyway."""
    if scheme.needs_body:
        return []
    return [array.name for array in scheme.inputs if array.name in scheme.params.model_fields]


def _tuple(words: list[str]) -> str:
    return "(" + ", ".join(f'"{word}"' for word in words) + ("," if len(words) == 1 else "") + ")"


def methods() -> str:
    """The stub: a class for each family, and the methods that go by a scheme's name alone, for both clients."""
    lines = [
        '"""The methods of the client. Made by `python -m tests.client_methods`."""',
        "",
        "from collections.abc import Mapping, Sequence",
        "from typing import Any, Literal",
        "",
        "from numpy.typing import ArrayLike",
        "",
        "from .client import Answer",
        "",
    ]
    for prefix, awaited in (("", ""), ("Async", "async ")):
        for family in FAMILIES:
            lines += _classes(f"{prefix}{family.capitalize()}", _of(family), awaited)
        alone = ", ".join(f"{prefix}{family.capitalize()}Alone" for family in SHORT)
        lines += [f"class {prefix}Methods({alone}):"]
        lines += [f"    {family}: {prefix}{family.capitalize()}" for family in FAMILIES]
        lines += [""]
    return "\n".join(lines)


def _classes(name: str, schemes: list[AnyScheme], awaited: str) -> list[str]:
    """The schemes that go by their name alone, and the family with those whose name is a family's."""
    rest = [scheme for scheme in schemes if scheme.name in FAMILIES]
    first = [line for scheme in schemes if scheme not in rest for line in _method(scheme, awaited)]
    second = [line for scheme in rest for line in _method(scheme, awaited)] or ["    pass"]
    return [f"class {name}Alone:", *first, "", f"class {name}({name}Alone):", *second, ""]


def _of(family: str) -> list[AnyScheme]:
    return [scheme for scheme in SCHEMES if scheme.family == family]


def _method(scheme: AnyScheme, awaited: str) -> Iterator[str]:
    yield f"    {awaited}def {scheme.name.replace('-', '_')}("
    yield "        self,"
    yield "        *,"
    for name, (kind, needed) in sorted(arguments(scheme).items(), key=lambda each: not each[1][1]):
        yield f"        {name}: {kind}," if needed else f"        {name}: {kind} | None = None,"
    yield "    ) -> Answer:"
    yield f'        """{scheme.title}."""'


def arguments(scheme: AnyScheme) -> dict[str, tuple[str, bool]]:
    """Each argument's type, and whether a call cannot do without it."""
    schema = parameters_schema(scheme)
    found = {
        name: (_type(each), name in schema["required"])
        for name, each in schema["properties"].items()
        if name not in scheme.listed
    }
    found |= dict.fromkeys(structured_schema(scheme, "")[0], ("Sequence[Mapping[str, Any]]", True))
    found |= {name: (_type(each), False) for name, each in listed_schema(scheme).items()}
    found |= {array.name: ("ArrayLike", array.required) for array in scheme.inputs}
    found |= {name: ("str" if name == "layer_type" else "Mapping[str, Any]", False) for name in query_names(scheme)}
    if scheme.presets:
        found["preset"] = (_literal(list(scheme.presets)), False)
    return found | {"tensor": ("str", False), "revision": ("int", False)}


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return _literal(schema["enum"])
    if schema["type"] != "array":
        return SCALARS[schema["type"]]
    return f"Sequence[{SCALARS[schema.get('items', {}).get('type', 'number')]}]"


def _literal(choices: list[str]) -> str:
    return f"Literal[{', '.join(map(repr, choices))}]".replace("'", '"')


MADE = {"client_names.py": names, "client_methods.pyi": methods}

if __name__ == "__main__":
    for file, text in MADE.items():
        (SERVICE / file).write_text(text(), encoding="utf-8")
