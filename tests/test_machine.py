"""What a container allows is seen at the start, and sizes that were not given fit in it."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from service import machine
from service.machine import PROCESS_BYTES, PROCESSES, SLACK, cores, fitted, memory_bytes
from service.settings import Settings

MIB = 1 << 20
DEFAULTS = Settings()


@pytest.fixture(autouse=True)
def _a_large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)), raising=False)
    monkeypatch.setattr(machine, "_physical_bytes", lambda: 64 << 30)


def container(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A file system in which the kernel tells of these groups and their limits."""
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "memory", "threads"),
    [
        ("0::/\n", {"memory.max": "314572800\n", "cpu.max": "150000 100000\n"}, 300 * MIB, 2),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1000\n", "a/b/cpu.max": "max 100000\n"}, 1000, 64),
        ("0::/a/b\n", {"a/b/memory.max": "900\n", "a/memory.max": "1000\n", "a/cpu.max": "50000 100000"}, 900, 1),
        ("0::/host/path\n", {"memory.max": "2000\n"}, 2000, 64),
        ("0::/../..\n", {"memory.max": "2000\n"}, 2000, 64),
        (
            "9:name=systemd:/x\n4:memory:/docker/1\n2:cpuacct,cpu:/docker/1\n0::/\n",
            {"memory/memory.limit_in_bytes": "3000\n", "cpu/cpu.cfs_quota_us": "300000\n",
             "cpu/cpu.cfs_period_us": "100000\n"},
            3000,
            3,
        ),
        (
            "4:memory:/\n2:cpu:/\n",
            {"memory/memory.limit_in_bytes": "9223372036854771712\n", "cpu/cpu.cfs_quota_us": "-1\n",
             "cpu/cpu.cfs_period_us": "100000\n"},
            64 << 30,
            64,
        ),
        ("0::/\n", {"memory.max": "what\n", "cpu.max": "\n"}, 64 << 30, 64),
    ],
)  # fmt: skip
def test_the_tightest_limit_holds(
    groups: str, files: dict[str, str], memory: int, threads: int, tmp_path: Path
) -> None:
    root = container(tmp_path, groups, files)
    assert memory_bytes(root) == memory
    assert cores(root) == threads


def test_without_groups_the_machine_is_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_bytes(tmp_path) == 64 << 30
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores(tmp_path) == 3
    monkeypatch.undo()
    assert 0 < memory_bytes() < 1 << 50
    assert 0 < cores() <= (os.cpu_count() or 1)


def taken(settings: Settings) -> int:
    """What all processes take at the most, by the account that is kept."""
    each = PROCESS_BYTES + settings.memory_bytes + settings.table_cache_bytes + settings.reply_cache_bytes
    return settings.workers * (each + sum(size for name, size in PROCESSES.items() if getattr(settings, name) == "on"))


def test_where_there_is_enough_nothing_changes(caplog: pytest.LogCaptureFixture) -> None:
    assert fitted(DEFAULTS, 16 << 30, 2) == DEFAULTS
    assert caplog.messages == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("memory", [300, 512, 1024, 1536, 2048, 4096])
def test_what_is_not_given_fits(memory: int, workers: int) -> None:
    chosen = Settings(workers=workers)
    found = fitted(chosen, memory * MIB * workers, 4)
    assert taken(found) <= SLACK * memory * MIB * workers
    assert abs(found.table_cache_bytes - found.reply_cache_bytes) < MIB < found.table_cache_bytes
    assert found.memory_bytes > 48 * MIB
    assert found.drawer == found.partner == ("off" if memory < 512 else "on")
    kept = set(Settings.model_fields) - {"memory_bytes", "table_cache_bytes", "reply_cache_bytes", *PROCESSES}
    assert found.model_dump(include=kept) == chosen.model_dump(include=kept)


@pytest.mark.parametrize(
    "given", [{"memory_bytes": 32 * MIB}, {"reply_cache_bytes": 0}, {"table_cache_bytes": 100 * MIB}, {"partner": "on"}]
)
def test_what_is_given_stays(given: dict[str, Any]) -> None:
    found = fitted(Settings(**given), 512 * MIB, 4)
    assert found.model_dump(include=set(given)) == given
    assert taken(found) <= SLACK * 512 * MIB


def test_the_second_process_is_counted_only_where_there_is_one() -> None:
    assert fitted(DEFAULTS, 1024 * MIB, 1).memory_bytes > fitted(DEFAULTS, 1024 * MIB, 2).memory_bytes


def test_what_draws_pictures_comes_before_what_computes_beside() -> None:
    found = fitted(DEFAULTS, 384 * MIB, 4)
    assert (found.drawer, found.partner) == ("on", "off")
    given = fitted(Settings(drawer="on"), 300 * MIB, 4)
    assert (given.drawer, given.partner) == ("on", "off")
    assert taken(given) <= SLACK * 300 * MIB


def test_what_cannot_fit_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "posenc.machine")
    found = fitted(DEFAULTS, 100 * MIB, 2)
    assert (found.table_cache_bytes, found.reply_cache_bytes, found.memory_bytes) == (0, 0, 16 * MIB)
    fitted(Settings(memory_bytes=2**31), 1024 * MIB, 1)
    fitted(DEFAULTS, 512 * MIB, 1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert caplog.messages[0] == (
        "100 MiB of memory is less than 1 times 128 MiB of a process, 16 MiB for work, 0 MiB for caches, "
        "and no other process"
    )
