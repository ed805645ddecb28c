"""Versions of our dependencies that are known to be bad: the first good one, and who says so."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advisory:
    """What was wrong with a package before a version."""

    package: str
    fixed: str
    name: str
    what: str


ADVISORIES = (
    Advisory("certifi", "2024.7.4", "CVE-2024-39689", "a root that is no longer trusted"),
    Advisory("fastapi", "0.109.1", "CVE-2024-24762", "a header that takes quadratic time"),
    Advisory("fonttools", "4.43.0", "CVE-2023-45139", "external entities in XML are read"),
    Advisory("fonttools", "4.60.2", "CVE-2025-66034", "files are written to anywhere"),
    Advisory("h11", "0.16.0", "CVE-2025-43859", "malformed chunks are taken: requests can be smuggled"),
    Advisory("httpx", "0.23.0", "CVE-2021-41945", "addresses are not checked where they are joined"),
    Advisory("idna", "3.7", "CVE-2024-3651", "a name that takes quadratic time"),
    Advisory("numpy", "1.16.3", "CVE-2019-6446", "pickles are loaded unasked"),
    Advisory("numpy", "1.22.0", "CVE-2021-34141", "an incomplete comparison of strings"),
    Advisory("orjson", "3.9.15", "CVE-2024-27454", "reading nested JSON recurses without bound"),
    Advisory("orjson", "3.11.6", "CVE-2025-67221", "writing nested JSON recurses without bound"),
    Advisory("pillow", "10.2.0", "CVE-2023-50447", "code is run from an expression"),
    Advisory("pillow", "10.3.0", "CVE-2024-28219", "a buffer overflow"),
    Advisory("pillow", "11.3.0", "CVE-2025-48379", "a buffer overflow"),
    Advisory("pydantic", "2.4.0", "CVE-2024-3772", "an address of mail that takes exponential time"),
    Advisory("setuptools", "70.0.0", "CVE-2024-6345", "code is run from an address"),
    Advisory("setuptools", "78.1.1", "CVE-2025-47273", "files are written to anywhere"),
    Advisory("starlette", "0.40.0", "CVE-2024-47874", "a form without a bound"),
    Advisory("starlette", "0.47.2", "CVE-2025-54121", "large files in forms hold up the loop"),
    Advisory("starlette", "0.49.1", "CVE-2025-62727", "a Range that takes quadratic time"),
    Advisory("starlette", "1.0.1", "CVE-2026-48710", "the Host header decides what path a request seems to have"),
    Advisory("starlette", "1.3.1", "CVE-2026-54283", "bounds on forms are passed over"),
    Advisory("uvicorn", "0.11.7", "CVE-2020-7695", "header lines can be slipped into answers"),
)
