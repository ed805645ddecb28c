"""A request that was understood: what its answer will be, how large, and under which headers, before any work."""

from dataclasses import dataclass
from typing import Any

from service.api.caching import canonical
from service.api.captions import captions
from service.api.codings import PAYS_BYTES, Coding
from service.api.limits import refuse_large
from service.api.query import Asked, choose
from service.api.resources import Resources
from service.engine.layered import Layered, layered
from service.engine.scheme import Inputs, Params, Scheme, Tensor, Tensors
from service.formats import FORMATS
from service.formats.format import BLOCK_BYTES, Captions, Format
from service.formats.pictures import Picture

Headers = list[tuple[str, str]]

# What computing takes, in bytes of the block that is computed: the block, the temporaries of its making (at most
# six times as much was measured), and the block before it, which is being sent.
BLOCK_FACTOR = 8
# What any request takes besides: its task, parameters and headers.
REQUEST_BYTES = 1 << 16
TEXTUAL = ("json", "csv")

# The cells of an SVG are images inside it, which a browser takes for loaded ones.
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that was understood and may be answered; nothing of it is computed yet."""

    scheme: Scheme[Any, Any]
    asked: Asked
    params: Params
    form: Format
    inputs: Inputs
    everything: Tensors
    tensors: Tensors
    document: dict[str, Any]
    size: int | None
    bound: int
    state_bytes: int

    def canonical(self) -> bytes:
        """The one spelling of this request."""
        # Only what decides about the bytes: a theme and a width are those of pictures, and of nothing else.
        drawn = {"theme": self.asked.theme, "picture_width": self.asked.picture_width} if self.is_picture else {}
        return canonical(
            {
                "scheme": self.scheme.key,
                "revision": self.scheme.revision,
                "parameters": self.document["parameters"],
                "tensors": list(self.tensors),
                "nonfinite": self.asked.nonfinite if self.form.extension == "json" else "",
                "extension": self.form.extension,
                **drawn,
            }
        )

    @property
    def is_picture(self) -> bool:
        return isinstance(self.form, Picture)

    @property
    def captions(self) -> Captions:
        """What a picture says beside the values."""
        return captions(self.scheme, self.params, self.inputs, self.asked.theme, self.asked.picture_width)


def understand(scheme: Scheme[Any, Any], asked: Asked, extension: str, inputs: Inputs, resources: Resources) -> Wanted:
    """Everything that can be refused before any work: parameters, format, size."""
    form = FORMATS[extension]
    if isinstance(asked.params, Layered):
        scheme = layered(scheme)
    with asked.placed():
        everything = scheme.tensors(asked.params, inputs)
        params = scheme.resolve(asked.params, inputs)
        asked.refuse_misfits(scheme.pasted, params)
    tensors = choose(everything, asked.tensor)
    form.check(tensors)
    document = statement(scheme, params, inputs)
    bound = _admitted(scheme, form, document, tensors, resources)
    size = form.size(document, tensors)
    state_bytes = scheme.state_bytes(params, inputs)
    return Wanted(scheme, asked, params, form, inputs, everything, tensors, document, size, bound, state_bytes)


def statement(scheme: Scheme[Any, Any], params: Params, inputs: Inputs) -> dict[str, Any]:
    """What an answer states beside its tensors."""
    return {
        "family": scheme.family,
        "scheme": scheme.name,
        "revision": scheme.revision,
        "parameters": params.model_dump(mode="json"),
        "facts": scheme.facts(params, inputs),
        "notes": scheme.notes(params, inputs),
    }


def _admitted(
    scheme: Scheme[Any, Any], form: Format, document: dict[str, Any], tensors: Tensors, resources: Resources
) -> int:
    """An upper bound of the answer's bytes, or the refusal of too many."""
    values = sum(tensor.nbytes for tensor in tensors.values())
    textual = form.extension in TEXTUAL
    limit = resources.json_bytes if textual else resources.result_bytes
    binary = ", or for .npy, .safetensors or .bin" if textual and values <= resources.result_bytes else ""
    advice = f"ask for fewer rows{binary}" + (f"; {scheme.instead}" if scheme.instead else "")
    # By the values alone first: a format's own sum is made for sizes that exist.
    refuse_large(values, limit, advice, what="the values of the answer")
    bound = form.bound(document, tensors)
    if textual:
        refuse_large(bound, limit, advice, what="the answer as text")
    return bound


