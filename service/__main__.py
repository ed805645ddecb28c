"""`python -m service` is the `posenc` command.

A server that is told to stop while it is still being loaded has nothing to finish. As the first process of a container
it would not even hear of it: there a signal that no one has asked for is dropped.
"""

import os
import signal
import sys
from types import FrameType

DONE = 0


def main() -> int:
    """Run the command, and end in good order if a signal comes before there is a server."""
    if sys.argv[1:2] == ["serve"]:
        for sig in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sig, _end)
    from service.command import main as run

    return run()


def _end(sig: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os._exit(DONE)


if __name__ == "__main__":
    sys.exit(main())
