"""Models of two stacks: an encoder and a decoder of one configuration, and attention from one to the other."""

from collections.abc import Sequence
from dataclasses import replace

from service.models.context import Context
from service.models.plan import Use
from service.models.reading import MOST_LAYERS, Reading
from service.models.windows import padding_mask

CROSS = "cross_attention"
NOTE = "queries of the decoder against keys of another stack: nothing is added and nothing turns"


def cross_attention(reading: Reading, context: Context, layers: tuple[int, ...] | None = None) -> Use:
    """Attention to another stack, which knows no positions: the order of its keys is in the states alone."""
    return Use(
        role="cross-attention",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="none",
        layer_type=CROSS if layers else None,
        layers=layers,
        notes=(reading.type.rule.get("cross_note", NOTE),),
        addresses={"mask": padding_mask(context)},
    )


def of_stacks(reading: Reading, context: Context, uses: Sequence[Use]) -> list[Use]:
    """The uses again for each stack that the class makes from one configuration: `stacks` of `rules.json`."""
    stacks = reading.type.rule.get("stacks")
    if stacks is None:
        return list(uses)
    found = []
    for role, key in stacks.items():
        count = reading.needed(key, 1, MOST_LAYERS).value
        for use in uses:
            mask = {"mask": padding_mask(context)} if role == "encoder-attention" else {}
            own = {**use.addresses, **mask}
            found.append(replace(use, role=role, layers=tuple(range(count)), addresses=own))
    return found


OTHERS = {"encoder": ("decoder", "cross"), "decoder": ("encoder",)}


def of_stack(uses: Sequence[Use], stack: str | None) -> list[Use]:
    """The uses of a model of two stacks of which a whole has only one: T5's encoder in MusicGen."""
    return [use for use in uses if use.role.partition("-")[0] not in OTHERS.get(stack or "", ())]
