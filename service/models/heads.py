"""Heads that a model without RoPE splits its states into: their number must divide the width.

Transformers refuses to build most classes otherwise; `rules.json` lists those that it builds with any number.
"""

from service.engine.errors import Refusal
from service.models.known import ModelType, rules
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import Reading
from service.models.told import Told

WIDTHS = ("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "dim")
HEADS = ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "attention_heads",
         "speech_encoder_attention_heads", "n_heads")  # fmt: skip
# Widths of a head that some classes have beside them.
OWN = ("head_dim", "d_kv", "attention_head_size", "kv_channels")


def refuse_split_heads(reading: Reading) -> None:
    """Refuses a number of heads that does not divide the width, where the file states either."""
    fields = reading.type.fields
    if reading.type.name in rules()["heads of any number"] or reading.type.rotary or any(key in fields for key in OWN):
        return
    width = next((found for key in WIDTHS if (found := _stated(reading, key)) is not None), None)
    if width is None or type(width.value) is not int:
        return
    for key in HEADS:
        heads = _stated(reading, key)
        if heads is None or type(heads.value) is not int or heads.value < 1 or width.value % heads.value == 0:
            continue
        if "config" in (width.source, heads.source):
            first, second = (each.key.rpartition("/")[2] for each in (width, heads))
            place = heads if heads.source == "config" else width
            detail = f"{first} is {echo(width.value)} and {second} {echo(heads.value)}: the heads have no whole width"
            raise Refusal(place.key, "conflict", detail)


def of_three_widths(row: ModelType) -> bool:
    """Whether the class has `embed_dim` and `num_heads`, and transformers holds a head_dim of the file against them."""
    held = all(key in row.fields or key in row.aliases for key in ("embed_dim", "num_heads"))
    return held and row.name not in OF_THEIR_OWN


# Whose class checks other things in its place.
OF_THEIR_OWN = ("dots3_note_vision_encoder", "hiera")


def refuse_other_width(reading: Reading) -> None:
    """Refuses a head_dim that is not what the heads share of the whole, of classes that hold the three together."""
    given = reading.document.get("head_dim")
    if given is None or not of_three_widths(reading.type):
        return
    head, width, heads = reading.needed("head_dim"), reading.find("embed_dim"), reading.find("num_heads")
    if width is None or heads is None or type(heads.value) is not int or head.value * heads.value != width.value:
        shared = [echo(each.value) for each in (heads, width) if each is not None]
        detail = f"head_dim is {head.value}, which the heads ({shared[0]}) must share embed_dim ({shared[-1]}) by"
        raise Refusal(head.key, "conflict", detail)


def _stated(reading: Reading, key: str) -> Value | None:
    """What the file says or the class; of a type that is only assumed, the file alone."""
    assumed = isinstance(reading.document, Told)
    return None if assumed and not reading.says(key) else reading.find(key)
