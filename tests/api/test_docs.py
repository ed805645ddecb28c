"""The pages for people: complete, guarded, and without an address outside."""

import io
import re
from collections.abc import Iterator
from copy import copy
from html import unescape
from urllib.parse import urljoin

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response
from PIL import Image as Pillow
from starlette.applications import Starlette
from starlette.routing import Mount

from service.access import new_key
from service.api import docs
from service.api.problem_types import PROBLEMS
from tests.clients import Client, in_process, settings
from tests.deploy.dockerfile import ROOT

PAGES = ["/", "/docs", "/problems", "/problems/not-found", "/schemes", "/schemes/alibi", "/conventions"]
ASSETS = [
    "/web/page.css",
    "/web/explorer.css",
    *(f"/web/explorer/{name}.js" for name in docs.EXPLORER_MODULES),
    "/web/docs.js",
    "/web/swagger-ui.css",
    "/web/swagger-ui-bundle.js",
]


@pytest.fixture(scope="module")
def without_docs() -> Iterator[Client]:
    with in_process(settings(docs="off")) as client:
        yield client


def links(page: Response) -> list[str]:
    """Every address in a page, as it is written."""
    return [unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', page.text)]


@pytest.mark.parametrize("path", PAGES + ASSETS)
def test_a_page_is_guarded_and_cacheable(path: str, direct: Client) -> None:
    answer = direct.get(path)
    assert answer.status_code == 200
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "camera=()" in answer.headers["permissions-policy"]
    again = direct.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == answer.headers["content-security-policy"]
    head = direct.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == answer.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/problems", "text/html; charset=utf-8"),
        ("/web/page.css", "text/css; charset=utf-8"),
        ("/web/docs.js", "text/javascript; charset=utf-8"),
        ("/web/explorer.css", "text/css; charset=utf-8"),
        ("/web/explorer/main.js", "text/javascript; charset=utf-8"),
        ("/web/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ],
)
def test_a_page_has_its_media_type(path: str, media_type: str, direct: Client) -> None:
    assert direct.get(path).headers["content-type"] == media_type


@pytest.mark.parametrize("prefix", ["", "/prefix"])
@pytest.mark.parametrize("path", PAGES)
def test_every_link_is_relative_and_leads_somewhere(path: str, prefix: str, direct: Client) -> None:
    client = under(prefix, direct)
    page = client.get(prefix + path)
    found = [link for link in links(page) if link != "data:,"]
    assert found
    for link in found:
        assert not re.match(r"/|[a-z]+:", link), link
        assert client.get(urljoin(prefix + path, link)).status_code == 200, link


def under(prefix: str, client: Client) -> Client:
    """The same app below a path prefix, as a proxy would show it."""
    if not prefix:
        return client
    below = copy(client)
    mounted = Starlette(routes=[Mount(prefix, client.app)])
    below.http = AsyncClient(transport=ASGITransport(mounted), base_url="http://testserver")
    return below


def test_pages_need_no_script_or_style_of_their_own(direct: Client) -> None:
    for path in PAGES:
        text = direct.get(path).text
        assert not re.search(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son[a-z]+=", text), path


def test_the_landing_page_shows_addresses_that_can_be_copied(direct: Client) -> None:
    page = direct.get("/")
    copied = [unescape(address) for address in re.findall(r"<pre><a [^>]*>([^<]+)</a></pre>", page.text)]
    assert len(copied) == 3
    for address in copied:
        assert address.removeprefix("/") in links(page)
        assert direct.get(address).status_code == 200
    assert {"docs", "v1/schemes", "openapi.json", "problems"} <= set(links(page))


def test_docs_can_be_off(without_docs: Client) -> None:
    for path in ("/docs", "/openapi.json", "/web/docs.js", "/web/swagger-ui-bundle.js"):
        assert without_docs.get(path).status_code == 404, path
    page = without_docs.get("/")
    assert page.status_code == 200
    assert not {"docs", "openapi.json"} & set(links(page))
    assert "v1/schemes" in links(page)
    assert without_docs.get("/problems/overloaded").status_code == 200


def test_every_problem_type_is_explained(direct: Client) -> None:
    listed = direct.get("/problems")
    for slug, kind in PROBLEMS.items():
        assert f"problems/{slug}" in links(listed)
        page = unescape(direct.get(f"/problems/{slug}").text)
        for text in (kind.title, str(kind.status), kind.meaning):
            assert text in page
            assert text in unescape(listed.text)


def test_the_type_of_a_refusal_leads_to_its_page(client: Client) -> None:
    refused = client.get("/v1/encodings/rope?dim=7&length=3").json()
    page = client.get(refused["type"])
    assert page.status_code == 200
    assert refused["title"] in unescape(page.text)


def test_an_unknown_problem_type_is_refused_with_the_nearest(direct: Client) -> None:
    refused = direct.get("/problems/not-fuond")
    assert refused.status_code == 404
    (fault,) = refused.json()["errors"]
    assert fault["did_you_mean"] == "not-found"
    assert "did_you_mean" not in direct.get("/problems/zzzzzz").json()["errors"][0]


def test_every_module_of_the_explorer_is_served(direct: Client) -> None:
    files = sorted(path.name for path in (docs.WEB / "explorer").iterdir())
    assert [f"/web/explorer/{name}" for name in files] == sorted(path for path in ASSETS if "/explorer/" in path)
    for name in files:
        text = direct.get(f"/web/explorer/{name}").text
        assert set(re.findall(r'from "\./([^"]+)"', text)) <= set(files), name
        # Nothing is written into the page as markup, whatever a description or a value says.
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?:", text), name


def test_a_file_is_read_once(direct: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = direct.get("/web/page.css").content
    monkeypatch.setattr(docs, "WEB", None)
    assert direct.get("/web/page.css").content == first


def test_swagger_ui_is_that_of_the_readme_and_has_its_licence() -> None:
    folder = docs.WEB / "swagger-ui"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    version = re.search(r"`swagger-ui-dist` ([0-9]+[.][0-9]+[.][0-9]+)", readme)
    assert version is not None
    # The bundle names its own version; a copy of another one would not hold this one's.
    assert f'"{version[1]}"' in (folder / "swagger-ui-bundle.js").read_text(encoding="utf-8")
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8")
    assert "SmartBear" in (folder / "NOTICE").read_text(encoding="utf-8")


def test_installing_pages_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "WEB", None)
    monkeypatch.setattr(docs, "PACKAGE", None)
    docs.install(FastAPI(openapi_url=None), "on", "on")


OF_THE_EXPLORER = ("/", "/schemes", "/schemes/rope", "/conventions", "/web/explorer/main.js", "/web/explorer.css")
OF_THE_DOCS = ("/docs", "/openapi.json", "/web/docs.js", "/web/swagger-ui.css", "/web/swagger-ui-bundle.js")
OF_REFUSALS = ("/problems", "/problems/overloaded", "/problems/not-found", "/web/page.css")


@pytest.mark.parametrize("keys", ["", new_key("ci")[1]], ids=["open", "keyed"])
@pytest.mark.parametrize("docs_are", ["on", "off"])
@pytest.mark.parametrize("explorer_is", ["on", "off"])
def test_pages_can_be_taken_away_and_refusals_are_explained_all_the_same(
    explorer_is: str, docs_are: str, keys: str
) -> None:
    """As README and SECURITY.md say, nobody having a key."""
    expected = {
        **dict.fromkeys(OF_THE_EXPLORER, 200 if explorer_is == "on" else 404),
        **dict.fromkeys(OF_THE_DOCS, 200 if docs_are == "on" else 404),
        **dict.fromkeys(OF_REFUSALS, 200),
    }
    with in_process(settings(explorer=explorer_is, docs=docs_are, api_keys=keys)) as client:
        assert {path: client.get(path).status_code for path in expected} == expected


def test_whoever_switches_pages_off_is_told_which() -> None:
    """Every page that there is, and where README and SECURITY.md say what takes it away."""
    pages = {*OF_THE_EXPLORER, *OF_THE_DOCS, *OF_REFUSALS}
    assert docs.PATHS - {f"/web/explorer/{name}.js" for name in docs.EXPLORER_MODULES} <= pages
    assert {path for path in PAGES if path.count("/") == 1} < pages
    for text in ("README.md", "SECURITY.md"):
        said = " ".join((ROOT / text).read_text(encoding="utf-8").split())
        assert (
            "`--explorer off` takes away `/`, `/schemes`, the pages below it and `/conventions`; "
            "`--docs off` takes away `/docs` and `/openapi.json`. `/problems` and the pages below it "
        ) in said


def test_the_picture_without_javascript_has_the_size_that_the_page_says(direct: Client) -> None:
    found = re.search(r'<noscript>.*?<img src="(.*?)" width="(\d+)" height="(\d+)"', direct.get("/").text, re.DOTALL)
    assert found is not None
    picture = Pillow.open(io.BytesIO(direct.get(f"/{unescape(found[1])}").content))
    assert picture.size == (int(found[2]), int(found[3]))


def test_a_picture_may_run_nothing(direct: Client) -> None:
    """By itself, that is: within a page it could not anyway."""
    target = "/v1/encodings/sinusoidal.svg?length=5&dim=4"
    for _ in range(2):
        policy = direct.get(target).headers["content-security-policy"]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "<script" not in direct.get(target).text
    assert "content-security-policy" not in direct.get(target.replace(".svg", ".png")).headers
