"""A process that can open no way out: from `seal` on, asking the kernel for a socket or a connection ends it (SIGSYS).

    python -m tests.sealed serve            a server on a free port, whose number it prints
    python -m tests.sealed get FOLDER TARGET...    `posenc get` of each into a numbered file

The listening socket is opened before, and connections that come in need no new one. Linux alone can do this.
"""

import ctypes
import os
import platform
import sys
from pathlib import Path

# The numbers of socket, connect and seccomp.
CALLS = {"x86_64": (41, 42, 317), "aarch64": (198, 203, 277)}
NO_NEW_PRIVILEGES, FILTER, EVERY_THREAD = 38, 1, 1
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000


class Instruction(ctypes.Structure):
    """One of the filter's (struct sock_filter)."""

    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class Program(ctypes.Structure):
    """The filter (struct sock_fprog)."""

    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def seal() -> None:
    """Allow all of this process, and of those that it starts, but to open a way to anywhere."""
    socket, connect, seccomp = CALLS[platform.machine()]
    filter_ = (Instruction * 5)(
        Instruction(LOAD_NUMBER, 0, 0, 0),
        Instruction(JUMP_IF_EQUAL, 2, 0, socket),
        Instruction(JUMP_IF_EQUAL, 1, 0, connect),
        Instruction(RETURN, 0, 0, ALLOW),
        Instruction(RETURN, 0, 0, KILL),
    )
    library = ctypes.CDLL(None, use_errno=True)
    done = library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    program = ctypes.byref(Program(len(filter_), filter_))
    if not done or library.syscall(seccomp, FILTER, EVERY_THREAD, program) != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def serve() -> int:
    from service.server import bind, work  # noqa: PLC0415 - loaded as the command loads it
    from service.settings import Settings  # noqa: PLC0415

    settings = Settings(port=0, drain_seconds=0)
    sockets = bind(settings)
    print(sockets[0].getsockname()[1], flush=True)
    seal()
    return work(settings, sockets)


def get(folder: str, *targets: str) -> int:
    from service.command import main  # noqa: PLC0415

    seal()
    return max(main(["get", target, "-o", str(Path(folder) / str(n))]) for n, target in enumerate(targets))


def reach_out() -> int:
    """What must not be possible."""
    import socket  # noqa: PLC0415

    seal()
    os.write(1, b"sealed\n")
    return socket.socket().fileno()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "get":
        sys.exit(get(*arguments))
    sys.exit(serve() if command == "serve" else reach_out())
