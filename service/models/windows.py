"""Which keys a query of a layer may see, and the mask of this service that says so."""

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.layers import of_kinds
from service.models.listed_layers import window_of_list
from service.models.llama_cpp import pattern_of, without_windows
from service.models.nearest import echo
from service.models.plan import Address, Value, Window
from service.models.reading import Reading

SLIDING = ("sliding_attention", "hybrid_sliding", "reference_sliding_attention")


def sees_both(reading: Reading, context: Context) -> bool:
    """Whether queries see the keys behind them too: by the class, or of a class with two stacks by the stack."""
    if (reading.llama_cpp or {}).get("architecture") == "dflash":
        return False  # its window is of the keys before
    rule = context.whole.get("sees") or reading.type.rule.get("sees")
    # BERT and its kin see what is before them only where the file makes decoders of them.
    both = rule == "both" and reading.document.get("is_decoder") is not True
    told = asked_for(reading) or (bool(reading.type.rotary) and reading.document.get("is_causal") is False)
    return both or told or (rule == "by-role" and context.role == "encoder-attention")


def window_of(reading: Reading, label: str | None, context: Context) -> tuple[Window | None, Value | None]:
    """The window of layers of a type, and the key that it comes from."""
    rule = reading.type.rule
    label = label if of_kinds(reading) else None
    if without_windows(reading) and not sees_both(reading, context):
        return None, None  # llama.cpp has no windows for its architecture
    if label == "chunked_attention":
        size = reading.integer("attention_chunk_size")
        return (None, None) if size is None else (Window("chunked", size.value), size)
    slides = rule.get("slides") if label is None else rule.get("slides") == "all" and label == "full_attention"
    key = rule.get("window", "sliding_window")
    slides = slides or label in rule.get("slides_too", ())
    size = window_of_list(reading) or reading.integer(key, 0) if label in SLIDING or slides else None
    over = rule.get("window_over")
    if over is not None and label in SLIDING and reading.has(over):
        return _stated_over(reading, over)
    if size is None and label == "sliding_attention":
        size = _in_llama_cpp(reading, key)
    off = bool(rule.get("window_if")) and not reading.flag(rule["window_if"])
    if (label == "sliding_attention" or label in rule.get("slides_too", ())) and (size is None or off):
        _refuse_no_size(reading, key, rule["window_if"] if size is not None else key)
    if size is None or off:
        return None, None
    return _both_ways(reading, size, context) or _before(reading, size)


def _in_llama_cpp(reading: Reading, key: str) -> Value | None:
    """The window that llama.cpp's code has where the file has none; refuses a file that it does not load without."""
    pattern = pattern_of(reading)
    if pattern is None or pattern.wanted:
        return None
    if pattern.window is None:
        detail = (
            f"{key} is null: llama.cpp loads no file of {reading.type.name} without a window; state {key}, 1 or more"
        )
        raise Refusal(reading.at(key), "conflict", detail)
    return Value(pattern.window, "class default", f"{reading.where}/model_type")


def _stated_over(reading: Reading, key: str) -> tuple[Window | None, Value | None]:
    """ModernBERT: what the file says by this name comes after what the class makes of the other."""
    size = reading.integer(key)
    if size is None:
        _refuse_no_size(reading, key, key)
        return None, None
    return Window("bidirectional" if reading.type.rule.get("both_ways") else "sliding", size.value), size


def _refuse_no_size(reading: Reading, key: str, because: str) -> None:
    """Refuses layers that slide by a window without a size, on which transformers fails; other code sees all there."""
    if reading.preset == "llama.cpp" or reading.vllm is not None:
        return
    found = reading.find(because)
    said = "missing" if found is None else "null" if found.value is None else echo(found.value).lower()
    listed = of_kinds(reading) and reading.says("layer_types")
    alone = listed and "slides_too" not in reading.type.rule
    kinds = "layer_types has sliding_attention" if alone else f"{reading.type.name} has layers that slide"
    detail = f"{because} is {said}, and {kinds}: transformers fails on a window without a size; state {key}, 1 or more"
    raise Refusal(reading.at(because) if found is None else found.key, "conflict", detail)


def _both_ways(reading: Reading, size: Value, context: Context) -> tuple[Window, Value] | None:
    """A window on either side of the query, as the class makes it of the number of the file."""
    rule = reading.type.rule
    if rule.get("window_halves"):
        # T5Gemma 2's encoder: an even window sees one key more ahead than behind.
        behind = size.replaced((size.value + 1) // 2 - 1)
        return Window("bidirectional", behind.value, ahead=size.value // 2), behind
    if rule.get("both_ways"):
        size = size.replaced(size.value // rule["both_ways"])
    elif asked_for(reading):
        # The class turns w into w // 2 + 1 and sees |i - j| below that, Gemma 4 up to that.
        size = size.replaced(size.value // 2 + (rule["asked"] == "half-and-one"))
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
    if size.value == 0:
        key = rule.get("window", "sliding_window")
        _refuse_no_size(reading, key, key)
        return None, None
    return Window("sliding", size.value), size


def asked_for(reading: Reading) -> bool:
    """Whether the file asks a decoder of this class to see both ways."""
    given = reading.find("use_bidirectional_attention") if "asked" in reading.type.rule else None
    return given is not None and given.value in (True, "all")


def padding_mask(context: Context) -> Address:
    """Every token is seen, padding is not: the mask needs to be told which is which."""
    return ask("masks", "padding", {}, length=context.length).address()


def causal_mask(context: Context) -> Address:
    return ask("masks", "causal", {}, length=context.length).address()


def two_sided_mask(window: Window, size: Value, context: Context) -> Address:
    """Other numbers of keys behind and ahead: a window that ends with the query, of queries so many positions later."""
    ahead = window.ahead or 0
    given = {"window": size.replaced(window.size + 1 + ahead), "offset": size.replaced(ahead)}
    return ask("masks", "sliding", given, length=context.length).address()


def prefix_mask(context: Context) -> Address:
    """Half of the tokens see each other both ways: how many they are is the input's own."""
    half = Value(context.options.length // 2, "class default", "/")
    return ask("masks", "prefix", {"prefix": half}, length=context.length).address()


def mask_addresses(reading: Reading, window: Window | None, size: Value | None, context: Context) -> dict[str, Address]:
    """The mask that the model's attention adds; llama.cpp's drafters have one of each call's own."""
    if (reading.llama_cpp or {}).get("architecture") == "dflash":
        return {}
    return {"mask": _mask_address(reading, window, size, context)}


def _mask_address(reading: Reading, window: Window | None, size: Value | None, context: Context) -> Address:
    """Causal unless the class sees both ways."""
    if window is None or size is None:
        if sees_both(reading, context):
            return padding_mask(context)
        prefixed = context.whole.get("prefix") or reading.type.rule.get("prefix")
        return prefix_mask(context) if prefixed else causal_mask(context)
    if window.kind == "chunked":
        return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
    if window.ahead not in (None, window.size):
        return two_sided_mask(window, size, context)
    if window.kind == "bidirectional":
        more = {"counting": "flash-left", "direction": "bidirectional", "length": context.length}
        return ask("masks", "sliding", {"window": size}, **more).address()
    return ask("masks", "sliding", {"window": size}, length=context.length).address()
