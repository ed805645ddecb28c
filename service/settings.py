"""Every setting of the service, in one frozen record: the only reader of the environment.

Each field is the flag `--name`, the environment variable `POSENC_NAME`, a line of `posenc --help` and a row
of the table in the README. A flag wins over the environment, the environment over the default.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, cast, get_args

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from service.access import Key, read_hosts, read_key_file, read_keys, read_networks, read_origins
from service.spelling import is_number, one_line, parse_bytes, read_host, show_bytes

PREFIX = "POSENC_"

# A Kubernetes Service named `posenc` puts these into every pod of its namespace, and an
# address into POSENC_PORT.
SERVICE_LINK = re.compile(r"POSENC_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_.+)?)")
SERVICE_LINK_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


class SettingsError(Exception):
    """A setting is unknown or does not hold; the message is the one line that the user reads."""


Bytes = BeforeValidator(parse_bytes)
Size = Annotated[int, Bytes, Ge(1), Le(2**50)]
Budget = Annotated[int, Bytes, Ge(0), Le(2**50)]
Seconds = Annotated[float, Ge(0.01), Le(86400)]


def _text_for(read: Callable[[str], object]) -> AfterValidator:
    """A text that its reader takes."""

    def checked(text: str) -> str:
        read(text)
        return text

    return AfterValidator(checked)


class EnvironmentSource(EnvSettingsSource):
    """The environment, without the address that a Kubernetes Service link leaves in POSENC_PORT."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        value, key, is_complex = super().get_field_value(field, field_name)
        linked = field_name == "port" and SERVICE_LINK_ADDRESS.match(value or "")
        return None if linked else value, key, is_complex


