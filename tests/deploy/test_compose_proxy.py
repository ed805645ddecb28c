"""The proxy as compose starts it: its user without rights, the image's folders, the mounts, the very configuration."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.dockerfile import ROOT
from tests.deploy.test_files import services
from tests.tools import program


class Owned(NamedTuple):
    """A folder of an image: a new volume that is mounted there begins as it is."""

    user: int
    group: int
    mode: int


CACHE = "/var/cache/nginx"
# As their Dockerfiles leave it: the package's, and after `chown -R 101:0` and `chmod -R g+w`.
IMAGES = {"nginx": Owned(0, 0, 0o755), "nginxinc/nginx-unprivileged": Owned(101, 0, 0o775)}
PROXY = services()["proxy"]
TABLE = "http://127.0.0.1:8080/v1/encodings/sinusoidal.npy?length=4&dim=8"


def owner() -> Owned:
    """Of the folder of the cache in the image that compose names."""
    return IMAGES[PROXY["image"].partition(":")[0]]


def test_the_volume_of_the_cache_is_the_users_own() -> None:
    assert f"cache:{CACHE}" in PROXY["volumes"]
    assert CACHE in (ROOT / "deploy" / "nginx.conf").read_text()
    user, _, group = PROXY["user"].partition(":")
    assert (int(user), int(group)) == (owner().user, 101)


def test_what_is_in_memory_is_bounded() -> None:
    """A mount without a size takes half of the machine's memory."""
    (mount,) = PROXY["tmpfs"]
    path, _, options = mount.partition(":")
    assert path == "/tmp"
    assert options.startswith("size=")


def container(etc: Path, cache: Path) -> list[str]:
    """nginx in the proxy's container, as far as this machine's programs are those of the image."""
    system = [word for path in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", path, path)]
    folders = [word for path in ("/var", "/var/cache") for word in ("--perms", "0755", "--dir", path)]
    mounts = ["--ro-bind", str(etc), "/etc", "--bind", str(cache), CACHE, "--perms", "1777", "--tmpfs", "/tmp"]
    user, _, group = PROXY["user"].partition(":")
    rights = ["--reuid", user, "--regid", group, "--clear-groups", "--bounding-set", "-all", "--no-new-privs"]
    return [
        *(program("bwrap"), *system, *folders, *mounts, "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/"),
        *(program("setpriv"), *rights, "--", *PROXY["command"]),
    ]


@pytest.mark.tool
@pytest.mark.skipif(os.getuid() != 0, reason="folders are given to other users")
def test_the_proxy_keeps_answers_as_a_user_without_rights_and_starts_without_replicas(tmp_path: Path) -> None:
    etc, cache = tmp_path / "etc", tmp_path / "cache"
    (etc / "posenc").mkdir(parents=True)
    (etc / "posenc" / "nginx.conf").write_bytes((ROOT / "deploy" / "nginx.conf").read_bytes())
    named = PROXY["extra_hosts"]
    (etc / "hosts").write_text("".join(f"{address} {name}\n" for name, address in named.items()))
    (etc / "nsswitch.conf").write_text("hosts: files\n")
    cache.mkdir(mode=0o700)
    os.chown(cache, owner().user, owner().group)
    cache.chmod(owner().mode)
    replica = [sys.executable, "-m", "service", "serve", "--host", "0.0.0.0", "--log-level", "warning"]
    addresses = "; ".join(f"ip address add {address}/32 dev lo" for address in named.values())
    patient = "curl -s -o /dev/null --retry 20 --retry-delay 1 --retry-connrefused"
    told = alone(f"""
        {addresses}
        {shlex.join(replica)} & {shlex.join(container(etc, cache))} &
        {patient} http://127.0.0.1:8000/health/ready
        {patient} '{TABLE}'
        curl -s -i -o - '{TABLE}' | head -n 20 | tr -d '\\0'
    """)
    assert "X-Cache: HIT" in told
    told = alone(f"""
        {shlex.join(container(etc, cache))} &
        {patient} '{TABLE}'
        curl -s -i -o - '{TABLE}' | head -n 20 | tr -d '\\0'
        curl -s -i -o - '{TABLE}&base=7'
    """)
    assert "X-Cache: HIT" in told
    assert "HTTP/1.1 503" in told


def alone(script: str) -> str:
    """What a script prints that has a network of its own, for ports and addresses are those of the files; all ends
    with it."""
    assert program("ip")
    own = [program("bwrap"), "--unshare-net", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/"]
    command = [*own, "--cap-add", "ALL", "--proc", "/proc", "bash", "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert b"emerg" not in done.stderr, done.stderr
    return done.stdout.decode(errors="replace") + done.stderr.decode()
