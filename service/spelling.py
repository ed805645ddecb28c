"""How values are spelled in settings: numbers and sizes in plain digits, hosts, and messages in one line."""

import re
from ipaddress import IPv4Address, IPv6Address

UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

_WHOLE = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIZE = re.compile(r"([0-9]{1,19}) ?([a-zA-Z]*)")
# A name that ends so is an address to whoever looks it up, in whichever of its old spellings.
_ENDS_IN_NUMBER = re.compile(rb"(.*\.)?([0-9]+|0[xX][0-9a-fA-F]*)\.?", re.DOTALL)


def is_number(text: str, kind: object) -> bool:
    """Whether it is a number in plain digits, which Python and pydantic are less strict about.

    >>> [is_number(text, float) for text in ("1.5", "1e3", "1_0", "\u0663", " 1", "inf")]
    [True, True, False, False, False, False]
    """
    return (_WHOLE if kind is int else _DECIMAL).fullmatch(text) is not None


def parse_bytes(value: object) -> object:
    """Turn `64MiB` into 67108864; what is not such a text is left for others to judge.

    >>> parse_bytes("64MiB"), parse_bytes("1 GiB"), parse_bytes("512")
    (67108864, 1073741824, 512)
    """
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = UNITS.get(match[2].upper()) if match else None
    return value if match is None or unit is None else int(match[1]) * unit


def show_bytes(count: int) -> str:
    """Write a number of bytes in the largest unit that divides it.

    >>> show_bytes(67108864), show_bytes(1000)
    ('64MiB', '1000')
    """
    for name, unit in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def read_host(text: str) -> str:
    """A name that can be looked up, or an address; ValueError if it is neither.

    >>> read_host("localhost"), read_host("::1")
    ('localhost', '::1')
    >>> read_host("a..b")
    Traceback (most recent call last):
    ...
    ValueError: no host
    """
    if ":" in text and one_line(text) == text:
        return str(IPv6Address(text))
    try:
        labels = text.encode("idna")
    except UnicodeError:
        labels = b""
    if _ENDS_IN_NUMBER.fullmatch(labels):
        return str(IPv4Address(text))
    if not re.fullmatch(rb"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", labels):
        raise ValueError("no host")
    return text


def one_line(text: str) -> str:
    """The text with escapes for what a terminal would not show as a character of one line.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
