"""Points of several coordinates, and times from an origin: what positions mean to encodings of real numbers."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.positions import Values, Where
from service.engine.quantities import LARGEST_EXACT_INTEGER
from service.engine.scheme import Inputs

Coordinates = Annotated[
    Literal["each", "last-axis"],
    Field(
        description="`each`: every position is a point on a line; `last-axis`: the last axis of the positions in the "
        "body holds the coordinates of a point, whose features form one row."
    ),
]


def points(coordinates: str, places: Where) -> Where:
    """The places without the axis of the coordinates; their values stay.

    >>> points("last-axis", Where((2, 3), np.zeros(6))).shape
    (2,)
    """
    if coordinates == "each":
        return places
    if len(places.shape) < 2:
        detail = "coordinates=last-axis needs positions in the body with at least two axes, such as [[0.1, 0.2]]"
        raise Refusal("coordinates", "shape", detail)
    return Where(places.shape[:-1], places.values)


def axes_of_a_point(coordinates: str, inputs: Inputs) -> int:
    """How many coordinates a point has, after `points` has seen that there are some."""
    return 1 if coordinates == "each" else inputs["positions"].shape[-1]


def refuse_far_origin(origin: float, places: Where) -> None:
    """Refuse an origin that leaves differences beyond 2^53."""
    if max(abs(end - origin) for end in places.ends) > LARGEST_EXACT_INTEGER:
        detail = f"origin is {origin:g}, more than 2^53 from a position; 2^53 is the most"
        raise Refusal("origin", "out_of_range", detail, limit=LARGEST_EXACT_INTEGER)


def from_origin(origin: float, at: Values) -> Values:
    """position - origin, in float64 (exact for integers, and for times near the origin).

    >>> from_origin(5.0, range(3, 6))
    range(-2, 1)
    """
    if isinstance(at, range) and origin.is_integer():
        return range(at.start - int(origin), at.stop - int(origin))
    return np.asarray(at, np.float64) - origin
