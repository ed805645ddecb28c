"""The log of the process: lines of text, or one JSON object a line; uvicorn's and asyncio's lines among them.

time          RFC 3339, UTC, to the millisecond
level         debug, info, warning, error or critical
logger        who says it
message       one line, what cannot be printed escaped
...           what the line says beside that: `request_id`, `trace_id`, `method`, `path`, `status`, ...
exception     a traceback, of a bug alone
"""

import logging
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType

import orjson

from service.access import redacted
from service.settings import Settings

MOST_MESSAGE = 8192


def escaped(text: str) -> str:
    r"""The same with what cannot be printed escaped: it could end a line, or make a terminal do something.

    >>> escaped("a\nb\x1b[31m")
    'a\\x0ab\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(ord(letter)) for letter in text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def message_of(record: logging.LogRecord) -> str:
    """What the line says, on one line and not at length."""
    return escaped(record.getMessage()[:MOST_MESSAGE])


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """What was said beside the message, by `extra={"fields": ...}`."""
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class Text(logging.Formatter):
    """A line for people: time, level, logger, message, fields; a traceback follows it."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        fields = "".join(f" {name}={escaped(str(value))}" for name, value in fields_of(record).items())
        return f"{time_of(record)} {record.levelname} {record.name}: {message_of(record)}{fields}"


class Json(logging.Formatter):
    """A line for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
            **{name: escaped(value) if isinstance(value, str) else value for name, value in fields_of(record).items()},
        }
        if record.exc_info:
            text = self.formatException(record.exc_info)
            line["exception"] = text.encode("utf-8", "backslashreplace").decode()
        return redacted(orjson.dumps(line, default=str).decode())


FORMATTERS = {"text": Text, "json": Json}


def configure_logging(settings: Settings) -> None:
    """Let everything that is logged, warned of or raised by nobody's handler come out in one form, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[settings.log_format]())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    if settings.log_level == "info":  # uvicorn's own account of a start and a stop is for debugging
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    if settings.log_format == "json":
        sys.excepthook = _uncaught
        threading.excepthook = _uncaught_in_thread


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("posenc").critical("ended by an error", exc_info=(kind, error, trace))


def _uncaught_in_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        _uncaught(given.exc_type, given.exc_value, given.exc_traceback)
