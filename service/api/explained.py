"""Pages that explain: every scheme with its picture, formula, paper and users, and who uses which convention.

All of it is in the records; these pages are made of the same words as the catalogue.
"""

from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any, get_args
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api import markdown
from service.api.catalogue import names, unknown_scheme
from service.api.docs import framed
from service.api.documents import Fixed
from service.api.problems import Problem
from service.api.query import read_asked
from service.api.resources import Resources
from service.api.schemes import FAMILIES, address
from service.engine import SCHEMES
from service.engine.errors import EngineError
from service.engine.scheme import Scheme, Usage
from service.formats.format import Theme

# What an analysis is "used by" are models whose settings it can look at, not who computes it.
WITHOUT_USERS = {"analyses"}
SHOWN = {"length": "64", "dim": "64", "heads": "8"}


def install(app: FastAPI, resources: Resources) -> None:
    """`/schemes`, `/schemes/{name}` and `/conventions`; pages are made when first asked for, on the work pool."""
    made: dict[tuple[str, str], Fixed] = {}

    async def answer(request: Request, title: str, make: Callable[[], Fixed]) -> Response:
        name = request.path_params.get("name", "")
        if (title, name) not in made:
            made[title, name] = await resources.work(make)
        return made[title, name].answer(request)

    async def listed(request: Request) -> Response:
        title = "Schemes explained"
        return await answer(request, title, lambda: framed(title, "", scheme_list()))

    async def one(request: Request) -> Response:
        name: str = request.path_params["name"]
        if name not in names():
            raise unknown_scheme(name)
        return await answer(
            request, "", lambda: framed(name, "../", scheme_page(name, pictured=not resources.gate.keyed))
        )

    async def used(request: Request) -> Response:
        title = "Which library uses which convention"
        return await answer(request, title, lambda: framed(title, "", conventions()))

    app.router.add_route("/schemes", listed, methods=["GET"])
    app.router.add_route("/schemes/{name}", one, methods=["GET"])
    app.router.add_route("/conventions", used, methods=["GET"])


def scheme_list() -> str:
    """Every scheme in a sentence or three, family by family."""
    parts = ["<h1>Schemes explained</h1>", "<p>What each is and what it is for; a page for each tells more.</p>"]
    for family, schemes in _families():
        parts += [f"<h2>{escape(family)}</h2>", f"<p>{escape(FAMILIES[family])}</p>", "<dl>"]
        parts += [
            f'<dt><a href="schemes/{each.name}#{family}">{escape(each.title)}</a></dt>'
            f"\n<dd>{escape(each.explanation)}</dd>"
            for each in schemes
        ]
        parts.append("</dl>")
    return "\n".join(parts)


def scheme_page(name: str, *, pictured: bool = True) -> str:
    """The schemes of a name: one in most families, several where a table is also applied. No image sends a key: where
    one is wanted, the explorer has the pictures, and the page has none."""
    schemes = [scheme for scheme in SCHEMES if scheme.name == name]
    parts = [f"<h1>{escape(name)}</h1>"]
    if len(schemes) > 1:
        links = [f'<li><a href="#{each.family}">{escape(each.title)}</a></li>' for each in schemes]
        parts += ['<ul class="contents">', *links, "</ul>"]
    for scheme in schemes:
        parts += _section(scheme, pictured)
    return "\n".join([*parts, '<p><a href="../schemes">All schemes</a></p>'])


def conventions() -> str:
    """Which library or model uses which parameters of which scheme."""
    parts = [
        "<h1>Which library uses which convention</h1>",
        "<p>Two programs can mean different numbers by one name. These are the parameters that give what each of them "
        "computes, and a name for them where there is one: <code>preset=</code> takes it. What is not said is the "
        "default.</p>",
    ]
    for family, schemes in _families():
        told = [each for each in schemes if each.used_by and family not in WITHOUT_USERS]
        if told:
            parts.append(f"<h2>{escape(family)}</h2>")
        for scheme in told:
            link = f'<a href="schemes/{scheme.name}#{family}">{escape(scheme.title)}</a>'
            parts += [f"<h3>{link}</h3>", _users(scheme, "")]
    return "\n".join(parts)


def _families() -> Iterator[tuple[str, list[Scheme[Any, Any]]]]:
    for family in dict.fromkeys(scheme.family for scheme in SCHEMES):
        yield family, [scheme for scheme in SCHEMES if scheme.family == family]


