"""Attention that sees less than all, of models that tell no layer types: what is seen, for a row of `positions.json`.

`SEEN` names them: each answers with the use, its window or numbers, and the mask where one of this service is what the
model sees at the length that is asked for. Where none is, the numbers are in the facts and a note says what they mean.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import also, code
from service.models.nearest import echo
from service.models.plan import Address, Use, Value, Window
from service.models.reading import MOST_LAYERS, Reading
from service.models.windows import causal_mask, padding_mask, two_sided_mask


def _sliding(context: Context, size: Value, **more: str) -> Address:
    return ask("masks", "sliding", {"window": size}, length=context.length, **more).address()


def _block(context: Context, size: Value, reach: str) -> Address:
    return ask("masks", "block", {"block_size": size}, length=context.length, reach=reach).address()


def local_radius(reading: Reading, context: Context, use: Use) -> Use:
    """LongT5's encoder: keys up to a radius away, and of transient-global attention sums of blocks beside them."""
    kind, radius = reading.text("encoder_attention_type") or code(reading, "local"), reading.needed("local_radius")
    if kind.value not in ("local", "transient-global"):
        detail = f"encoder_attention_type is {echo(kind.value)}; local and transient-global are known"
        raise Refusal(kind.key, "choice", detail)
    mask = _sliding(context, radius, counting="flash-left", direction="bidirectional")
    notes = use.notes
    if kind.value == "transient-global":
        blocks = reading.needed("global_block_size").value
        said = f"every token sees, beside its window, the normalised sum of each whole block of {blocks} tokens"
        notes = (*notes, f"{said}: the mask is that of single tokens")
    return replace(also(use, mask=mask), window=Window("bidirectional", radius.value), notes=notes)


def block_sparse(reading: Reading, context: Context, use: Use) -> Use:
    """BigBird: full up to a length, and beyond it blocks of which some are drawn at random."""
    kind = reading.text("attention_type") or code(reading, "block_sparse")
    if kind.value not in ("block_sparse", "original_full"):
        detail = f"attention_type is {echo(kind.value)}; block_sparse and original_full are known"
        raise Refusal(kind.key, "choice", detail)
    decodes = reading.document.get("is_decoder") is True
    full = causal_mask(context) if decodes else padding_mask(context)
    if kind.value == "original_full":
        return also(use, mask=full)
    size, random = (
        reading.needed("block_size").value,
        (reading.integer("num_random_blocks", 0) or code(reading, 3)).value,
    )
    most = (5 + 2 * random) * size
    note = (
        f"up to {most} tokens attention is full; beyond, in blocks of {size}, a block sees itself, one on either side, "
        f"the first, the last and {random} that are drawn at random, and the first and the last block see all: no mask "
        "of this service is that"
    )
    use = replace(use, facts={**use.facts, "block_size": size, "full_up_to": most}, notes=(*use.notes, note))
    return also(use, mask=full) if context.options.length <= most else use


def _chunks(context: Context, use: Use, size: Value, behind: int | None) -> Use:
    """Whole chunks: each sees itself and so many before it; None: all of them."""
    facts = {**use.facts, "chunk_size": size.value, "chunks_behind": behind}
    use = replace(use, facts=facts)
    if behind == 0:
        return also(use, mask=_block(context, size, "diagonal"))
    seen = "all" if behind is None else str(behind)
    note = f"in chunks of {size.value} a query sees its own chunk, both ways, and {seen} before it"
    if behind is None or context.options.length <= (behind + 1) * size.value:
        said = "" if behind is None else f": the mask is right up to {(behind + 1) * size.value} positions"
        return replace(also(use, mask=_block(context, size, "causal")), notes=(*use.notes, note + said))
    said = f": no mask of this service is that beyond {(behind + 1) * size.value} positions"
    return replace(use, notes=(*use.notes, note + said))


