"""What is shown: groups of tensors with the values of their cells and the scale of their colours or heights."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from service.formats.format import Answer, Captions
from service.formats.pictures.cells import Values, panels
from service.formats.pictures.palette import BACKGROUND
from service.formats.pictures.plan import PROFILE_HEIGHT, Group, Plan, plan
from service.formats.pictures.scales import (
    Indices,
    Scale,
    alike,
    most_columns,
    reach,
    relative,
    scale,
    share,
    spoken,
    spread,
)
from service.formats.pictures.share import last_row, row_name
from service.formats.pictures.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Shown:
    """A group with the values of its cells, and the scale they are coloured by."""

    group: Group
    values: Sequence[Values]
    scale: Scale
    row: str = ""  # which, where it is one of several

    @property
    def has_ramp(self) -> bool:
        """Whether colours need a ramp to be read by: two of them do not, and heights have an axis."""
        return not self.group.is_profile and self.scale.kind != "two"

    @property
    def has_legend(self) -> bool:
        return self.has_ramp or bool(self.scale.states)


def all_shown(answer: Answer, sheet: Sheet) -> tuple[Plan, Sequence[Shown]]:
    """Compute it: tensors that look alike with one scale, if they are of one size."""
    quantities = answer.captions.quantities
    planned = plan(answer.tensors, sheet, "together", quantities)
    values = [list(panels(answer, group)) for group in planned.groups]
    unsaid = [
        _by_tensor(group, each)
        for group, each in zip(planned.groups, values, strict=True)
        if group.names[0] not in quantities
    ]
    if not all(map(alike, unsaid)):
        planned = plan(answer.tensors, sheet, "apart", quantities)
        values = [list(panels(answer, group)) for group in planned.groups]
    shown = [
        Shown(group, each, _scale(group, each, answer.captions))
        for group, each in zip(planned.groups, values, strict=True)
    ]
    return planned, [*shown, *_last_rows(shown)]


def _by_tensor(group: Group, values: Sequence[Values]) -> list[Sequence[Values]]:
    each = len(values) // len(group.names)
    return [values[start : start + each] for start in range(0, len(values), each)]


def _last_rows(shown: Sequence[Shown]) -> Iterator[Shown]:
    """Of what is compared with a uniform share."""
    for each in shown:
        if each.scale.kind == "relative":
            yield Shown(last_row(each.group), [each.values[-1][-1:]], each.scale, row_name(each.group))


def _scale(group: Group, values: Sequence[Values], captions: Captions) -> Scale:
    name = group.names[0]
    if name in captions.uniform:
        return relative(values[0], captions.uniform[name])
    if name in captions.shares:
        return share(values)
    if group.is_profile:
        return scale(values, group.spec.dtype, "heights")
    made = scale(values, group.spec.dtype, "colours")
    return spread(made, _reached(group, values)) if made.kind == "diverging" else made


def _reached(group: Group, values: Sequence[Values]) -> Iterable[float]:
    """By what should be seen, however large something else is: each head, or most of the channels."""
    if "head" in group.leading_axes:
        return map(reach, values)
    if group.axes[0] == "head":
        return [reach(row) for each in values for row in each]
    return [most_columns(values)] if group.axes[1] == "channel" else []


def quantity(shown: Shown, captions: Captions) -> str:
    """What heights are, in words."""
    if shown.scale.kind == "relative":
        return "times uniform (log scale)"
    names = shown.group.names
    told = captions.quantities.get(names[0]) or " and ".join(names).replace("_", " ")
    return f"{told} (log scale)" if shown.scale.kind == "logarithmic" else told


def cautions(shown: Shown) -> Iterator[str]:
    """Sentences about what could be misread."""
    group, scale_ = shown.group, shown.scale
    if scale_.kind == "symlog":
        yield f"colours are by the logarithm beyond \N{PLUS-MINUS SIGN}{spoken(scale_.even)}, so that small values show"
    skips = group.panels.columns.stride > 1 or (group.panels.rows.stride > 1 and not group.is_profile)
    if skips and scale_.kind == "diverging" and not set(group.axes) <= {"query", "key"}:
        yield "fast waves alias at these steps: fans are no structure"


def pixels(shown: Shown, values: Values) -> Indices:
    """The colours of a panel's cells; a profile's are columns from zero (or from below) to their value."""
    colours = shown.scale.colours(values)
    if not shown.group.is_profile:
        return colours
    finite = np.isfinite(values[0])
    places = shown.scale.places(np.where(finite, values[0], shown.scale.high))
    ends = np.rint(places * (PROFILE_HEIGHT - 1))
    (base,) = np.rint(shown.scale.places(np.array([shown.scale.ground])) * (PROFILE_HEIGHT - 1))
    height = np.arange(PROFILE_HEIGHT - 1, -1, -1)[:, None]
    filled = (height >= np.minimum(ends, base)) & (height <= np.maximum(ends, base))
    filled |= ~finite
    return np.where(filled, colours, BACKGROUND).astype(np.uint8)