class Settings(BaseSettings):
    """What can be set. Sizes take a unit (`64MiB`); a cache of 0 bytes is off.

    >>> Settings(port=9000, result_bytes="1GiB").result_bytes
    1073741824
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: Annotated[str, _text_for(read_host)] = Field(default="127.0.0.1", description="address to listen on")
    port: Annotated[int, Ge(0), Le(65535)] = Field(default=8000, description="port to listen on; 0 takes a free one")
    workers: Annotated[int, Ge(1), Le(256)] = Field(default=1, description="server processes that share the port")
    threads: Annotated[int, Ge(0), Le(1024)] = Field(
        default=0, description="threads for numerical work; 0 means one for every core"
    )
    partner: Literal["on", "off"] = Field(
        default="on",
        description="a second process computes every other block of a large table, where a core is left for it",
    )
    drawer: Literal["on", "off"] = Field(
        default="on", description="pictures are drawn in a process of their own, and hold up nothing else"
    )
    result_bytes: Size = Field(default=8 * 2**30, description="largest binary answer")
    json_bytes: Size = Field(default=256 * 2**20, description="largest JSON or CSV answer")
    body_bytes: Size = Field(default=128 * 2**20, description="largest request body")
    json_body_bytes: Size = Field(
        default=8 * 2**20, description="largest request body in JSON; reading a larger one would hold up the others"
    )
    memory_bytes: Size = Field(
        default=2 * 2**30, description="memory for work under way; what does not fit at the moment gets 503"
    )
    waiting_requests: Annotated[int, Ge(1), Le(100_000)] = Field(
        default=1024, description="requests that may wait for the beginning of their answers; one more gets 503"
    )
    queue_seconds: Seconds = Field(
        default=5.0, description="while who is next has waited for longer than this, new requests get 503"
    )
    table_cache_bytes: Budget = Field(default=256 * 2**20, description="cache of computed rows")
    reply_cache_bytes: Budget = Field(default=256 * 2**20, description="cache of finished answers")
    stream_bytes: Size = Field(default=4 * 2**20, description="answers above this are sent in blocks of rows")
    url_bytes: Annotated[int, Bytes, Ge(64), Le(65535)] = Field(
        default=8192, description="longest request target (path and query)"
    )
    header_bytes: Annotated[int, Bytes, Ge(1024), Le(2**24)] = Field(
        default=32768, description="largest request header, all fields together"
    )
    header_fields: Annotated[int, Ge(8), Le(10000)] = Field(default=100, description="most header fields of a request")
    header_seconds: Seconds = Field(default=10.0, description="time for a request's header to arrive")
    body_idle_seconds: Seconds = Field(
        default=20.0, description="longest time in which less than 1 KiB for each second of it arrives of a body"
    )
    answer_idle_seconds: Seconds = Field(
        default=30.0, description="longest time in which a client takes less than 1 KiB for each second of its answer"
    )
    keep_alive_seconds: Annotated[int, Ge(1), Le(86400)] = Field(
        default=75, description="how long an idle connection is kept"
    )
    drain_seconds: Annotated[float, Ge(0), Le(3600)] = Field(
        default=1.0,
        description="after SIGTERM, how long connections are still taken while /health/ready says 503",
    )
    grace_seconds: Annotated[int, Ge(1), Le(3600)] = Field(
        default=15,
        description="after a stop signal, when the process has ended at the latest (draining included)",
    )
    access_log: Literal["off", "misses", "all"] = Field(
        default="misses",
        description="requests that are logged: none, those whose answer had to be made or was refused, or all",
    )
    log_format: Literal["text", "json"] = Field(default="text", description="lines for people, or a JSON object a line")
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="least severe message that is logged"
    )
    metrics: Literal["on", "off"] = Field(default="on", description="serve /metrics for Prometheus")
    docs: Literal["on", "off"] = Field(
        default="on", description="serve /docs and /openapi.json, and what belongs to them"
    )
    explorer: Literal["on", "off"] = Field(
        default="on", description="serve the explorer at /, and what explains: /schemes, /conventions"
    )
    root_path: Annotated[str, Field(pattern=r"^(/[!-~&&[^/?#]]+)*$")] = Field(
        default="", description="path prefix that a proxy in front strips, such as /posenc"
    )
    api_keys: Annotated[str, _text_for(read_keys)] = Field(
        default="", repr=False, description="digests of the keys that may ask, comma-separated; none lets everyone ask"
    )
    api_keys_file: str = Field(default="", description="file of more such digests, one a line, as a secret is mounted")
    api_key: Annotated[str, Field(pattern=r"^[!-~]*$")] = Field(
        default="", repr=False, description="key that posenc get sends to the server that it asks"
    )
    rate_limit: Annotated[float, Ge(0), Le(10**6)] = Field(
        default=0.0, description="requests a second that one client may make for long; 0 means any number"
    )
    rate_burst: Annotated[int, Ge(1), Le(10**6)] = Field(
        default=100, description="requests that a client may make at once before its rate is limited"
    )
    trusted_proxies: Annotated[str, _text_for(read_networks)] = Field(
        default="", description="networks of proxies whose X-Forwarded-For says who the client is"
    )
    allowed_hosts: Annotated[str, _text_for(read_hosts)] = Field(
        default="", description="names that requests may be for, such as *.example.org; none means any"
    )
    cors_origins: Annotated[str, _text_for(read_origins)] = Field(
        default="", description="origins whose pages may read answers; * means every page, none that none may"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _plainly_written(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str) and (kind := cls.model_fields[str(info.field_name)].annotation) in (int, float):
            read = parse_bytes(value) if is_size(str(info.field_name)) else value
            if isinstance(read, str) and not is_number(read, kind):
                raise ValueError("no number")
        elif isinstance(value, str) and not value.isascii():
            value.encode()  # what is no UTF-8 would be no message either
        return value

    @model_validator(mode="after")
    def _drain_within_grace(self) -> Self:
        if self.drain_seconds > self.grace_seconds:
            raise ValueError(
                f"--drain-seconds ({PREFIX}DRAIN_SECONDS) is {self.drain_seconds:g}: "
                f"at most --grace-seconds, which is {self.grace_seconds}, would do"
            )
        return self

    def keys(self) -> tuple[Key, ...]:
        """The keys that may ask, those of the file included; SettingsError if it cannot be read."""
        given = read_keys(self.api_keys)
        if not self.api_keys_file:
            return given
        try:
            return given + read_key_file(self.api_keys_file)
        except ValueError as error:
            name = "api_keys_file"
            told = f"{flag(name)} ({variable(name)}) is {_shown(self.api_keys_file)}: {error}; {takes(name)} would do"
            raise SettingsError(told) from None

    def for_its_owner(self) -> Self:
        """The same for who runs it, whom no key, quota or host name keeps out."""
        free = ("api_keys", "api_keys_file", "rate_limit", "allowed_hosts")
        return self.model_copy(update={name: type(self).model_fields[name].default for name in free})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment: no .env file and no secrets folder is looked for."""
        return init_settings, EnvironmentSource(settings_cls)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    return PREFIX + name.upper()


