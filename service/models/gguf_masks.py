"""Which keys a query of a GGUF file's model may see, as llama.cpp masks them."""

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_header import Header
from service.models.gguf_layers import Kind
from service.models.plan import Address, Value, Window


def window_of(header: Header, kind: Kind) -> tuple[Window | None, Value | None]:
    """The window of a kind of layers, and where its size comes from."""
    pattern = kind.pattern
    if not kind.slides or pattern is None:
        return None, None
    size = None if pattern.fixed else header.count("attention.sliding_window")
    if size is None and pattern.window is not None:
        size = header.code(pattern.window)
    if size is None:
        full = f"{header.type.name}.attention.sliding_window"
        raise Refusal(header.at(full), "missing", f"{full} is missing: llama.cpp loads no file of this kind without it")
    if kind.label == "chunked_attention":
        return Window("chunked", size.value), size
    if pattern.both_ways:
        size = size.replaced(size.value // 2)
        return Window("bidirectional", size.value), size
    return Window("sliding", size.value), size


def masks_of(header: Header, kind: Kind, context: Context) -> dict[str, Address]:
    """The mask of llama.cpp: causal unless the header says `attention.causal` false, or the code does."""
    causal = header.value("attention.causal")
    if header.type.name == "dflash" and (causal is None or causal.value is not True):
        return {}
    return {"mask": _mask(header, kind, context, both_ways=causal is not None and causal.value is False)}


def _mask(header: Header, kind: Kind, context: Context, *, both_ways: bool) -> Address:
    window, size = window_of(header, kind)
    if window is None or size is None:
        if kind.both_ways or both_ways:
            return Address(f"/v1/masks/padding?length={context.length}&revision=1", "POST")
        return ask("masks", "causal", {}, length=context.length).address()
    if window.kind == "chunked":
        return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
    if window.kind == "bidirectional":
        more = {"counting": "flash-left", "direction": "bidirectional", "length": context.length}
        return ask("masks", "sliding", {"window": size}, **more).address()
    return ask("masks", "sliding", {"window": size}, length=context.length).address()
