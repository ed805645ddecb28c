"""Posenc: positional encodings over HTTP."""

__version__ = "0.1.0"
