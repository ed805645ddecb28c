"""Every operation of the document can be tried out as Swagger UI fills its form in: the examples, nothing else."""

from typing import Any
from urllib.parse import quote

import orjson
import pytest

from service.api.docs import committed
from tests.api.schema import resolved
from tests.clients import Client

DOCUMENT: dict[str, Any] = orjson.loads(committed())
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}
# An index of the repository takes an empty object or nothing at all.
EMPTY: dict[str, Any] = {}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_answers_what_its_form_asks_for(name: str, direct: Client) -> None:
    path, method, operation = OPERATIONS[name]
    query: dict[str, str] = {}
    for parameter in (resolved(DOCUMENT, each) for each in operation.get("parameters", ())):
        value = shown(parameter)
        if value is None:
            assert not parameter.get("required"), parameter["name"]
        elif parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe=""))
        elif parameter["in"] == "query":
            query[parameter["name"]] = value
    kind, body = sent(operation)
    headers = {"Content-Type": kind} if body is not None else {}
    answer = direct.request(method.upper(), path, params=query, content=body, headers=headers)
    assert answer.status_code == 200, answer.text


def shown(parameter: dict[str, Any]) -> str | None:
    """What the form holds for a parameter before anything is typed; a choice that must be made is the first."""
    schema = resolved(DOCUMENT, parameter["schema"])
    examples = parameter.get("examples", {})
    value = parameter.get("example", next((each["value"] for each in examples.values()), schema.get("default")))
    if value is None and parameter.get("required"):
        value = next(iter(schema.get("enum", ())), None)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def sent(operation: dict[str, Any]) -> tuple[str, bytes | None]:
    """The first kind of body with its first example."""
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return "", None
    kind, told = next(iter(content.items()))
    examples = told.get("examples", {})
    value = told.get("example", next((resolved(DOCUMENT, each)["value"] for each in examples.values()), EMPTY))
    return kind, orjson.dumps(value)
