"""The operations of the schemes in the OpenAPI document, from their records alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from service.api.openapi_parameters import may_be_infinite, parameter_ref, parameters
from service.api.openapi_responses import header_refs, refusals
from service.api.openapi_schemas import body_parameters, pascal
from service.api.openapi_shared import TEXT, Schema, ref
from service.api.schemes import EXTENSIONS, address
from service.api.variations import AnyScheme, example_arrays, parameters_of
from service.api.wanted import statement
from service.engine import SCHEMES
from service.engine.scheme import Example, Usage
from service.formats import FORMATS

BINARY = {"type": "string", "format": "binary"}
MOST_EXAMPLE_VALUES = 64


def scheme_paths() -> Iterator[tuple[str, Schema]]:
    for scheme in SCHEMES:
        for path, kind in ((address(scheme), "json"), (address(scheme) + ".{extension}", "file")):
            item: Schema = {}
            if not scheme.needs_body:
                item["get"] = _get(scheme, kind)
            if scheme.takes_body:
                item["post"] = _post(scheme, kind)
            yield path, item


def operation_id(scheme: AnyScheme, method: str, kind: str) -> str:
    """The plain name of an operation.

    >>> from service.engine import by_key
    >>> operation_id(by_key("encodings", "rope"), "post", "file")
    'encodings_rope_at_file'
    """
    words = [scheme.family, scheme.name.replace("-", "_")]
    words += ["at"] if method == "post" and not scheme.needs_body else []
    words += ["file"] if kind == "file" else []
    return "_".join(words)


def _get(scheme: AnyScheme, kind: str) -> Schema:
    names = [name for name in scheme.params.model_fields if name not in scheme.structured]
    conditional = ["If-None-Match"] + (["Range", "If-Range"] if kind == "file" else [])
    partial = {"206": _partial()} if kind == "file" else {}
    refused = [412, 422, 503, *_unheld(scheme, kind)] + ([404, 416] if kind == "file" else [])
    return {
        **_about(scheme, "get", kind),
        "parameters": [*parameters(scheme, names, kind), *(parameter_ref(name) for name in conditional)],
        "responses": {
            "200": _success(scheme, "get", kind),
            **partial,
            "304": {"$ref": "#/components/responses/NotModified"},
            **refusals(refused),
        },
    }


def _post(scheme: AnyScheme, kind: str) -> Schema:
    refused = [413, 415, 422, 503, *_unheld(scheme, kind)] + ([404] if kind == "file" else [])
    return {
        **_about(scheme, "post", kind),
        "parameters": parameters(scheme, body_parameters(scheme), kind),
        "requestBody": _request_body(scheme),
        "responses": {"200": _success(scheme, "post", kind), **refusals(refused)},
    }


def _unheld(scheme: AnyScheme, kind: str) -> list[int]:
    return [406] if kind == "file" or may_be_infinite(scheme) else []


def _about(scheme: AnyScheme, method: str, kind: str) -> Schema:
    at = f", with {scheme.inputs[0].name} in the body" if method == "post" and not scheme.needs_body else ""
    return {
        "operationId": operation_id(scheme, method, kind),
        "tags": [scheme.family],
        "summary": f"{scheme.title}{at}{', as a file' if kind == 'file' else ''}",
        "description": "\n\n".join(_paragraphs(scheme, method, kind)),
    }


def _paragraphs(scheme: AnyScheme, method: str, kind: str) -> Iterator[str]:
    yield scheme.description
    if kind == "file":
        yield (
            "The extension is the format: `.npy` stacks several tensors of one shape on a leading axis; `.npz` and "
            "`.safetensors` hold all of them by name; `.bin` and `.csv` hold one; `.png` and `.svg` are pictures of "
            "them, with `theme=dark` for dark pages and `picture_width=narrow` for phones."
        )
    usages = [f"- {usage.who}: {_convention(usage)}" for usage in scheme.used_by]
    if usages:
        yield "**Conventions**\n\n" + "\n".join(usages)
    examples = [f"- {each.title}: `{_address(scheme, each, kind)}`" for each in _examples(scheme, method)]
    yield "**Examples**\n\n" + "\n".join(examples)
    yield f"**Reference**: {scheme.reference}. Rounding: {scheme.rounding}."


def _convention(usage: Usage) -> str:
    setting = _setting(usage.parameters)
    return f"`preset={usage.preset}` ({setting})" if usage.preset else setting


def _setting(given: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in given.items()) or "the defaults"


def _examples(scheme: AnyScheme, method: str) -> list[Example]:
    return [each for each in scheme.examples if (each.body is not None) == (method == "post")]


def _address(scheme: AnyScheme, each: Example, kind: str) -> str:
    query = "&".join(f"{name}={value}" for name, value in each.query.items())
    extension = ".safetensors" if kind == "file" else ""
    return address(scheme) + extension + (f"?{query}" if query else "")


# Parameters


# Bodies and answers


def _request_body(scheme: AnyScheme) -> Schema:
    content: Schema = {
        "application/json": {
            "schema": ref(pascal(scheme.family, scheme.name, "body")),
            "examples": {_slug(each): _body_example(each) for each in _examples(scheme, "post")},
        }
    }
    if not scheme.inputs:
        return {"description": "JSON.", "required": True, "content": content}
    first = scheme.inputs[0].name
    names = (" or " if scheme.alternatives else ", ").join(f"`{array.name}`" for array in scheme.inputs)
    return {
        "description": f"JSON; or one npy ({first}) or a safetensors file with {names}, told apart by its first bytes.",
        "required": True,
        "content": content | {"application/octet-stream": {"schema": BINARY}},
    }


def _body_example(each: Example) -> Schema:
    beside = f" (beside {_setting(each.query)} in the query)" if each.query else ""
    return {"summary": each.title, "description": f"{each.title}{beside}.", "value": dict(each.body or {})}


def _slug(each: Example) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in each.title.lower()).split()
    return "-".join(words)


def _success(scheme: AnyScheme, method: str, kind: str) -> Schema:
    named = ["Cache-Control", "Server-Timing"]
    named += ["ETag"] if method == "get" else []
    if kind == "file":
        named += ["Content-Disposition", "Accept-Ranges", "Array-Shape", "Array-Dtype"]
        content = {form.media_type: {"schema": TEXT if _is_text(form.media_type) else BINARY} for form in _files()}
    else:
        content = {"application/json": _json_content(scheme, method)}
    description = "The file." if kind == "file" else "The tensors, and the convention they are in."
    return {"description": description, "headers": header_refs(*named), "content": content}


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type.endswith("+xml")


def _files() -> list[Any]:
    return [FORMATS[extension] for extension in EXTENSIONS]


def _json_content(scheme: AnyScheme, method: str) -> Schema:
    content: Schema = {"schema": ref(pascal(scheme.family, scheme.name, "answer"))}
    answers = {_slug(each): answer for each in _examples(scheme, method) if (answer := _answered(scheme, each))}
    return content | ({"examples": answers} if answers else {})


def _answered(scheme: AnyScheme, each: Example) -> Schema | None:
    """What the service answers to an example, where that is short enough to be read."""
    inputs = example_arrays(each)
    params = scheme.params.model_validate(parameters_of(scheme, each))
    tensors = scheme.tensors(params, inputs)
    if sum(tensor.rows * tensor.width for tensor in tensors.values()) > MOST_EXAMPLE_VALUES:
        return None
    params = scheme.resolve(params, inputs)
    state = scheme.prepare(params, inputs)
    written = FORMATS["json"].stream(
        statement(scheme, params, inputs),
        tensors,
        lambda name, start, stop: scheme.rows(params, inputs, state, name, start, stop),
    )
    return {"summary": each.title, "value": orjson.loads(b"".join(written))}


def _partial() -> Schema:
    named = ("ETag", "Cache-Control", "Content-Range", "Accept-Ranges", "Content-Disposition")
    return {
        "description": "The bytes that `Range` asks for.",
        "headers": header_refs(*named),
        "content": {"application/octet-stream": {"schema": BINARY}},
    }
