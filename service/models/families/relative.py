"""XLNet: sinusoids of the distances between queries and keys, which a batch's second half may have backwards."""

from collections.abc import Iterator

from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import also, code, use_of
from service.models.plan import Use, Value
from service.models.reading import Reading

NOTE = "rows run from the farthest key behind to the farthest ahead; the model projects them and shifts the products"
SPANS = {"bi": "xlnet-bi", "uni": "xlnet-uni"}


def xlnet(reading: Reading, context: Context) -> Iterator[Use]:
    """`attn_type` says which distances there are, `clamp_len` from where on they count alike."""
    kind = reading.text("attn_type") or code(reading, "bi")
    parameters = {
        "dim": reading.needed("d_model"),
        "layout": code(reading, "sin-cos"),
        "arithmetic": code(reading, "float32"),
        "frequency_form": code(reading, "power"),
        "span": Value(SPANS.get(str(kind.value), kind.value), kind.source, kind.key),
    }
    clamped = reading.integer("clamp_len", -1)
    if clamped is not None and clamped.value > 0:
        parameters["clamp_len"] = clamped
    facts = {"width": parameters["dim"].value}
    use = use_of(reading, "biases/transformer-xl", "text-attention", parameters, facts, [NOTE], length=context.length)
    if reading.flag("bi_data"):
        backward = {**parameters, "direction": code(reading, "backward")}
        address = ask("biases", "transformer-xl", backward, length=context.length).address()
        use = also(use, second_half_of_the_batch=address)
    yield use
