"""The Open Inference Protocol, version 2, at `/v2`: what KServe, Triton and Seldon clients speak.

Each scheme is a model, `{family}.{scheme}`, whose version is its revision. Its parameters travel as request parameters,
or as input tensors of their name (BYTES, integers, floats); the caller's arrays are input tensors, its tensors outputs.
Tensors travel as JSON or, by the binary tensor extension, as bytes. Refusals are the protocol's `{"error": ...}`.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import numpy as np
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service import __version__
from service.api.bodies import JSON, read_body, take_objects
from service.api.caching import encoded
from service.api.documents import fixed_json
from service.api.health import HEADERS
from service.api.inference_reply import NAMES, Reply
from service.api.inference_request import Inference, Scalar, Values, read_inference
from service.api.limits import Share
from service.api.problems import Problem, echo, unknown_name
from service.api.query import read_asked, with_structured
from service.api.replies import Bytes, Streamed
from service.api.resources import Resources
from service.api.variations import example_arrays, variations
from service.api.wanted import Wanted, block_bytes, understand
from service.engine import SCHEMES
from service.engine.quantities import LONGEST_LIST
from service.engine.scheme import Input, Scheme
from service.formats.json_reader import read_json

AnyScheme = Scheme[Any, Any]
MODELS = {f"{scheme.family}.{scheme.name}": scheme for scheme in SCHEMES}
EXTENSIONS = ("binary_tensor_data", "parameters", "model_repository")
BINARY = "application/octet-stream"
LENGTH = "Inference-Header-Content-Length"
# Arrays that are whole numbers as a rule; the others are floats.
WHOLE = ("positions", "from_positions", "input_ids", "segment_ids", "segment_lengths", "cu_seqlens")
# What Triton's clients may send of scheduling, which nothing here depends on.
IGNORED = ("priority", "timeout")


def install(app: FastAPI, resources: Resources) -> None:
    """Add the protocol's routes; a version in a path is the scheme's revision."""

    async def ready(_request: Request) -> Response:
        problem = resources.readiness.not_ready(app.state.draining)
        if problem is not None:
            raise problem
        return _status({"live": True, "ready": True})

    async def live(_request: Request) -> Response:
        return _status({"live": True})

    async def model_ready(request: Request) -> Response:
        _model(request)
        return _status({"name": request.path_params["model"], "ready": True})

    async def metadata(request: Request) -> Response:
        name, scheme = request.path_params["model"], _model(request)
        return _status(await resources.work(lambda: model(name, scheme)))

    async def infer(request: Request) -> Response:
        return await _infer(request, _model(request), resources)

    async def index(_request: Request) -> Response:
        return _status(repository())

    routes: list[tuple[str, str, Callable[[Request], Any]]] = [
        ("GET", "/v2/health/live", live),
        ("GET", "/v2/health/ready", ready),
        ("GET", "/v2/models/{model}/ready", model_ready),
        ("GET", "/v2/models/{model}/versions/{version}/ready", model_ready),
        ("GET", "/v2/models/{model}", metadata),
        ("GET", "/v2/models/{model}/versions/{version}", metadata),
        ("POST", "/v2/models/{model}/infer", infer),
        ("POST", "/v2/models/{model}/versions/{version}/infer", infer),
        ("POST", "/v2/repository/index", index),
    ]
    for method, path, answer in routes:
        app.router.add_route(path, answer, methods=[method])
    fixed = {"/v2": server(), "/v2/models": {"models": list(MODELS)}}
    for path, document in fixed.items():
        app.router.add_route(path, _document(document), methods=["GET"])


def _document(document: Mapping[str, Any]) -> Callable[[Request], Any]:
    made = fixed_json(document)

    async def answer(request: Request) -> Response:
        return made.answer(request)

    return answer


def _status(document: Any) -> Response:
    body = fixed_json(document).content
    return Bytes(200, encoded([*HEADERS, ("Content-Length", str(len(body)))]), body)


# What there is


def server() -> dict[str, Any]:
    """What the server says of itself."""
    return {"name": "posenc", "version": __version__, "extensions": list(EXTENSIONS)}


def repository() -> list[dict[str, str]]:
    """Every model, as the model repository extension lists them."""
    return [
        {"name": name, "version": str(scheme.revision), "state": "READY", "reason": ""}
        for name, scheme in MODELS.items()
    ]


def model(name: str, scheme: AnyScheme) -> dict[str, Any]:
    """What the protocol tells of a model; -1 stands for every length. Other datatypes and numbers of axes do where
    the scheme takes them: the protocol has no way to say so.

    >>> model("biases.alibi-slopes", MODELS["biases.alibi-slopes"])["outputs"]
    [{'name': 'slopes', 'datatype': 'FP32', 'shape': [-1]}]
    """
    return {
        "name": name,
        "versions": [str(scheme.revision)],
        "platform": "posenc",
        "inputs": _inputs(scheme),
        "outputs": _outputs(scheme),
    }


def _inputs(scheme: AnyScheme) -> list[dict[str, Any]]:
    shown: dict[str, Any] = {}
    for example in scheme.examples:
        shown |= example_arrays(example)
    found: list[dict[str, Any]] = [{"name": name, "datatype": "BYTES", "shape": [1]} for name in scheme.structured]
    return found + [
        {"name": array.name, "datatype": _datatype(array), "shape": _shape(shown, array.name)}
        for array in scheme.inputs
    ]


def _datatype(array: Input) -> str:
    return "BOOL" if array.values == "flags" else "INT64" if array.name in WHOLE else "FP32"


def _shape(shown: Mapping[str, Any], name: str) -> list[int]:
    return [-1] * (shown[name].ndim if name in shown else 1)


def _outputs(scheme: AnyScheme) -> list[dict[str, Any]]:
    found: dict[str, Any] = {}
    for tensors in variations(scheme):
        found = {**tensors, **found}
    return [
        {"name": name, "datatype": NAMES[spec.dtype], "shape": [-1] * len(spec.shape)} for name, spec in found.items()
    ]


def _model(request: Request) -> AnyScheme:
    name, version = request.path_params["model"], request.path_params.get("version")
    if name not in MODELS:
        fault = unknown_name("model", name, MODELS, what=f"there is no model {echo(name)}")
        raise Problem("not-found", fault["detail"], [fault])
    scheme = MODELS[name]
    if version not in (None, str(scheme.revision)):
        raise Problem("not-found", f"{name} has no version {echo(version)}; this build computes {scheme.revision}")
    return scheme


# Inference


async def _infer(request: Request, scheme: AnyScheme, resources: Resources) -> Response:
    _refuse_type(request)
    share = Share(resources.budget)
    length = request.headers.get(LENGTH)
    try:
        body = await read_body(request, JSON if length is None else BINARY, resources.body, share)
        # JSON becomes Python objects; of a binary body only the part before the tensors does.
        text = len(body) if length is None or not length.isdecimal() else min(int(length[:18]), len(body))
        await take_objects(memoryview(body)[:text], share, resources.work)
        name = request.path_params["model"]
        reply = await resources.work(lambda: understood(name, scheme, read_inference(body, length), resources))
        share.take(2 * reply.text_bytes + block_bytes(reply.wanted))
        head = await resources.work(reply.timing.on_pool(reply.head))
    except BaseException:
        share.give_back()
        raise
    binary = [(LENGTH, str(len(head)))] if reply.has_binary else []
    headers = [
        ("Content-Type", BINARY if reply.has_binary else JSON),
        ("Cache-Control", "no-store"),
        ("Content-Length", str(len(head) + reply.binary_bytes)),
        *binary,
    ]
    return Streamed(200, encoded(headers), reply.chunks(head), share, resources, reply.timing)


def _refuse_type(request: Request) -> None:
    """Clients of the protocol often name no type: the length header says what the body is."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Problem("unsupported-media-type", f"Content-Encoding is {echo(coding)}; send the body as it is")
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind not in (JSON, BINARY):
        raise Problem("unsupported-media-type", f"Content-Type is {echo(kind)}; {JSON} or {BINARY} would do")


