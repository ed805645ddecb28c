"""Which encoding to use for stated needs: the candidates of `advice_rules`, ranked.

A need is a word (`needs_of`). Candidates stand by the sum of the points that their rules give for the needs of a
request; where it is equal, in the order of that file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from service.engine.advice_rules import CANDIDATES, Candidate, Modality, Rule
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Params

MOST_SHOWN = 4096

Positions = Annotated[Integer, Field(ge=1, le=LARGEST_EXACT_INTEGER)]


class Needs(Params):
    """What a model must do: everything may be left out."""

    modality: Annotated[Modality, Field(description="What the positions are of.")] = "text"
    trained_length: Annotated[Positions | None, Field(description="Positions that it is trained on.")] = None
    target_length: Annotated[
        Positions | None,
        Field(description="Positions that it is to be used at; beyond training, where it is more."),
    ] = None
    length: Annotated[
        Literal["varying", "fixed"], Field(description="Whether every input has the same number of positions.")
    ] = "varying"
    distance: Annotated[
        Literal["any", "matters"],
        Field(
            description="Whether scores are to depend on how far apart two positions are, and not on where they are."
        ),
    ] = "any"
    learned_parameters: Annotated[
        Literal["any", "none"], Field(description="Whether the encoding may have parameters of its own.")
    ] = "any"
    memory: Annotated[
        Literal["any", "little"],
        Field(description="Whether memory for every query and key, or every head, is too much."),
    ] = "any"
    caching: Annotated[
        Literal["any", "needed"], Field(description="Whether keys are kept from one generated token to the next.")
    ] = "any"
    priority: Annotated[
        Literal["general", "simplest", "fit", "extrapolation"],
        Field(
            description="`general` what models of today have; `simplest` the least to write and to go wrong; `fit` the "
            "best at the lengths trained; `extrapolation` lengths beyond training first."
        ),
    ] = "general"


def needs_of(given: Needs) -> tuple[str, ...]:
    """The needs of a request, as words.

    >>> needs_of(Needs(trained_length=4096, target_length=16384, caching="needed"))
    ('general', 'beyond training', 'caching')
    """
    if given.target_length and not given.trained_length:
        detail = "trained_length is missing: target_length alone does not say whether it lies beyond training"
        raise Refusal("trained_length", "missing", detail)
    beyond = bool(given.target_length and given.trained_length and given.target_length > given.trained_length)
    if beyond and given.length == "fixed":
        detail = "length=fixed, and target_length is beyond trained_length; say length=varying, or leave one out"
        raise Refusal("length", "conflict", detail)
    stated = {
        given.priority: True,
        "beyond training": beyond,
        "fixed length": given.length == "fixed",
        "distance": given.distance == "matters",
        "no parameters": given.learned_parameters == "none",
        "little memory": given.memory == "little",
        "caching": given.caching == "needed",
    }
    return tuple(need for need, asked in stated.items() if asked)


def numbers_of(given: Needs) -> dict[str, str]:
    """What stands for `{trained}`, `{shown}` and `{factor}` in a candidate's query; tables show 4096 rows at most."""
    trained = given.trained_length or 512
    target = max(given.target_length or trained, trained)
    return {"trained": str(trained), "shown": str(min(target, MOST_SHOWN)), "factor": repr(target / trained)}


@dataclass(frozen=True, slots=True)
class Advised:
    """A candidate, and the rules that the needs call; points are None where one of them rules it out."""

    candidate: Candidate
    rules: list[tuple[str, Rule]]

    @property
    def points(self) -> int | None:
        points = [rule.points for _, rule in self.rules]
        return None if None in points else sum(each for each in points if each is not None)


def advised(given: Needs) -> list[Advised]:
    """Every candidate for the modality: the best first, and last what is ruled out.

    >>> [each.candidate.name for each in advised(Needs(priority="simplest"))][:2]
    ['Sinusoidal', 'No encoding: the causal mask alone (NoPE)']
    """
    needs = needs_of(given)
    found = [
        Advised(candidate, list(_called(candidate.rules_for(given.modality), needs)))
        for candidate in CANDIDATES
        if _fits(candidate, given, needs)
    ]
    return sorted(found, key=lambda each: -1000 if each.points is None else each.points, reverse=True)


def _fits(candidate: Candidate, given: Needs, needs: tuple[str, ...]) -> bool:
    return given.modality in candidate.modalities and (not candidate.only or candidate.only in needs)


def _called(rules: Mapping[str, Rule], needs: tuple[str, ...]) -> Iterator[tuple[str, Rule]]:
    return ((need, rules[need]) for need in needs if need in rules)