def gains_by_coding(wanted: Wanted) -> bool:
    """Whether the answer is text that is large enough to be sent in gzip: a matter of its bound alone."""
    return wanted.form.extension in TEXTUAL and wanted.bound >= PAYS_BYTES


def coding_headers(wanted: Wanted) -> Headers:
    """That the answer depends on Accept-Encoding, where a coding is possible."""
    return [("Vary", "Accept-Encoding")] if gains_by_coding(wanted) else []


def content_headers(wanted: Wanted, size: int | None, coding: Coding = "identity") -> Headers:
    """What a GET and a HEAD say of the content; its length only where that is known without computing."""
    form = wanted.form
    headers = [("Content-Type", form.media_type)]
    if coding != "identity":
        headers.append(("Content-Encoding", coding))
    if size is not None:
        headers.append(("Content-Length", str(size)))
    if form.extension == "json":
        return headers
    first = next(iter(wanted.tensors.values()))
    shape = (len(wanted.tensors), *first.shape) if form.extension == "npy" and len(wanted.tensors) > 1 else first.shape
    if form.extension in ("npy", "bin"):
        headers += [("Array-Shape", ", ".join(map(str, shape))), ("Array-Dtype", first.dtype)]
    # A picture is looked at where it is asked for; anything else is saved.
    kind = "inline" if wanted.is_picture else "attachment"
    if form.extension == "svg":  # which is a document of its own where it is opened by itself
        headers.append(("Content-Security-Policy", PICTURE_POLICY))
    return [
        *headers,
        ("Content-Disposition", f'{kind}; filename="{_filename(wanted, first.shape, first.dtype)}"'),
    ]


def accepted_ranges(wanted: Wanted) -> Headers:
    """That a part may be asked for, which is said of GET alone: a POST is computed anew every time."""
    return [("Accept-Ranges", "bytes")] if wanted.form.has_ranges(wanted.tensors) else []


def file_headers(wanted: Wanted, size: int | None, coding: Coding = "identity") -> Headers:
    """What GET and HEAD say of the content."""
    return [*content_headers(wanted, size, coding), *accepted_ranges(wanted)]


def _filename(wanted: Wanted, shape: tuple[int, ...], dtype: str) -> str:
    # Not where there is one tensor anyway: with and without tensor= that is one request, and one cache entry.
    only = f"-{wanted.asked.tensor}" if len(wanted.tensors) < len(wanted.everything) else ""
    return f"{wanted.scheme.name}{only}_{'x'.join(map(str, shape))}_{dtype}.{wanted.form.extension}"


def whole_bytes(wanted: Wanted) -> int:
    """What writing the whole answer takes: its blocks, and the same once more when they are joined; for a picture the
    caller's arrays once more, in the process that draws."""
    arrays = sum(array.nbytes for array in wanted.inputs.values()) if wanted.is_picture else 0
    return 2 * wanted.bound + block_bytes(wanted) + arrays


def block_bytes(wanted: Wanted) -> int:
    """What one block of rows takes while it is made and sent; a row wider than a block is a block."""
    row = max(_row_bytes(tensor) for tensor in wanted.tensors.values())
    block = max(row, min(BLOCK_BYTES, sum(tensor.nbytes for tensor in wanted.tensors.values())))
    return BLOCK_FACTOR * block + wanted.form.working(wanted.tensors) + wanted.state_bytes + REQUEST_BYTES


def _row_bytes(tensor: Tensor) -> int:
    return tensor.nbytes // max(1, tensor.rows)
