"""BentoML answering with the table. Runs under an interpreter of its own: `bentoml serve peer_bentoml:Table`."""

import io
from typing import cast

import bentoml
import numpy as np
from starlette.responses import Response


@bentoml.service(workers=1)
class Table:
    """One worker."""

    @bentoml.api  # type: ignore[untyped-decorator]  # it is not installed where types are checked
    def table(self, length: int, dim: int) -> bytes:
        """The table as npy."""
        angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
        values = np.empty((length, dim), np.float32)
        values[:, 0::2], values[:, 1::2] = np.sin(angles), np.cos(angles)
        file = io.BytesIO()
        np.save(file, values)
        # The annotation says what the file holds: BentoML reads it.
        return cast(bytes, Response(file.getvalue(), media_type="application/octet-stream"))
