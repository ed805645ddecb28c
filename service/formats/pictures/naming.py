"""What the panels of a group are called, and what of it has none."""

from collections.abc import Iterator

from service.formats.pictures.axes import steps_told
from service.formats.pictures.plan import Group


def left_out(group: Group) -> Iterator[str]:
    """Sentences about what of a group is not shown."""
    rows, columns = group.axes
    among = [] if group.is_profile else [(group.panels.rows, rows)]
    last = group.spec.axes[-1] if group.is_plane else ""
    outer = [(group.leading, " and ".join(group.leading_axes)), (group.trailing, last)]
    told = steps_told([*among, (group.panels.columns, columns), *outer])
    if told:
        yield f"shown: {told}; no values are blended"


def panel_names(group: Group, named: bool) -> Iterator[str]:
    """What each panel of a group is: the tensor where there are several, and its place on the outer axes."""
    for name in group.names:
        first = [name] if named else []
        for index in range(0, group.leading.length, group.leading.stride):
            for channel in range(0, group.trailing.length, group.trailing.stride):
                last = [f"{group.spec.axes[-1]} {channel}"] if group.is_plane else []
                yield ", ".join([*first, *_places(group, index), *last])


def _places(group: Group, index: int) -> list[str]:
    """The indices on the leading axes of a panel."""
    named = []
    for axis, length in reversed(list(zip(group.leading_axes, group.spec.shape, strict=False))):
        index, place = divmod(index, length)
        named.append(f"{axis} {place}")
    return named[::-1]
