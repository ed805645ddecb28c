"""Who may ask: how the settings say it, read into what the checks want.

    keys        NAME:DIGEST, the SHA-256 of a key in hexadecimal; a name may have several, while one replaces another
    origins     `*`, or scheme://host[:port] of the pages that may read answers
    hosts       names that the service goes by: example.org, *.example.org, 10.0.0.7
    networks    10.0.0.0/8, ::1

Each list is comma-separated, or has an entry a line; `#` begins a comment. No message repeats an entry of the keys:
someone may have put a key itself there.
"""

import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

Network = IPv4Network | IPv6Network
Key = tuple[str, bytes]  # whose it is, and its digest

KEY_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_KEY = re.compile(rf"({KEY_NAME}):([0-9a-fA-F]{{64}})", re.ASCII)
# Three quarters of one too: a text may have been cut within it.
_ANY_KEY = re.compile(r"posenc_[A-Za-z0-9_-]{32,}", re.ASCII)
_LABEL = r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?"
_NAME = rf"{_LABEL}(\.{_LABEL})*"
_ADDRESS = r"\[[0-9a-f:.]{2,45}\]"
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]*://({_NAME}|{_ADDRESS})(:\d{{1,5}})?", re.ASCII)
_HOST = re.compile(rf"(\*\.)?{_NAME}|{_ADDRESS}", re.ASCII)


def new_key(name: str) -> tuple[str, str]:
    """A key that nobody can guess, and the entry that lets it in.

    >>> key, entry = new_key("ci")
    >>> len(key), entry.partition(":")[0]
    (50, 'ci')
    """
    key = f"posenc_{secrets.token_urlsafe(32)}"
    return key, f"{name}:{sha256(key.encode()).hexdigest()}"


def redacted(text: str) -> str:
    """The same without what has the form of a key, for what is logged or answered: callers put keys anywhere.

    >>> redacted(f"/v1/posenc_{'k' * 43}/x")
    '/v1/posenc_***/x'
    """
    return _ANY_KEY.sub("posenc_***", text)


def read_keys(text: str) -> tuple[Key, ...]:
    """Names and digests.

    >>> read_keys("ci: x")
    Traceback (most recent call last):
    ...
    ValueError: entry 1 is not NAME:DIGEST
    """
    found = []
    for number, entry in enumerate(_entries(text), 1):
        match = _KEY.fullmatch(entry)
        if match is None:
            raise ValueError(f"entry {number} is not NAME:DIGEST")
        found.append((match[1], bytes.fromhex(match[2])))
    return tuple(found)


def read_key_file(path: str) -> tuple[Key, ...]:
    """The keys in a file, of which there is one at least; ValueError says why it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(error.strerror) from None
    return read_keys(text or "#")


def read_origins(text: str) -> tuple[str, ...]:
    """Origins as browsers write them.

    >>> read_origins("https://example.org, http://localhost:5173")
    ('https://example.org', 'http://localhost:5173')
    """
    entries = tuple(_entries(text))
    return entries if entries == ("*",) else tuple(_matching(_ORIGIN, each, str) for each in entries)


def read_hosts(text: str) -> tuple[str, ...]:
    """Names without ports; the first label may be `*`.

    >>> read_hosts("Example.org, *.example.org")
    ('example.org', '*.example.org')
    """
    return tuple(_matching(_HOST, each, str.lower) for each in _entries(text))


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks, or single addresses.

    >>> read_networks("10.0.0.0/8, ::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return tuple(map(ip_network, _entries(text)))


def _entries(text: str) -> list[str]:
    """The entries of a list. One that looks like something and holds nothing would open what it was to close."""
    entries = [entry for each in re.split(r"[,\n]", re.sub(r"#[^\n]*", "", text)) if (entry := each.strip())]
    if text and not entries:
        raise ValueError("nothing is in it")
    return entries


def _matching(pattern: re.Pattern[str], entry: str, spelled: Callable[[str], str]) -> str:
    entry = spelled(entry)
    if pattern.fullmatch(entry) is None:
        raise ValueError(f"{entry} is none")
    return entry
