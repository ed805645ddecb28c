"""`/v1/advice`: which scheme to use for stated needs, with the reasons and the properties that decide."""

from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from service.api.documents import fixed_json
from service.api.problems import MOST_ERRORS, Problem, echo, from_validation, unknown_name
from service.api.query import read_pairs
from service.api.schemes import address
from service.engine import by_key
from service.engine.advice import Advised, Needs, advised, needs_of, numbers_of
from service.engine.advice_rules import Rule


def install(app: FastAPI) -> None:
    """Add the address."""

    async def advice(request: Request) -> Response:
        return fixed_json(document(_needs(request.scope["query_string"]))).answer(request)

    app.router.add_route("/v1/advice", advice, methods=["GET"])


def _needs(query: bytes) -> Needs:
    pairs = read_pairs(query)
    known = list(Needs.model_fields)
    unknown = [name for name in pairs if name not in known][:MOST_ERRORS]
    if unknown:
        faults = [
            unknown_name(echo(name), name, known, what=f"{echo(name)} is no need that advice knows") for name in unknown
        ]
        raise Problem("invalid-parameters", faults[0]["detail"], faults)
    try:
        return Needs.model_validate(pairs)
    except ValidationError as error:
        raise from_validation(error, Needs) from None


def document(given: Needs) -> dict[str, Any]:
    """The advice as it is answered: candidates with their rank, and those that are ruled out."""
    everything = advised(given)
    ranked = [each for each in everything if each.points is not None]
    return {
        "needs": given.model_dump(),
        "considered": list(needs_of(given)),
        "advice": [{"rank": rank, **_entry(each, given)} for rank, each in enumerate(ranked, 1)],
        "ruled_out": [_entry(each, given) for each in everything if each.points is None],
    }


def _entry(each: Advised, given: Needs) -> dict[str, Any]:
    candidate = each.candidate
    scheme = by_key(candidate.family, candidate.scheme)
    query = {name: text.format_map(numbers_of(given)) for name, text in candidate.query_for(given.modality).items()}
    return {
        "family": candidate.family,
        "scheme": candidate.scheme,
        "name": candidate.name,
        "points": each.points,
        "method": "GET",
        "href": f"{address(scheme)}?{urlencode({**query, 'revision': scheme.revision}, safe=',')}",
        "reference": scheme.reference,
        "reasons": [_reason(need, rule, scheme.properties[rule.cites]) for need, rule in each.rules],
    }


def _reason(need: str, rule: Rule, says: str) -> dict[str, Any]:
    return {"need": need, "points": rule.points, "property": rule.cites, "says": says, "because": rule.because}
