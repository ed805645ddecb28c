"""Which keys a query of a layer may see, and the mask of this service that says so."""

from service.models.addresses import ask
from service.models.context import Context
from service.models.plan import Address, Value, Window
from service.models.reading import Reading

SLIDING = ("sliding_attention", "hybrid_sliding", "reference_sliding_attention")


def window_of(reading: Reading, label: str | None) -> tuple[Window | None, Value | None]:
    """The window of layers of a type, and the key that it comes from."""
    rule = reading.type.rule
    if label == "chunked_attention":
        size = reading.integer("attention_chunk_size")
        return (None, None) if size is None else (Window("chunked", size.value), size)
    if label not in SLIDING and not (label is None and rule.get("slides")):
        return None, None
    key = rule.get("window", "sliding_window")
    size = reading.integer(key, 0)
    if size is None or (rule.get("window_if") and not reading.flag(rule["window_if"])):
        return None, None
    if rule.get("both_ways"):
        size = size.replaced(size.value // rule["both_ways"])
        return Window("bidirectional", size.value), size
    if rule.get("bidirectional_half") and _both(reading):
        # The class turns w into w // 2 + 1 and sees |i - j| < that.
        size = size.replaced(size.value // 2)
        return Window("bidirectional", size.value), size
    if rule.get("window_divided"):
        size = size.replaced(size.value // rule["window_divided"])
    return (None, None) if size.value == 0 else (Window("sliding", size.value), size)


def _both(reading: Reading) -> bool:
    given = reading.find("use_bidirectional_attention")
    return given is not None and given.value in (True, "all")


def mask_address(reading: Reading, window: Window | None, size: Value | None, context: Context) -> Address:
    """The mask that the model's attention adds: causal unless the class sees both ways."""
    if window is None or size is None:
        if reading.type.rule.get("sees") == "both":
            return Address(f"/v1/masks/padding?length={context.length}&revision=1", "POST")
        return ask("masks", "causal", {}, length=context.length).address()
    if window.kind == "chunked":
        return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
    if window.kind == "bidirectional":
        more = {"counting": "flash-left", "direction": "bidirectional", "length": context.length}
        return ask("masks", "sliding", {"window": size}, **more).address()
    return ask("masks", "sliding", {"window": size}, length=context.length).address()
