"""Which keys a query of a layer may see, and the mask of this service that says so."""

from service.models.addresses import ask
from service.models.context import Context
from service.models.plan import Address, Value, Window
from service.models.reading import Reading

SLIDING = ("sliding_attention", "hybrid_sliding", "reference_sliding_attention")


def sees_both(reading: Reading, context: Context) -> bool:
    """Whether queries see the keys behind them too: by the class, or of a class with two stacks by the stack."""
    rule = reading.type.rule.get("sees")
    # BERT and its kin see what is before them only where the file makes decoders of them.
    both = rule == "both" and reading.document.get("is_decoder") is not True
    return both or (rule == "by-role" and context.role == "encoder-attention")


def window_of(reading: Reading, label: str | None, context: Context) -> tuple[Window | None, Value | None]:
    """The window of layers of a type, and the key that it comes from."""
    rule = reading.type.rule
    if label == "chunked_attention":
        size = reading.integer("attention_chunk_size")
        return (None, None) if size is None else (Window("chunked", size.value), size)
    slides = rule.get("slides") if label is None else rule.get("slides") == "all" and label == "full_attention"
    key = rule.get("window", "sliding_window")
    size = reading.integer(key, 0) if label in SLIDING or slides else None
    if size is None or (rule.get("window_if") and not reading.flag(rule["window_if"])):
        return None, None
    return _both_ways(reading, size, context) or _before(reading, size)


def _both_ways(reading: Reading, size: Value, context: Context) -> tuple[Window, Value] | None:
    """A window on either side of the query, as the class makes it of the number of the file."""
    rule = reading.type.rule
    if rule.get("window_halves"):
        # T5Gemma 2's encoder: an even window sees one key more ahead than behind.
        behind = size.replaced((size.value + 1) // 2 - 1)
        return Window("bidirectional", behind.value, ahead=size.value // 2), behind
    if rule.get("both_ways"):
        size = size.replaced(size.value // rule["both_ways"])
    elif rule.get("bidirectional_half") and _asked_for(reading):
        # The class turns w into w // 2 + 1 and sees |i - j| < that.
        size = size.replaced(size.value // 2)
    elif not sees_both(reading, context):
        return None
    return Window("bidirectional", size.value), size


def _before(reading: Reading, size: Value) -> tuple[Window | None, Value | None]:
    """A window that ends with the query."""
    rule = reading.type.rule
    if rule.get("window_divided"):
        size = size.replaced(size.value // rule["window_divided"])
    if reading.vllm and "window_more" in reading.vllm:
        size = size.replaced(size.value + reading.vllm["window_more"])
    return (None, None) if size.value == 0 else (Window("sliding", size.value), size)


def _asked_for(reading: Reading) -> bool:
    given = reading.find("use_bidirectional_attention")
    return given is not None and given.value in (True, "all")


def padding_mask(context: Context) -> Address:
    """Every token is seen, padding is not: the mask needs to be told which is which."""
    return ask("masks", "padding", {}, length=context.length).address()


def causal_mask(context: Context) -> Address:
    return ask("masks", "causal", {}, length=context.length).address()


def mask_addresses(reading: Reading, window: Window | None, size: Value | None, context: Context) -> dict[str, Address]:
    """The mask that the model's attention adds; none where no mask of this service has the window's two sides."""
    if window is not None and window.ahead not in (None, window.size):
        return {}
    return {"mask": _mask_address(reading, window, size, context)}


def _mask_address(reading: Reading, window: Window | None, size: Value | None, context: Context) -> Address:
    """Causal unless the class sees both ways."""
    if window is None or size is None:
        if sees_both(reading, context):
            return padding_mask(context)
        return causal_mask(context)
    if window.kind == "chunked":
        return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
    if window.kind == "bidirectional":
        more = {"counting": "flash-left", "direction": "bidirectional", "length": context.length}
        return ask("masks", "sliding", {"window": size}, **more).address()
    return ask("masks", "sliding", {"window": size}, length=context.length).address()
