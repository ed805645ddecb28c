"""What of the OpenAPI document would break a client of the last released one.

`python -m tests.breaking` makes the present document the released one (openapi/released.json, with neither prose nor
examples): at a release, or for a change that breaks clients on purpose, which the version and CHANGELOG.md then tell.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "openapi"
RELEASED = FOLDER / "released.json"
PROSE = ("description", "summary", "example", "examples", "tags", "title", "license", "servers")
# Bounds that a request must keep: a client may send what lies between the released ones.
AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# Not const: a revision that is another one is refused by design, which is what a pinned address is for.
SAME = ("pattern", "format", "default", "propertyNames")

Schema = Mapping[str, Any]


class Document:
    """An OpenAPI document whose references can be followed."""

    def __init__(self, content: Schema) -> None:
        self.content = content

    def resolved(self, node: Any) -> Any:
        """The node, or what it refers to together with what stands beside the reference."""
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        found: Any = self.content
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return {**self.resolved(found), **{key: value for key, value in node.items() if key != "$ref"}}

    def operations(self) -> dict[str, Schema]:
        return {
            f"{method.upper()} {path}": operation
            for path, item in self.content["paths"].items()
            for method, operation in item.items()
        }


def breaking(old: Schema, new: Schema) -> list[str]:
    """Every change that a client of `old` would notice as a fault, one line each."""
    before, after = Document(old), Document(new)
    found: list[str] = []
    now = after.operations()
    for name, operation in before.operations().items():
        if name not in now:
            found.append(f"{name}: the operation is gone")
            continue
        if operation["operationId"] != now[name]["operationId"]:
            found.append(f"{name}: operationId, which names a generated method, was {operation['operationId']}")
        found += [f"{name}: {fault}" for fault in _parameters(before, after, operation, now[name])]
        found += [f"{name}: {fault}" for fault in _bodies(before, after, operation, now[name])]
        found += [f"{name}: {fault}" for fault in _answers(before, after, operation, now[name])]
    return found


def _parameters(before: Document, after: Document, old: Schema, new: Schema) -> Iterator[str]:
    was, now = _by_name(before, old), _by_name(after, new)
    for key, parameter in was.items():
        if key not in now:
            yield f"the parameter {key} is gone"
            continue
        if now[key].get("required") and not parameter.get("required"):
            yield f"the parameter {key} became required"
        yield from _asked(before, after, parameter["schema"], now[key]["schema"], key)
    for key in now.keys() - was.keys():
        if now[key].get("required"):
            yield f"the new parameter {key} is required"


def _by_name(document: Document, operation: Schema) -> dict[str, Any]:
    found = [document.resolved(each) for each in operation.get("parameters", [])]
    return {f"{each['in']} {each['name']}": each for each in found}


def _bodies(before: Document, after: Document, old: Schema, new: Schema) -> Iterator[str]:
    was, now = (each.get("requestBody", {}).get("content", {}) for each in (old, new))
    if now and not was:
        yield "a body became required"
    for media_type, content in was.items():
        if media_type not in now:
            yield f"a body of {media_type} is no longer taken"
        else:
            yield from _asked(before, after, content["schema"], now[media_type]["schema"], "the body")


def _answers(before: Document, after: Document, old: Schema, new: Schema) -> Iterator[str]:
    for status, given in old["responses"].items():
        if not status.startswith("2"):
            continue
        if status not in new["responses"]:
            yield f"the answer {status} is gone"
            continue
        was, now = before.resolved(given), after.resolved(new["responses"][status])
        for header in was.get("headers", {}).keys() - now.get("headers", {}).keys():
            yield f"the header {header} of {status} is gone"
        for media_type, content in was.get("content", {}).items():
            if media_type not in now.get("content", {}):
                yield f"the answer {status} is no longer {media_type}"
            else:
                yield from _told(before, after, content["schema"], now["content"][media_type]["schema"], "the answer")


def _asked(before: Document, after: Document, old: Any, new: Any, where: str) -> Iterator[str]:
    """A request schema must go on taking what it took."""
    old, new = before.resolved(old), after.resolved(new)
    yield from _type(old, new, where, wider=True)
    if "enum" in new:
        gone = set(old.get("enum", ())) - set(new["enum"]) if "enum" in old else {"any value"}
        yield from (f"{where} no longer takes {value}" for value in sorted(gone, key=str))
    for bound in (*AT_LEAST, *AT_MOST):
        sign = 1 if bound in AT_LEAST else -1
        if bound in new and (bound not in old or sign * old[bound] < sign * new[bound]):
            yield f"{where}: {bound} was {old.get(bound, 'none')} and is {new[bound]}"
    yield from (
        f"{where}: {word} was {old.get(word)} and is {new.get(word)}"
        for word in SAME
        if old.get(word) != new.get(word) and (word in old or word != "default")
    )
    properties = new.get("properties", {})
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{where}/{name} became required"
    for name, schema in old.get("properties", {}).items():
        if name in properties:
            yield from _asked(before, after, schema, properties[name], f"{where}/{name}")
        elif new.get("additionalProperties") is False:
            yield f"{where}/{name} is no longer taken"
    if "items" in old and "items" in new:
        yield from _asked(before, after, old["items"], new["items"], f"{where}[]")


def _told(before: Document, after: Document, old: Any, new: Any, where: str) -> Iterator[str]:
    """An answer must go on holding what it held."""
    old, new = before.resolved(old), after.resolved(new)
    yield from _type(old, new, where, wider=False)
    properties = new.get("properties", {})
    for name, schema in old.get("properties", {}).items():
        if name not in properties:
            yield f"{where}/{name} is gone"
        else:
            yield from _told(before, after, schema, properties[name], f"{where}/{name}")
    for name in sorted(set(old.get("required", ())) - set(new.get("required", ()))):
        yield f"{where}/{name} may be missing"
    if "items" in old and "items" in new:
        yield from _told(before, after, old["items"], new["items"], f"{where}[]")


def _type(old: Schema, new: Schema, where: str, *, wider: bool) -> Iterator[str]:
    """Types may grow in requests and shrink in answers; a number takes integers."""
    was, now = (_types(each) for each in (old, new))
    broken = bool(now) and not was <= now if wider else bool(was) and not now <= was
    if broken or (not was and now and wider) or (was and not now and not wider):
        yield f"{where} was {_listed(was)} and is {_listed(now)}"


def _types(schema: Schema) -> set[str]:
    given = schema.get("type", [])
    found = {given} if isinstance(given, str) else set(given)
    return found | {"integer"} if "number" in found else found


def _listed(types: set[str]) -> str:
    return " or ".join(sorted(types)) or "anything"


def bare(node: Any, of_names: bool = False) -> Any:
    """The document without prose; names of properties and components stay whatever they are."""
    if isinstance(node, list):
        return [bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    named = ("properties", "schemas", "parameters", "headers", "responses", "paths", "content")
    return {key: bare(value, key in named) for key, value in node.items() if of_names or key not in PROSE}


def present() -> Any:
    return json.loads((FOLDER / "openapi.json").read_text(encoding="utf-8"))


def released() -> Any:
    return json.loads(RELEASED.read_text(encoding="utf-8"))


if __name__ == "__main__":
    RELEASED.write_text(json.dumps(bare(present()), separators=(",", ":")) + "\n", encoding="utf-8")
