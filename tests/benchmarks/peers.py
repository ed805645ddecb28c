"""The peers that the service is measured against: what one would write without it."""

import numpy as np
from fastapi import FastAPI, Response

TABLE = np.sin(np.arange(16384, dtype=np.float32)).tobytes()

bare = FastAPI()


@bare.get("/table")
async def table() -> Response:
    """64 KiB of prepared bytes from a plain FastAPI route."""
    return Response(TABLE, media_type="application/octet-stream")
