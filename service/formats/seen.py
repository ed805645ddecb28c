"""Says in words what a body is, from its first bytes, when it is not what was due."""

from service.formats.declared import Body

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x93NUMPY", "an npy file"),
    (b"PK\x03\x04", "a zip archive (npz files and PyTorch checkpoints are; send one npy or safetensors)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\x89HDF", "an HDF5 file"),
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to (run `git lfs pull`)"),
    (b"\xef\xbb\xbf", "text with a byte order mark"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_PICKLE_PROTOCOLS = range(2, 6)


def seen(body: Body) -> str:
    """What these bytes look like.

    >>> seen(b"version https://git-lfs.github.com/spec/v1")
    'a Git LFS pointer, not the file it points to (run `git lfs pull`)'
    """
    start = bytes(body[:64])
    if not start:
        return "an empty body"
    for signature, name in _SIGNATURES:
        if start.startswith(signature):
            return name
    if start[0] == 0x80 and len(start) > 1 and start[1] in _PICKLE_PROTOCOLS:
        return "a Python pickle, which is never read"
    if is_safetensors(body):
        return "a safetensors file"
    return _text(start)


def is_safetensors(body: Body) -> bool:
    """Whether the body begins as safetensors does: eight bytes of length, then a JSON object."""
    return bytes(body[8:9]) == b"{" and not all(_printable(byte) for byte in body[:8])


def _text(start: bytes) -> str:
    if not all(_printable(byte) for byte in start):
        return "unknown binary data"
    if start.lstrip()[:1] in (b"{", b"["):
        return "JSON (send it as application/json)"
    return "text"


def _printable(byte: int) -> bool:
    return 32 <= byte < 127 or byte in b"\t\n\r"
