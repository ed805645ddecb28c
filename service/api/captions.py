"""What a picture says beside the values, from the record of its scheme."""

import json
from collections.abc import Mapping
from typing import Any

from service.engine.scheme import Inputs, Params, Scheme
from service.formats.format import Captions, PictureWidth, Theme

LONGEST = 48


def captions(scheme: Scheme[Any, Any], params: Params, inputs: Inputs, theme: Theme, width: PictureWidth) -> Captions:
    """The title, the parameters that are not the defaults or that say what is shown, notes, and what values are.

    >>> from service.engine import by_key
    >>> sinusoidal = by_key("encodings", "sinusoidal")
    >>> told = captions(sinusoidal, sinusoidal.params(length=50, dim=128, offset=-3), {}, "light", "wide")
    >>> told.title, told.parameters, told.first["position"]
    ('Sinusoidal position encoding', 'encodings/sinusoidal: length=50, offset=-3, dim=128', -3)
    >>> decay = by_key("analyses", "decay")
    >>> captions(decay, decay.params(length=256, dim=128), {}, "light", "wide").parameters
    'analyses/decay: of=rope, length=256, dim=128'
    """
    stated = params.model_dump(mode="json", exclude_defaults=True)
    telling = params.model_dump(mode="json", include=set(scheme.telling(params)))
    stated = {name: value for name, value in telling.items() if name == "of"} | stated | telling
    spoken = ", ".join(f"{name}={_spoken(value)}" for name, value in stated.items() if value is not None)
    address = f"{scheme.family}/{scheme.name}"
    parameters = f"{address}: {spoken}" if spoken else address
    return Captions(
        scheme.title,
        parameters,
        _first(params, inputs),
        scheme.named(params),
        theme,
        scheme.lines(params),
        width,
        scheme.uniform(params),
        tuple(scheme.notes(params, inputs)),
        scheme.quantities,
        scheme.shares,
    )


def _spoken(value: object) -> str:
    """A value as an address has it, cut where it is long."""
    if isinstance(value, list | tuple):
        text = ",".join(map(_spoken, value))
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        text = str(int(value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _first(params: Params, inputs: Inputs) -> Mapping[str, int | None]:
    """The number of the first position; None where positions are not counted from one."""
    offset = getattr(params, "offset", 0) or 0
    counted = "positions" not in inputs and getattr(params, "positions", None) is None
    return {"position": int(offset) if counted and offset == int(offset) else None}
