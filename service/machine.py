"""What this machine, or the container, lets the service have: cores and memory; and settings that fit in them.

A container's limits are control groups: of version 2 `memory.max` and `cpu.max`, of version 1 `memory.limit_in_bytes`,
`cpu.cfs_quota_us` and `cpu.cfs_period_us`. The tightest on the way from the process's own group to the root holds.
"""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from service.settings import Settings

ROOT = Path("/")
# Without any work: modules, models, the catalogue, matplotlib, and what streaming leaves with the allocator.
PROCESS_BYTES = 128 << 20
PARTNER_BYTES = 80 << 20
DRAWER_BYTES = 64 << 20
# Where less than this is left, one more process would take what answers need.
WORTH_BYTES = 96 << 20
PROCESSES = {"drawer": DRAWER_BYTES, "partner": PARTNER_BYTES}
# Of what is left when its turn comes, which part a size may take.
PARTS = {"table_cache_bytes": 4, "reply_cache_bytes": 3, "memory_bytes": 1}
# The least that any answer is made in.
LEAST_WORK_BYTES = 16 << 20
# What is not counted: gaps of the allocator, parts of bodies that wait, what the kernel holds for clients.
SLACK = 0.8
# Version 1 says "unlimited" as a number of pages near 2^63.
UNLIMITED_BYTES = 1 << 60

log = logging.getLogger("posenc.machine")


def cores(root: Path = ROOT) -> int:
    """How many this process may use: its affinity, and its container's share of time, rounded up."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [math.ceil(share) for share in _cpu_shares(root)]
    return max(1, min([bound, *shares]))


def memory_bytes(root: Path = ROOT) -> int:
    """What this process and its children may take together: the container's limit, or the machine's memory."""
    limits = [limit for limit in _memory_limits(root) if limit < UNLIMITED_BYTES]
    return min([_physical_bytes(), *limits])


def fitted(settings: Settings, memory: int, threads: int) -> Settings:
    """The settings, in which sizes that were not given are as large as the memory has place for, up to their defaults.

    Caches get a quarter each of what the processes leave, and the work under way the rest.
    """
    given = settings.model_fields_set
    free = int(SLACK * memory / settings.workers) - PROCESS_BYTES
    fits: dict[str, object] = {}
    wanted = {"drawer": settings.drawer == "on", "partner": wants_partner(settings, threads)}
    for name, size in PROCESSES.items():
        if wanted[name] and name not in given and free - size < WORTH_BYTES:
            fits[name] = "off"
        elif wanted[name]:
            free -= size
    free -= sum(getattr(settings, name) for name in PARTS if name in given)
    for name, part in PARTS.items():
        if name not in given:
            least = LEAST_WORK_BYTES if part == 1 else 0
            size = min(getattr(settings, name), max(free // part, least))
            fits[name] = size
            free -= size
    found = settings.model_copy(update=fits)
    if free < 0:
        log.warning("%s of memory is less than %s", shown(memory), _account(found))
    elif found != settings:
        log.info("%s of memory is enough for %s", shown(memory), _account(found))
    return found


def wants_partner(settings: Settings, threads: int) -> bool:
    """Whether a second process would find a core that no server process needs."""
    return settings.partner == "on" and min(settings.threads or threads, threads) > settings.workers


def shown(size: int) -> str:
    """In whole MiB."""
    return f"{size >> 20} MiB"


def _account(settings: Settings) -> str:
    caches = settings.table_cache_bytes + settings.reply_cache_bytes
    each = f"{shown(PROCESS_BYTES)} of a process, {shown(settings.memory_bytes)} for work, {shown(caches)} for caches"
    more = " and ".join(name for name in PROCESSES if getattr(settings, name) == "on") or "no other process"
    return f"{settings.workers} times {each}, and {more}"


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            yield from _numbers(folder / name)[:1]


def _cpu_shares(root: Path) -> Iterator[float]:
    for folder in _groups(root, "cpu"):
        found = _numbers(folder / "cpu.max") or (
            _numbers(folder / "cpu.cfs_quota_us") + _numbers(folder / "cpu.cfs_period_us")
        )
        if len(found) == 2 and min(found) > 0:
            yield found[0] / found[1]


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups that may bound it, from its own to the root."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            # Within a container the path may be the host's, and its folder be missing: then the root's is its own.
            top = root / "sys/fs/cgroup" / (controller if controllers else "")
            own = top / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _numbers(file: Path) -> list[int]:
    """The whole numbers in a file; none where it is missing, or says `max`."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []
