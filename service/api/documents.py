"""Small JSON documents that never change while the process runs, with their ETag."""

from hashlib import blake2b
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.api.caching import FRESH, condition, encoded
from service.api.problems import precondition_failed
from service.api.replies import Bytes


class Fixed:
    """Bytes that were made once, answered with validators."""

    def __init__(self, content: bytes, media_type: str, *headers: tuple[str, str]) -> None:
        self.content = content
        self.tag = f'"{blake2b(content, digest_size=16).hexdigest()}"'
        common = [("ETag", self.tag), ("Cache-Control", FRESH), *headers]
        self.unmodified = encoded(common)
        self.headers = encoded([*common, ("Content-Type", media_type), ("Content-Length", str(len(content)))])

    def answer(self, request: Request) -> Response:
        met = condition(request.scope["headers"], self.tag)
        if met == "failed":
            raise precondition_failed()
        if met == "unmodified":
            return Bytes(304, self.unmodified)
        return Bytes(200, self.headers, self.content)


def fixed_json(document: Any) -> Fixed:
    return Fixed(orjson.dumps(document), "application/json")