def _section(scheme: Scheme[Any, Any], pictured: bool) -> Iterator[str]:
    where = f"{scheme.family}/{scheme.name}"
    yield f'<h2 id="{scheme.family}">{escape(scheme.title)}</h2>'
    yield f"<p>{escape(scheme.explanation)}</p>"
    shown = _enough(next(iter(_examples(scheme)), {}))
    if shown and pictured:
        yield _picture(scheme, shown)
    link = explorer(address(scheme), shown, "../")
    yield f'<p><a href="{escape(link)}">Change its parameters in the explorer</a></p>'
    yield f"<h3>How it is computed</h3>\n{markdown.html(scheme.description)}"
    yield f"<h3>Where it comes from</h3>\n<p>{escape(scheme.reference)}</p>"
    each = scheme.properties.items()
    said = "".join(f"<dt>{escape(name)}</dt>\n<dd>{escape(text)}</dd>\n" for name, text in each)
    yield f"<h3>What to know of it</h3>\n<dl>\n{said}</dl>"
    title = "Models to look at" if scheme.family in WITHOUT_USERS else "Who uses it, and how"
    yield f"<h3>{title}</h3>\n{_users(scheme, '../')}"
    yield f"<p>Its address is <code>/v1/{where}</code>.</p>"


def _picture(scheme: Scheme[Any, Any], query: Mapping[str, str]) -> str:
    """In the colours of the page, and as narrow as its text."""
    light, dark = (
        escape(f"..{address(scheme)}.svg?{urlencode({**query, 'theme': theme, 'picture_width': 'narrow'}, safe=',:')}")
        for theme in get_args(Theme)
    )
    return (
        f'<p><picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" loading="lazy" alt="{escape(scheme.title)}, as a heatmap"></picture></p>'
    )


def _enough(query: Mapping[str, str]) -> dict[str, str]:
    """An example with enough rows and channels to be a picture, where it says no more than sizes."""
    if "length" in query and set(query) <= {"length", "dim", "heads", "offset"}:
        return {**query, **{name: size for name, size in SHOWN.items() if name in query}}
    return dict(query)


def _examples(scheme: Scheme[Any, Any]) -> list[dict[str, str]]:
    """The examples that an address alone asks for."""
    return [dict(each.query) for each in scheme.examples if each.body is None]


def _users(scheme: Scheme[Any, Any], root: str) -> str:
    rows = "\n".join(_user(scheme, usage, root) for usage in scheme.used_by)
    head = '<tr><th scope="col">who</th><th scope="col">parameters</th></tr>'
    label = escape(f"Who uses {scheme.family}/{scheme.name}")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n{head}\n{rows}\n</table></div>'
    )


def _user(scheme: Scheme[Any, Any], usage: Usage, root: str) -> str:
    said = " ".join(f"<code>{escape(f'{name}={value}')}</code>" for name, value in usage.parameters.items())
    told = said or "the defaults"
    if usage.preset:
        told = f"<code>{escape(f'preset={usage.preset}')}</code>: {told}"
    query = looked_at(scheme, usage)
    who = markdown.plain(usage.who)
    if query is not None:
        who = f'<a href="{escape(explorer(address(scheme), query, root))}">{who}</a>'
    return f"<tr><td>{who}</td><td>{told}</td></tr>"


def looked_at(scheme: Scheme[Any, Any], usage: Usage) -> dict[str, str] | None:
    """A request that shows someone's convention: the first example that goes with their parameters."""
    theirs = {"preset": usage.preset} if usage.preset else dict(usage.parameters)
    for example in _examples(scheme):
        query = {name: value for name, value in example.items() if name not in usage.parameters} | theirs
        if _stands(scheme, query):
            return query
    return None


def _stands(scheme: Scheme[Any, Any], query: Mapping[str, str]) -> bool:
    try:
        scheme.tensors(read_asked(scheme, urlencode(query).encode(), blocks=()).params, {})
    except (EngineError, Problem):
        return False
    return True


def explorer(path: str, query: Mapping[str, str], root: str) -> str:
    """Where the explorer shows an answer, as its fragment has it."""
    whole = f"{path}?{urlencode(query, safe=',:')}" if query else path
    return f"{root or './'}#side={quote(whole, safe='/?=,:')}"