def is_size(name: str) -> bool:
    return Bytes in Settings.model_fields[name].metadata


def show_default(name: str) -> str:
    """The default as a flag would take it; an empty text is shown as ''."""
    default = Settings.model_fields[name].default
    if is_size(name):
        return show_bytes(default)
    return f"{default:g}" if isinstance(default, float) else str(default) or "''"


# What the settings take that are text; an error does not repeat what is secret, or may be by mistake.
TEXTS = {
    "host": "a host name or an address",
    "root_path": "a path such as /posenc",
    "api_keys": "NAME:DIGEST, as `posenc key NAME` prints it,",
    "api_keys_file": "a file with NAME:DIGEST on each line, as `posenc key NAME` prints it,",
    "api_key": "a key of visible ASCII characters",
    "trusted_proxies": "a list of networks such as 10.0.0.0/8",
    "allowed_hosts": "a list of names such as example.org, *.example.org",
    "cors_origins": "* or a list such as https://example.org, http://localhost:5173",
}
SECRET = frozenset({"api_keys", "api_key"})


def takes(name: str) -> str:
    """Say which values a setting takes.

    >>> takes("port"), takes("docs")
    ('a whole number from 0 to 65535', 'on or off')
    """
    field = Settings.model_fields[name]
    choices = get_args(field.annotation)
    if choices:
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    if field.annotation is str:
        return TEXTS[name]
    least, most = _bounds(field)
    if is_size(name):
        return f"a number of bytes from {least:g} to {show_bytes(int(most))}, such as {show_default(name)}"
    kind = "a whole number" if field.annotation is int else "a number"
    return f"{kind} from {least:g} to {most:g}"


def _bounds(field: FieldInfo) -> tuple[float, float]:
    least = next(bound.ge for bound in field.metadata if isinstance(bound, Ge))
    most = next(bound.le for bound in field.metadata if isinstance(bound, Le))
    return cast(float, least), cast(float, most)


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Write `; did you mean X?` where a known name is near (the prefix, which all share, not counted)."""
    matches = get_close_matches(word.removeprefix(prefix), [name.removeprefix(prefix) for name in known], n=1)
    return f"; did you mean {prefix}{matches[0]}?" if matches else ""


def load(flags: Mapping[str, Any]) -> Settings:
    """Join flags (by field name, as text), the environment and the defaults.

    Raises SettingsError, whose message names the setting, what was given and what would do.
    """
    _refuse_unknown_variables()
    try:
        settings = Settings(**flags)
        settings.keys()
        return settings
    except ValidationError as error:
        raise SettingsError(_one_line(error)) from None


def _refuse_unknown_variables() -> None:
    known = {variable(name) for name in Settings.model_fields}
    for name in sorted(os.environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known and not SERVICE_LINK.fullmatch(name):
            raise SettingsError(f"{one_line(name)} is not a setting{nearest(name.upper(), sorted(known), PREFIX)}")


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0])
    given = "not taken" if name in SECRET else _shown(first["input"])
    return f"{flag(name)} ({variable(name)}) is {given}: {takes(name)} would do"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 64 else text[:61] + "..."
