"""What a replica takes of a container's memory."""

from service.machine import PROCESS_BYTES, PROCESSES
from service.settings import Settings


def taken(settings: Settings) -> int:
    """By its processes, its caches and the work under way, when all of them are full."""
    held = settings.memory_bytes + settings.table_cache_bytes + settings.reply_cache_bytes
    return PROCESS_BYTES + sum(size for name, size in PROCESSES.items() if getattr(settings, name) == "on") + held
