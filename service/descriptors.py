"""A word in the log when connections use up the process's descriptors: whoever comes then is dropped unheard."""

import logging
import os
import sys

if sys.platform != "win32":  # pragma: no branch - the tests run on nothing else
    import resource

# Of those left, how many work may take for itself: pipes, files, sockets of its own.
KEPT = 4
QUIET_SECONDS = 60.0

log = logging.getLogger("posenc.descriptors")


def unused() -> int | None:
    """How many more this process may open; None where that cannot be told."""
    if sys.platform == "win32":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return None if limit == resource.RLIM_INFINITY else limit - len(os.listdir("/dev/fd"))
    except OSError:  # on Linux it leads into /proc, which a sandbox may lack
        return None


class Descriptors:
    """Those that are left for connections, counted before there are any."""

    def __init__(self, left: int | None) -> None:
        self.left = left
        self._quiet_until = 0.0

    def watch(self, connections: int, now: float) -> None:
        """Tell when there are as many connections as there can be, and not again at once."""
        if self.left is None or connections < self.left - KEPT or now < self._quiet_until:
            return
        self._quiet_until = now + QUIET_SECONDS
        log.warning(
            "%d connections are open, and descriptors for %d are all there are: further ones are dropped; "
            "allow more (ulimit -n), or close idle ones sooner (POSENC_KEEP_ALIVE_SECONDS)",
            connections,
            self.left,
        )
