"""Pages for people: the explorer, Swagger UI served by ourselves, what problem types mean; and /openapi.json.

Every address inside the pages is relative, so they work behind a proxy that strips a path prefix. Nothing is loaded
from anywhere else, and the Content-Security-Policy says so.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Literal

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

import service
from service.api import needs_form
from service.api.documents import Fixed
from service.api.gate import path_of
from service.api.names import nearest_names
from service.api.problem_types import PROBLEMS, ProblemType
from service.api.problems import Problem, echo

PACKAGE = Path(service.__file__).parent
WEB = PACKAGE / "web"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
GUARDS = (
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Permissions-Policy", "accelerometer=(), camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
HTML = "text/html; charset=utf-8"
CSS = "text/css; charset=utf-8"
JAVASCRIPT = "text/javascript; charset=utf-8"

PAGE_CSS = {"/web/page.css": ("page.css", CSS)}
EXPLORER_MODULES = (
    "advice",
    "asking",
    "body",
    "examples",
    "fitting",
    "form",
    "key",
    "main",
    "models",
    "picture",
    "rows",
    "safetensors",
    "side",
    "snippets",
    "state",
)
EXPLORER = {
    "/web/explorer.css": ("explorer.css", CSS),
    **{f"/web/explorer/{name}.js": (f"explorer/{name}.js", JAVASCRIPT) for name in EXPLORER_MODULES},
}
SWAGGER_UI = {
    "/docs": ("docs.html", HTML),
    "/web/docs.js": ("docs.js", JAVASCRIPT),
    "/web/swagger-ui.css": ("swagger-ui/swagger-ui.css", CSS),
    "/web/swagger-ui-bundle.js": ("swagger-ui/swagger-ui-bundle.js", JAVASCRIPT),
}


PATHS = frozenset(("/", "/conventions", "/openapi.json", "/problems", "/schemes", *PAGE_CSS, *EXPLORER, *SWAGGER_UI))


def is_page(scope: Scope) -> bool:
    """Whether a request asks for a page or what belongs to one, all of which is the same for everyone."""
    path = path_of(scope)
    return path in PATHS or path.removeprefix("/problems/") in PROBLEMS or path.startswith("/schemes/")


def install(app: FastAPI, docs: Literal["on", "off"], explorer: Literal["on", "off"]) -> None:
    """Add the pages, read when first asked for: Swagger UI, the OpenAPI document and the explorer where they are on.
    What a problem means is told in any case: every refusal leads there."""
    _add_files(app, PAGE_CSS)
    _add(app, "/problems", _problem_list)
    app.router.add_route("/problems/{slug}", _problem, methods=["GET"])
    if explorer == "on":
        _add(app, "/", lambda: _page(_landing(docs)))
        _add_files(app, EXPLORER)
    if docs == "on":
        _add(app, "/openapi.json", lambda: Fixed(committed(), "application/json"))
        _add_files(app, SWAGGER_UI)


def _add_files(app: FastAPI, files: dict[str, tuple[str, str]]) -> None:
    for path, (name, media_type) in files.items():
        _add(app, path, partial(_file, name, media_type))


def _add(app: FastAPI, path: str, make: Callable[[], Fixed]) -> None:
    made = cache(make)

    async def answer(request: Request) -> Response:
        return made().answer(request)

    app.router.add_route(path, answer, methods=["GET"])


def committed() -> bytes:
    """The committed OpenAPI document: inside the package in a wheel, beside it in a source tree."""
    places = [folder / "openapi" / "openapi.json" for folder in (PACKAGE, PACKAGE.parent)]
    return next(place for place in places if place.is_file()).read_bytes()


def _file(name: str, media_type: str) -> Fixed:
    return Fixed((WEB / name).read_bytes(), media_type, *GUARDS)


def _page(text: str) -> Fixed:
    return Fixed(text.encode(), HTML, *GUARDS)


def _landing(docs: Literal["on", "off"]) -> str:
    """The landing page, without the links to what is off."""
    text = (WEB / "index.html").read_text(encoding="utf-8").replace("<!--needs-->", needs_form.fields())
    return text if docs == "on" else re.sub("<!--docs-->.*?<!--/docs-->", "", text, flags=re.DOTALL)


_FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}web/page.css">
</head>
<body>
<nav aria-label="Pages"><p><a href="{root}.">Posenc</a></p></nav>
<main>
{content}
</main>
</body>
</html>
"""


def framed(title: str, root: str, content: str) -> Fixed:
    """A page around its content; `root` leads from it to the first page."""
    return _page(_FRAME.format(title=escape(title), root=root, content=content))


# Problem types


async def _problem(request: Request) -> Response:
    slug: str = request.path_params["slug"]
    if slug not in PROBLEMS:
        raise _unknown(slug)
    return _explained(slug).answer(request)


@cache
def _explained(slug: str) -> Fixed:
    kind = PROBLEMS[slug]
    content = (
        f"<h1>{escape(kind.title)}</h1>\n<p>HTTP status {kind.status}, problem type <code>{kind.slug}</code></p>\n"
        f"<p>{escape(kind.meaning)}</p>\n"
        "<p>The answer that led here says in <code>detail</code> and <code>errors</code> what was wrong with the "
        "request and what would do; <code>instance</code> is the request's id.</p>\n"
        '<p><a href="../problems">All problem types</a></p>'
    )
    return framed(kind.title, "../", content)


def _problem_list() -> Fixed:
    entries = "\n".join(_listed(kind) for kind in PROBLEMS.values())
    content = f"<h1>Problem types</h1>\n<p>Every refusal is a problem document (RFC 9457).</p>\n<dl>\n{entries}\n</dl>"
    return framed("Problem types", "", content)


def _listed(kind: ProblemType) -> str:
    link = f'<a href="problems/{kind.slug}"><code>{kind.slug}</code></a>'
    return f"<dt>{kind.status} {link}: {escape(kind.title)}</dt>\n<dd>{escape(kind.meaning)}</dd>"


def _unknown(slug: str) -> Problem:
    near = nearest_names(slug, list(PROBLEMS))
    detail = f"{echo(slug)} is no problem type; known are {', '.join(dict.fromkeys([*near, *PROBLEMS]))}"
    fault = {"parameter": "slug", "code": "unknown", "detail": detail}
    return Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])
