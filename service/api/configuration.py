"""uvicorn's configuration, with our protocol in it."""

from typing import Any

import uvicorn

from service.api.protocol import Protocol
from service.settings import Settings


class Config(uvicorn.Config):
    """uvicorn's configuration, made from ours, which the protocol reads again for every connection.

    While `draining` every answer is the last of its connection: clients come back, to whoever serves then.
    """

    def __init__(self, app: Any, settings: Settings) -> None:
        super().__init__(
            app,
            http=Protocol,
            ws="none",
            loop="uvloop",
            interface="asgi3",
            log_config=None,
            access_log=False,
            workers=1,
            proxy_headers=False,
            server_header=False,
            root_path=settings.root_path,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.grace_seconds,
        )
        self.settings = settings
        self.draining = False
