"""Vision and audio towers and detectors whose tables follow from more than a key or two."""

import math
import re
from collections.abc import Iterator

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.resizing import resized
from service.models.families.uses import code, learned, use_of
from service.models.nearest import echo
from service.models.plan import Address, Use, Value
from service.models.reading import Reading, whole
from service.models.sizes import grid, numbers, size


def videomae(reading: Reading, _context: Context) -> Iterator[Use]:
    """A fixed sinusoid over all patches of all frames, counted on."""
    key, (rows, columns) = grid(reading, "image_size", "patch_size")
    frames, tubelet = reading.needed("num_frames"), reading.needed("tubelet_size")
    count = Value(rows * columns * (frames.value // tubelet.value), "rewritten", key)
    dim = reading.needed("hidden_size")
    parameters = {"dim": dim, "length": count, "layout": code(reading, "interleaved")}
    facts = {"table": [count.value, dim.value], "rows": count.value, "width": dim.value, "first_row": 0}
    yield use_of(reading, "encodings/sinusoidal", "vision-tower", parameters, facts)


def vit_mae(reading: Reading, _context: Context) -> Iterator[Use]:
    """The fixed tables of the encoder and of the decoder."""
    key, patches = grid(reading, "image_size", "patch_size")
    side = math.isqrt(math.prod(patches))
    for part, name in (("encoder", "hidden_size"), ("decoder", "decoder_hidden_size")):
        dim = reading.needed(name)
        parameters = {
            "dim": dim,
            "grid": Value([side, side], "rewritten", key),
            "axis_order": code(reading, "w-first"),
            "class_tokens": code(reading, 1),
        }
        facts = {"table": [side * side + 1, dim.value], "part": part}
        yield use_of(reading, "encodings/sinusoidal-2d", "vision-tower", parameters, facts)


def dab_detr(reading: Reading, context: Context) -> Iterator[Use]:
    """A temperature for each axis; the queries are boxes."""
    high, wide = (reading.needed(f"temperature_{axis}") for axis in ("height", "width"))
    dim = reading.needed("hidden_size")
    parameters = {
        "dim": dim,
        "base": high.replaced([float(high.value), float(wide.value)]),
        "grid": code(reading, [25, 34]),
        "arithmetic": code(reading, "float32"),
    }
    scale = reading.number("sine_position_embedding_scale")
    if scale is not None:
        parameters["scale"] = scale
    notes = ["for a feature map of grid rows and columns without padding; POST takes the batch's mask"]
    yield use_of(
        reading, "encodings/detr", "encoder-attention", parameters, {"scale": scale.value if scale else "2*pi"}, notes
    )
    yield from boxes(reading, context)


def sam_prompt(reading: Reading, _context: Context) -> Iterator[Use]:
    """Points and boxes: random Fourier features whose frequencies are part of the checkpoint."""
    dim = reading.needed("hidden_size")
    parameters = {"dim": dim, "coordinates": code(reading, "last-axis")}
    yield Use(
        role="token-embeddings",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="gaussian-fourier",
        scheme=("encodings", "gaussian-fourier"),
        parameters=parameters,
        facts={"table": [2, dim.value // 2]},
        notes=("the frequencies are in the checkpoint: POST them as weights, and points in -1 ... 1 as positions",),
        addresses={"tables": Address(f"/v1/encodings/gaussian-fourier?dim={dim.value}&coordinates=last-axis", "POST")},
    )


def maskformer(reading: Reading, _context: Context) -> Iterator[Use]:
    """The width is that of the DETR decoder within."""
    block = reading.object("decoder_config") or {}
    key = next((name for name in ("d_model", "hidden_size") if name in block), "d_model")
    dim = whole(Value(block.get(key, 256), "config" if key in block else "class default", reading.at("decoder_config")))
    parameters = {"dim": dim, "grid": code(reading, [25, 34]), "arithmetic": code(reading, "float32")}
    yield use_of(reading, "encodings/detr", "decoder-attention", parameters, {})


def vivit(reading: Reading, context: Context) -> Iterator[Use]:
    """A row for each tubelet of a clip, and one before them."""
    key, (rows, columns) = grid(reading, "image_size", "tubelet_size")
    frames = reading.needed("num_frames")
    found = reading.find("tubelet_size")
    depth = found.value[0] if found is not None and isinstance(found.value, (list, tuple)) else 1
    tubelets = frames.value // depth
    count = rows * columns * tubelets + 1
    use = learned(reading, context.role, [count, reading.needed("hidden_size").value], (), key)
    yield resized(reading, use, 1, ("image_size", "tubelet_size")) if tubelets > 1 else use


def spectrogram(reading: Reading, _context: Context) -> Iterator[Use]:
    """Patches of a spectrogram that overlap, behind two tokens."""
    patch = reading.needed("patch_size").value
    bins, longest = reading.needed("num_mel_bins"), reading.needed("max_length")
    steps = reading.needed("frequency_stride").value, reading.needed("time_stride").value
    rows = [(each.value - patch) // step + 1 for each, step in zip((bins, longest), steps, strict=True)]
    table = [math.prod(rows) + 2, reading.needed("hidden_size").value]
    yield learned(reading, "audio-tower", table, (), longest.key)


def yolos(reading: Reading, _context: Context) -> Iterator[Use]:
    """Patches, a class token and the detection tokens; a table for each layer between where asked for."""
    tokens = reading.needed("num_detection_tokens", 0)
    rows = size(reading, {"grid": ["image_size", "patch_size"], "plus": 1 + tokens.value})
    width = reading.needed("hidden_size")
    use = learned(reading, "vision-tower", [rows.value, width.value], (), rows.key)
    yield resized(reading, use, 1, ("image_size", "patch_size"))
    if reading.flag("use_mid_position_embeddings"):
        between = max(0, reading.layers() - 1)
        note = f"added between layers: {between} tables of this size"
        yield learned(reading, "vision-tower", [rows.value, width.value], [note], rows.key)


def pvt(reading: Reading, _context: Context) -> Iterator[Use]:
    """A table for each stage; the last has a class token before its patches."""
    key, (height, width) = grid(reading, "image_size", "image_size")
    pixels = numbers(reading, "image_size")[1]
    height, width = pixels[0], pixels[-1]
    patches, widths = numbers(reading, "patch_sizes")[1], numbers(reading, "hidden_sizes")[1]
    if len(patches) != len(widths):
        raise Refusal(
            reading.at("patch_sizes"), "shape", f"patch_sizes has {len(patches)} entries for {len(widths)} stages"
        )
    for stage, (patch, dim) in enumerate(zip(patches, widths, strict=True)):
        height, width = height // patch, width // patch
        rows = height * width + (1 if stage == len(widths) - 1 else 0)
        if not height * width:
            raise Refusal(key, "conflict", f"stage {stage} has no patch left of image_size {list(pixels)}")
        use = learned(reading, "vision-tower", [rows, dim], [f"stage {stage}"], key)
        yield resized(reading, use, 0, ())


def florence(reading: Reading, _context: Context) -> Iterator[Use]:
    """Rows and columns of the map, trained, and a sinusoid over frames."""
    key, widths = numbers(reading, "embed_dim")
    rows, frames = reading.needed("max_position_embeddings"), reading.needed("max_temporal_embeddings")
    parameters = {"joining": code(reading, "columns-rows"), "axes": code(reading, "channels-first")}
    yield Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "factorised"),
        parameters=parameters,
        facts={"tables": [[rows.value, widths[-1] // 2], [rows.value, widths[-1] - widths[-1] // 2]]},
        addresses={"tables": ask("learned", "factorised", parameters).address()},
    )
    rules = {"odd_width": "refuse", "layout": "interleaved", "arithmetic": "float32"}
    dim = Value(widths[-1], "rewritten", key)
    given = {"dim": dim, "length": frames} | {name: code(reading, value) for name, value in rules.items()}
    facts = {"table": [frames.value, dim.value], "rows": frames.value, "width": dim.value, "first_row": 0}
    yield use_of(reading, "encodings/sinusoidal", "vision-tower", given, facts)


RATE = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


def granite_projectors(reading: Reading, _context: Context) -> Iterator[Use]:
    """A table of the places in a window, whose side is what the rate divides by."""
    rate = reading.text("downsample_rate")
    if rate is None:
        detail = f"downsample_rate is missing: {reading.type.name} cannot do without it"
        raise Refusal(reading.at("downsample_rate"), "missing", detail)
    sides = RATE.fullmatch(rate.value)
    if sides is None:
        detail = f"downsample_rate is {echo(rate.value)}; two numbers of patches are needed, such as 4/8"
        raise Refusal(rate.key, "out_of_range", detail)
    width = size(reading, {"part": "vision_config", "key": "hidden_size"})
    note = "one in each projector: added to the patches of a window, the keys of its Q-Former"
    yield learned(reading, "vision-tower", [int(sides[2]) ** 2, width.value], [note], rate.key)


def boxes(reading: Reading, _context: Context) -> Iterator[Use]:
    """Queries are boxes, whose sines go through a small network."""
    dim = reading.needed("hidden_size")
    given = {"dim": dim.replaced(dim.value // 2), "arithmetic": code(reading, "float32")}
    yield Use(
        role="decoder-attention",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="detr-boxes",
        scheme=("encodings", "detr-boxes"),
        parameters=given,
        facts={"coordinates": 4},
        addresses={"tables": ask("encodings", "detr-boxes", given).address()},
    )
