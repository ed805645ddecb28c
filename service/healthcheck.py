"""Asks the running server whether it is alive; the container's health check, light enough to run often."""

import http.client

from service.settings import Settings

SECONDS = 3.0
# A server that listens on every address is asked on the loopback one.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_alive(settings: Settings) -> bool:
    """Say whether `GET /health/live` answers 200 within three seconds."""
    connection = http.client.HTTPConnection(LOOPBACK.get(settings.host, settings.host), settings.port, timeout=SECONDS)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
