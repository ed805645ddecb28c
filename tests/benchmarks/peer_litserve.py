"""LitServe answering with the table. Runs under an interpreter of its own: `python peer_litserve.py PORT`."""

import io
import sys

import litserve
import numpy as np
from fastapi import Response


class Table(litserve.LitAPI):  # type: ignore[misc]  # it is not installed where types are checked
    """One worker on the processor."""

    def setup(self, device: str) -> None:
        """Nothing to load."""

    def decode_request(self, request: dict[str, int]) -> tuple[int, int]:
        return request["length"], request["dim"]

    def predict(self, asked: tuple[int, int]) -> bytes:
        length, dim = asked
        angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
        values = np.empty((length, dim), np.float32)
        values[:, 0::2], values[:, 1::2] = np.sin(angles), np.cos(angles)
        file = io.BytesIO()
        np.save(file, values)
        return file.getvalue()

    def encode_response(self, output: bytes) -> Response:
        return Response(output, media_type="application/octet-stream")


if __name__ == "__main__":
    server = litserve.LitServer(Table(), accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[1]), num_api_servers=1, generate_client_file=False, log_level="warning")
