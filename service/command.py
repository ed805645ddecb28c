"""The `posenc` command: serve, get, openapi, key, healthcheck.

Exit codes: 0 done; 2 the command, a setting or the request is wrong (a 4xx answer); 3 the server is busy or away (429,
503, no connection); 1 anything else. What a command needs is imported when it runs: `posenc healthcheck` loads neither
numpy nor FastAPI.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn, get_args

from service import __version__
from service.access import KEY_NAME
from service.settings import Settings, SettingsError, flag, load, nearest, show_default, takes, variable
from service.spelling import one_line

DONE, FAILED, REFUSED = 0, 1, 2
NAME = "posenc"

SUMMARY_OF_GET = "answer one request in this process, without a server, or get the answer of one (--server)"
EPILOG = """\
Every setting is also an environment variable, which a flag overrides: --result-bytes is POSENC_RESULT_BYTES.
Exit codes: 0 done; 2 the command, a setting or the request is wrong; 3 the server is busy or away; 1 anything else.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> main(["healthcheck", "--port", "none"])
    2
    """
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        return run(options, load(given_settings(options)))
    except SettingsError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return REFUSED


def run(options: argparse.Namespace, settings: Settings) -> int:
    if options.command == "serve":
        return serve(settings)
    if options.command == "get":
        return get(options, settings)
    if options.command == "openapi":
        return openapi()
    if options.command == "key":
        return key(options.name)
    return healthcheck(settings)


def serve(settings: Settings) -> int:
    from service.server import serve as run_server

    return run_server(settings)


def get(options: argparse.Namespace, settings: Settings) -> int:
    from service.get import Get

    return Get(options.target, options.output, options.data, options.server, settings.api_key).run(settings)


def openapi() -> int:
    from service.api.openapi import text

    return tell(text())


def key(name: str) -> int:
    from service.access import new_key

    return tell("".join(f"{line}\n" for line in new_key(name)))


def tell(text: str) -> int:
    """Print text in one go; a reader who has read enough and left (`| head`) is no failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end of the process
    return DONE


def healthcheck(settings: Settings) -> int:
    from service.healthcheck import is_alive

    return DONE if is_alive(settings) else FAILED


Help = argparse.RawDescriptionHelpFormatter


class Parser(argparse.ArgumentParser):
    """An argument parser whose refusals are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; an unknown flag is refused with the nearest known one."""
    parser = make_parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        word = unknown[0].partition("=")[0]
        parser.error(f"{word} is not known here{nearest(word, known_flags(), '--')}")
    return options


def known_flags() -> list[str]:
    return ["--output", "--data", "--server", *map(flag, Settings.model_fields)]


def given_settings(options: argparse.Namespace) -> dict[str, str]:
    return {name: value for name, value in vars(options).items() if name in Settings.model_fields}


def make_parser() -> Parser:
    parser = Parser(prog=NAME, epilog=EPILOG, formatter_class=Help, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{NAME} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    _add_command(commands, "serve", "answer over HTTP until SIGTERM or SIGINT")
    _add_get(commands)
    _add_command(commands, "openapi", "print the OpenAPI document")
    _add_key(commands)
    _add_command(commands, "healthcheck", "ask the server at --host and --port whether it lives")
    return parser


def _add_get(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = _add_command(commands, "get", SUMMARY_OF_GET, "TARGET [-o FILE] [--data FILE] [--server URL] ")
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="path and query, such as '/v1/encodings/rope.npy?length=4096&dim=128'",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="-",
        help="file to write, complete or not at all (default: -, standard output)",
    )
    parser.add_argument(
        "--data", metavar="FILE", help="body to POST: .json, .npy or .safetensors; - reads standard input"
    )
    parser.add_argument("--server", metavar="URL", help="ask this server instead, such as http://127.0.0.1:8000")


def _add_key(commands: "argparse._SubParsersAction[Parser]") -> None:
    parser = _add_command(commands, "key", "print a new API key, and the line of --api-keys that lets it in", "NAME ")
    parser.add_argument(
        "name", metavar="NAME", type=_key_name, help="whom the key is for: up to 64 letters, digits, dots, - and _"
    )


def _key_name(text: str) -> str:
    if not re.fullmatch(KEY_NAME, text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text[:64]!r} is no name: ci or team-a would do")
    return text


def _add_command(commands: "argparse._SubParsersAction[Parser]", name: str, summary: str, operands: str = "") -> Parser:
    description = f"{summary[0].upper()}{summary[1:]}."
    parser = commands.add_parser(
        name,
        help=summary,
        usage=f"{NAME} {name} {operands}[settings]",
        description=description,
        epilog=EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    _add_settings(parser)
    return parser


def _metavar(name: str) -> str:
    choices = get_args(Settings.model_fields[name].annotation)
    return "|".join(choices) or name.rpartition("_")[2].upper()


def _add_settings(parser: Parser) -> None:
    group = parser.add_argument_group("settings")
    for name, field in Settings.model_fields.items():
        group.add_argument(
            flag(name),
            metavar=_metavar(name),
            default=argparse.SUPPRESS,
            help=f"{field.description} ({takes(name)}; {variable(name)}; default: {show_default(name)})",
        )
