"""Refusals as RFC 9457 problem documents: one shape at every door.

`problem_from` is the one place where an exception gets its status. A problem
repeats at most 64 characters of what was sent, lists at most 20 faults and stays under 8 KB.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from service.access import redacted
from service.api.names import nearest_names
from service.api.problem_types import PROBLEMS
from service.engine.errors import Refusal
from service.formats.errors import CannotHold, Unreadable, pointer_to
from service.formats.errors import echo as echo_any

MOST_ERRORS = 20
MOST_LISTED = 24
MOST_BYTES = 8 * 1024
ECHOED = 64
MEDIA_TYPE = b"application/problem+json"


class Problem(Exception):
    """A refusal on its way to the caller."""

    def __init__(
        self,
        slug: str,
        detail: str,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = redacted(detail)
        self.errors = errors
        self.headers = headers or {}

    @property
    def status(self) -> int:
        return PROBLEMS[self.slug].status

    def body(self, request_id: str) -> bytes:
        """The document. Faults beyond the first 20, or beyond 8 KB, are left out."""
        kind = PROBLEMS[self.slug]
        errors = list(self.errors[:MOST_ERRORS])
        while True:
            document = {
                "type": f"/problems/{kind.slug}",
                "title": kind.title,
                "status": kind.status,
                "detail": self.detail[:1024],
                "instance": request_id,
                "errors": errors,
            }
            text = redacted(orjson.dumps(document).decode()).encode()
            if len(text) <= MOST_BYTES or not errors:
                return text
            errors = errors[: len(errors) // 2]


class Standing(Problem):
    """A refusal that is told again and again: its document is written once, all but the request's id."""

    _MARK = "{instance}"

    def __init__(self, slug: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(slug, detail, headers=headers)
        self._before, _, self._after = super().body(self._MARK).partition(self._MARK.encode())

    def body(self, request_id: str) -> bytes:
        """The document. A request's id has no character that JSON escapes."""
        return self._before + request_id.encode() + self._after


def problem_from(error: Exception) -> Problem | None:
    """The status of a domain error: the one table from exceptions to problems."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Refusal):
        return from_refusal(error)
    if isinstance(error, CannotHold):
        return Problem(
            "not-acceptable",
            error.detail,
            [{"parameter": "extension", "code": error.code, "detail": error.detail}],
        )
    if isinstance(error, Unreadable):
        place = {"pointer": error.pointer} if error.pointer is not None else {"parameter": "body"}
        slug = "invalid-parameters" if error.pointer is not None else "bad-request"
        return Problem(slug, error.detail, [{**place, "code": error.code, "detail": error.detail}])
    return None


def from_refusal(error: Refusal) -> Problem:
    """What the engine refuses."""
    faults = []
    for fault in error.faults:
        place = "pointer" if fault.parameter.startswith("/") else "parameter"
        entry: dict[str, Any] = {place: fault.parameter, "code": fault.code, "detail": fault.detail}
        entry |= {key: value for key in ("requested", "limit") if (value := getattr(fault, key)) is not None}
        faults.append(entry)
    return Problem("invalid-parameters", faults[0]["detail"], faults)


def from_validation(error: ValidationError, model: type[BaseModel]) -> Problem:
    """pydantic's findings in our words: what was given (shortened), what would do."""
    faults = [_fault(entry, model) for entry in _findings(error)]
    return Problem("invalid-parameters", faults[0]["detail"], faults)


def from_body_validation(error: ValidationError, document: Mapping[str, object]) -> Problem:
    """The same for parameters that a JSON body states, each with its place there."""
    faults = [_fault_in_body(entry, document) for entry in _findings(error)]
    return Problem("invalid-parameters", faults[0]["detail"], faults)


def _findings(error: ValidationError) -> list[Any]:
    """The first of pydantic's findings, without those that a list is too short whose entries are what is wrong."""
    found = error.errors(include_url=False)
    faulty = {entry["loc"][:depth] for entry in found for depth in range(len(entry["loc"]))}
    return [entry for entry in found if entry["type"] != "too_short" or entry["loc"] not in faulty][:MOST_ERRORS]


# What pydantic finds in a JSON body, and what we say of it: a code, and words that never repeat the input.
_IN_BODY = {
    "missing": ("missing", "this name is missing: it is required"),
    "extra_forbidden": ("unknown", "this name is not known here"),
    "union_tag_not_found": ("missing", "an object that names its type is needed"),
    "model_attributes_type": ("type", "a JSON object is needed"),
    "tuple_type": ("type", "a list is needed"),
    "int_type": ("type", "an integer is needed"),
    "float_type": ("type", "a number is needed"),
    "string_type": ("type", "a string is needed"),
}
_OF_UNIONS = ("union_tag_not_found", "union_tag_invalid")


def _fault_in_body(entry: Any, document: Mapping[str, object]) -> dict[str, Any]:
    kind, context = entry["type"], entry.get("ctx") or {}
    steps = steps_within(entry["loc"], document)
    place = pointer_to(*steps, *([context["discriminator"].strip("'")] if kind in _OF_UNIONS else []))
    if kind == "union_tag_invalid":
        choices = context["expected_tags"].replace("'", "").split(", ")
        what = f"this is {echo(context['tag'])}"
        return unknown_name(place, str(context["tag"]), choices, what=what, place="pointer", code="choice")
    code, words = _IN_BODY.get(kind, (_code(kind), ""))
    must = _counted(entry) or entry["msg"].replace("Input should be", "it must be")
    return {"pointer": place, "code": code, "detail": words or f"this is {echo_any(entry['input'])}; {must}"}


def steps_within(loc: Iterable[int | str], document: object) -> list[int | str]:
    """The keys and indices of pydantic's location that lead into the document: it names branches of unions as well.

    >>> steps_within(("segments", 0, "image", "grid", 2), {"segments": [{"grid": [1, 4]}]})
    ['segments', 0, 'grid', 2]
    """
    steps: list[int | str] = []
    *before, last = loc
    here: Any = document
    for step in before:
        inside = step in here if isinstance(here, dict) else isinstance(here, list) and isinstance(step, int)
        if inside:
            here = here[step]
            steps.append(step)
    return [*steps, last]


def _fault(entry: Any, model: type[BaseModel]) -> dict[str, Any]:
    name = str(entry["loc"][0]) if entry["loc"] else "query"
    context = entry.get("ctx") or {}
    kind = entry["type"]
    if kind == "missing":
        return {"parameter": name, "code": "missing", "detail": f"{name} is missing: it is required"}
    given = f"{_entry(entry['loc'], name)} is {echo(entry['input'])}"
    if kind == "literal_error":
        choices = [part.strip(" '") for part in context["expected"].replace(" or ", ", ").split(", ")]
        return unknown_name(name, str(entry["input"]), choices, what=given, place="parameter", code="choice")
    code, words = _IN_BODY.get(kind, (_code(kind), ""))
    fault = {
        "parameter": name,
        "code": code,
        "detail": f"{given}; {words or _counted(entry) or _would_do(kind, entry['msg'], model, name)}",
    }
    limit = next((context[key] for key in ("ge", "gt", "le", "lt", "limit") if key in context), None)
    return fault | ({} if limit is None else {"limit": limit})


def _entry(place: Sequence[int | str], name: str) -> str:
    """What a fault is about: the parameter, or one entry of a list."""
    return f"entry {place[1]} of {name}" if len(place) > 1 else name


def _code(kind: str) -> str:
    return "out_of_range" if kind.startswith(("greater_than", "less_than")) else kind


def _counted(entry: Any) -> str:
    """What would do in place of a list with too few entries or too many; of other faults, nothing."""
    context = entry.get("ctx") or {}
    if "actual_length" not in context:
        return ""
    few = "min_length" in context
    count = context["min_length" if few else "max_length"]
    return f"{'at least' if few else 'at most'} {count} {'entry is' if count == 1 else 'entries are'} needed"


def _would_do(kind: str, message: str, model: type[BaseModel], name: str) -> str:
    if not kind.startswith(("greater_than", "less_than")):
        return message
    bounds = _bounds(model, name)
    return f"it must be {bounds}" if bounds else message.replace("Input should be", "it must be")


def _bounds(model: type[BaseModel], name: str) -> str:
    """The whole range of a field in words: `at least 1 and at most 65536`."""
    words = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
    found = [
        f"{word} {getattr(constraint, key):g}"
        if isinstance(getattr(constraint, key), float)
        else f"{word} {getattr(constraint, key)}"
        for key, word in words.items()
        for constraint in _constraints(model.model_fields[name])
        if getattr(constraint, key, None) is not None
    ]
    return " and ".join(found)


def _constraints(field: FieldInfo) -> list[Any]:
    """The constraints of a field; those of an optional one stand within its union."""
    within = [part for member in get_args(field.annotation) for part in getattr(member, "__metadata__", ())]
    return [
        constraint
        for part in [*field.metadata, *within]
        for constraint in (part.metadata if isinstance(part, FieldInfo) else [part])
    ]


def precondition_failed() -> Problem:
    return Problem("precondition-failed", "If-Match names another ETag than this answer has")


def unknown_name(
    parameter: str,
    given: str,
    known: Iterable[str],
    *,
    what: str,
    place: str = "parameter",
    code: str = "unknown",
) -> dict[str, Any]:
    """A fault for a name that is not known, with the known ones, or the nearest of too many to list."""
    names = list(known)
    near = nearest_names(given, names)
    fault: dict[str, Any] = {place: parameter, "code": code, "detail": f"{what}; {_listed(names, near)}"}
    if near:
        fault["did_you_mean"] = near[0]
    return fault


def _listed(names: Sequence[str], near: Sequence[str]) -> str:
    """The names that would do: all of them, or the nearest of too many, or the first of those."""
    if near and len(names) > MOST_LISTED:
        return f"nearest are {', '.join(near)}"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"known are {', '.join(names[:MOST_LISTED])}{more}"


def echo(value: object) -> str:
    """What was sent, as a message may repeat it: at most 64 printable characters."""
    text = "".join(character if character.isprintable() else "?" for character in str(value)[: ECHOED + 1])
    return text if len(text) <= ECHOED else text[: ECHOED - 1] + "…"