def understood(name: str, scheme: AnyScheme, asked: Inference, resources: Resources) -> Reply:
    """Everything that can be refused before any work."""
    arrays, stated = _sorted_inputs(scheme, asked)
    structured = {
        key: _structured(scheme, key, stated.pop(key)) for key in list(stated) if _in_body(scheme, stated, key)
    }
    wanted = _wanted(scheme, arrays, {key: _text(value) for key, value in stated.items()}, structured, resources)
    return Reply(name, asked, wanted, resources)


def _wanted(
    scheme: AnyScheme, arrays: dict[str, Any], query: dict[str, str], structured: dict[str, Any], resources: Resources
) -> Wanted:
    present = {*arrays, *structured}
    required = [*scheme.structured, *(array.name for array in scheme.inputs if array.required)]
    missing = [key for key in required if key not in present]
    if scheme.alternatives and not present:
        missing = [scheme.inputs[0].name]
    if missing:
        detail = f"the input {missing[0]} is missing"
        raise Problem("invalid-parameters", detail, [{"parameter": missing[0], "code": "missing", "detail": detail}])
    read = read_asked(scheme, urlencode(query).encode(), blocks=())
    return understand(scheme, with_structured(scheme, read, structured), "safetensors", arrays, resources)


def _sorted_inputs(scheme: AnyScheme, asked: Inference) -> tuple[dict[str, Any], dict[str, Scalar | Values]]:
    """The caller's arrays; and the parameters of the request, with inputs that are parameters among them."""
    arrays = [array.name for array in scheme.inputs]
    taken = list(dict.fromkeys([*arrays, *scheme.params.model_fields]))
    stated: dict[str, Scalar | Values] = {key: value for key, value in asked.parameters.items() if key not in IGNORED}
    found: dict[str, Any] = {}
    for key, values in asked.inputs.items():
        if key in arrays:
            if isinstance(values, list):
                raise _refused(key, f"the input {key} holds numbers, not BYTES")
            found[key] = values
        elif key in stated:
            raise _refused(key, f"{key} is a parameter and an input; give it once")
        elif key not in taken:
            raise _unknown_input(scheme, key, taken)
        elif (count := _count(values)) > LONGEST_LIST and not (key in scheme.listed and isinstance(values, list)):
            raise _refused(key, f"the parameter {key} has {count} values; at most {LONGEST_LIST} are read")
        else:
            stated[key] = values
    return found, stated