def lookahead(reading: Reading, context: Context, use: Use) -> Use:
    """Nemotron's streaming encoder: chunks as long as the lookahead and one, and those before that fit the window."""
    ahead, window = reading.needed("default_num_lookahead_tokens", 0), reading.needed("sliding_window", 0)
    size = ahead.replaced(ahead.value + 1)
    # A window of 0 is a left context of -1, which the class reads as one without end.
    behind = (window.value - 1) // size.value if window.value else None
    found = _chunks(context, use, size, behind)
    note = "the lookahead is the processor's to choose: this is default_num_lookahead_tokens"
    return replace(found, notes=(*found.notes, note))


def speech_chunks(reading: Reading, context: Context, use: Use) -> Use:
    """SeamlessM4T v2's speech encoder; a negative number of chunks is all of them."""
    size = reading.needed("speech_encoder_chunk_size")
    behind = reading.needed("speech_encoder_left_chunk_num", -(2**31)).value
    return _chunks(context, use, size, behind if behind >= 0 else None)


ROWS_OF_A_CHUNK = 13


def frames(reading: Reading, context: Context, use: Use) -> Use:
    """Qwen's audio encoders: positions begin anew in each chunk of frames; attention stays in a chunk, or in some."""
    half = reading.needed("n_window")
    rows, inferred = half.value, reading.integer("n_window_infer")
    if inferred is not None:
        # Three convolutions of stride 2 make them of a chunk's frames; the class counts 13, whatever they make.
        rows = ROWS_OF_A_CHUNK
        if -(-half.value // 4) != rows:
            detail = f"n_window is {half.value}: the class counts {rows} rows of a chunk, which 49 to 52 make"
            raise Refusal(half.key, "unsupported", detail)
        chunks = inferred.value // (2 * half.value)
        if not chunks:
            detail = f"n_window_infer is {inferred.value} and a chunk has {2 * half.value} frames: no chunk fits"
            raise Refusal(inferred.key, "conflict", detail)
    note = f"positions begin again at 0 in each chunk of {rows} rows, which are {2 * half.value} frames"
    size = half.replaced(rows * (1 if inferred is None else chunks))
    window = f"attention stays within {size.value} rows"
    use = replace(use, facts={**use.facts, "rows_of_a_chunk": rows}, notes=(*use.notes, note, window))
    return also(use, mask=_block(context, size, "diagonal"))


def local_blocks(reading: Reading, context: Context, use: Use) -> Use:
    """Pegasus-X's encoder: blocks, which every second layer may have half a block earlier, and global tokens."""
    size, tokens = reading.needed("block_size"), (reading.integer("num_global_tokens") or code(reading, 32)).value
    note = f"in blocks of {size.value} a token sees its own block, and {tokens} global tokens that the class adds"
    staggers = reading.find("stagger_local_blocks")
    facts = {**use.facts, "block_size": size.value}
    if staggers is not None and staggers.value is False:
        return also(replace(use, facts=facts, notes=(*use.notes, note)), mask=_block(context, size, "diagonal"))
    note += (
        f"; every second layer's blocks begin {size.value // 2} earlier: no mask of this service is that of all layers"
    )
    return replace(use, facts=facts, notes=(*use.notes, note))


def local_characters(reading: Reading, context: Context, use: Use) -> Use:
    """Canine: one layer in front sees chunks, the others all."""
    size = reading.needed("local_transformer_stride")
    note = f"the layer before the strided convolution sees chunks of {size.value} characters, each its own; others all"
    use = replace(use, facts={**use.facts, "chunk_size": size.value}, notes=(*use.notes, note))
    return also(use, mask=_block(context, size, "diagonal"))


def _behind_and_ahead(context: Context, use: Use, behind: Value, ahead: int) -> Use:
    """A window of other numbers of frames behind and ahead."""
    if not ahead:
        size = behind.replaced(behind.value + 1)
        return replace(also(use, mask=_sliding(context, size)), window=Window("sliding", size.value))
    window = Window("bidirectional", behind.value, ahead=ahead)
    return replace(also(use, mask=two_sided_mask(window, behind, context)), window=window)


def conformer(reading: Reading, context: Context, use: Use) -> Use:
    """Gemma 3n's and Gemma 4's audio encoders; the latter's mask leaves out the farthest frame on either side."""
    left, right = _context(reading, "left"), _context(reading, "right")
    behind, ahead = left.value - 1, right.value
    if reading.type.name == "gemma4_audio":
        behind, ahead = behind - 1, ahead - 1
    return _behind_and_ahead(context, use, left.replaced(max(0, behind)), max(0, ahead))


def _context(reading: Reading, side: str) -> Value:
    prefix = "" if reading.type.name == "gemma4_audio" else "conf_"
    return reading.needed(f"{prefix}attention_context_{side}", 0)


SEEN: Mapping[str, Callable[[Reading, Context, Use], Use]] = {
    "block_sparse": block_sparse,
    "conformer": conformer,
    "frames": frames,
    "local_blocks": local_blocks,
    "local_characters": local_characters,
    "local_radius": local_radius,
    "lookahead": lookahead,
    "speech_chunks": speech_chunks,
}


def reformer_layers(reading: Reading, context: Context) -> Iterator[Use]:
    """Reformer: layers in turn see chunks of the sequence, or of what hashing brings together."""
    listed = reading.list_of("attn_layers")
    kinds = [] if listed is None else listed.value
    where = reading.at("attn_layers")
    if not 1 <= len(kinds) <= MOST_LAYERS:
        raise Refusal(where, "shape", f"attn_layers has {len(kinds)} entries; 1 to {MOST_LAYERS} are needed")
    for place, kind in enumerate(kinds):
        if kind not in ("local", "lsh"):
            raise Refusal(f"{where}/{place}", "choice", f"a kind of layer is {echo(kind)}; local and lsh are known")
    for kind, layers in ((kind, tuple(i for i, each in enumerate(kinds) if each == kind)) for kind in ("local", "lsh")):
        if layers:
            yield _reformer_layers_of(reading, context, kind, layers)


def _reformer_layers_of(reading: Reading, context: Context, kind: str, layers: tuple[int, ...]) -> Use:
    size = reading.needed(f"{kind}_attn_chunk_length")
    before, after = (reading.needed(f"{kind}_num_chunks_{side}", 0).value for side in ("before", "after"))
    decodes = reading.document.get("is_decoder") is True
    if decodes and after:
        where = reading.at(f"{kind}_num_chunks_after")
        detail = f"{kind}_num_chunks_after is {after} and is_decoder true: transformers demands 0 of a decoder"
        raise Refusal(where, "conflict", detail)
    seen = f"chunks of {size.value}: a query sees its own, {before} before it and {after} after it"
    if kind == "lsh":
        seen = f"tokens are sorted by their hashes into {seen}, of those in its bucket: no mask of positions is that"
    elif decodes:
        seen += ", and nothing after itself"
    elif before or after:
        seen += "; the first and the last chunk are neighbours"
    use = Use(
        role="text-attention",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="none",
        layer_type=kind,
        layers=layers,
        facts={"chunk_size": size.value, "chunks_behind": before, "chunks_ahead": after},
        notes=("positions are in the embeddings: nothing is added to scores", seen),
    )
    mask = None if kind == "lsh" else _local_mask(context, size, before, after, decodes=decodes)
    return use if mask is None else also(use, mask=mask)


def _local_mask(context: Context, size: Value, before: int, after: int, *, decodes: bool) -> Address | None:
    """The mask of local layers at the length that is asked for, where there is one."""
    length = context.options.length
    if length <= size.value or (decodes and length <= (before + 1) * size.value):
        return causal_mask(context) if decodes else padding_mask(context)
    if not before and not after:
        if decodes:
            return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
        return _block(context, size, "diagonal")
    return None