def _count(values: Values) -> int:
    return values.size if isinstance(values, np.ndarray) else len(values)


def _unknown_input(scheme: AnyScheme, key: str, known: list[str]) -> Problem:
    fault = unknown_name(echo(key), key, known, what=f"{echo(key)} is no input of {scheme.family}.{scheme.name}")
    return Problem("invalid-parameters", fault["detail"], [fault])


def _in_body(scheme: AnyScheme, stated: Mapping[str, Scalar | Values], key: str) -> bool:
    """Whether a parameter is more than an address could say: a structure, or a long list."""
    value = stated[key]
    return key in scheme.structured or (key in scheme.listed and isinstance(value, list) and len(value) > LONGEST_LIST)


def _structured(scheme: AnyScheme, key: str, value: Scalar | Values) -> Any:
    if key in scheme.listed:
        return value
    texts = value if isinstance(value, list) else [value]
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise _refused(key, f"{key} is JSON in one string")
    return read_json(texts[0].encode())


def _text(value: Scalar | Values) -> str:
    """A parameter as an address spells it."""
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else value if isinstance(value, list) else [value]
    return ",".join({True: "true", False: "false"}[each] if isinstance(each, bool) else str(each) for each in items)


def _refused(key: str, detail: str) -> Problem:
    return Problem("invalid-parameters", detail, [{"parameter": key, "code": "type", "detail": detail}])
