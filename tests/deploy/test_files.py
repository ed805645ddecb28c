"""The container's files, as far as they can be judged by reading."""

import fnmatch
import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from service.machine import SLACK, fitted
from service.settings import Settings, variable
from tests.deploy.dockerfile import ROOT, Instruction, build_and_final, read_stages
from tests.deploy.sizes import taken

BUILD, FINAL = build_and_final()


def compose() -> dict[str, Any]:
    """What compose says of a replica; all of them are alike but for their addresses."""
    replicas = [service | {"networks": None} for name, service in services().items() if name != "proxy"]
    assert replicas == 3 * replicas[:1]
    return dict(replicas[0])


def whole() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def services() -> dict[str, Any]:
    found: dict[str, Any] = whole()["services"]
    return found


def test_the_reader_knows_comments_flags_and_continued_lines() -> None:
    (stage,) = read_stages('# note\nFROM a:1 AS b\nENV A=1 \\\n    B=2\nCOPY --from=x /a /b\nCMD ["c", "d"]\n')
    assert (stage.base, stage.name, stage.environment()) == ("a:1", "b", {"A": "1", "B": "2"})
    assert stage.one("COPY") == Instruction("COPY", {"from": "x"}, "/a /b")
    assert stage.one("CMD").words() == ["c", "d"]


def test_both_stages_start_from_the_slim_image_of_the_python_that_the_lock_is_for() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    made_for = re.search(r"pip-compile with Python (\d\.\d+)", lock)
    assert made_for is not None
    assert {BUILD.base, FINAL.base} == {f"python:{made_for[1]}-slim"}


def test_every_copied_file_exists_and_is_not_ignored() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [word for copy in BUILD.all("COPY") for word in copy.value.split()[:-1]]
    assert len(sources) >= 5
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source


def test_the_final_stage_takes_only_the_installed_environment() -> None:
    copy = FINAL.one("COPY")
    assert copy.flags == {"from": BUILD.name}
    assert copy.value == "/opt/posenc /opt/posenc"
    assert FINAL.all("RUN") == []


def test_the_user_is_a_number_and_not_root() -> None:
    user, _, group = FINAL.one("USER").value.partition(":")
    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize("name", ["ENTRYPOINT", "CMD"])
def test_commands_are_in_exec_form(name: str) -> None:
    assert [*FINAL.one("ENTRYPOINT").words(), *FINAL.one("CMD").words()] == ["posenc", "serve"]
    assert FINAL.one(name).words()
    for run in BUILD.all("RUN"):
        assert run.words()


def test_the_health_check_is_the_command_in_exec_form() -> None:
    check = FINAL.one("HEALTHCHECK")
    keyword, _, command = check.value.partition(" ")
    assert (keyword, Instruction("CMD", {}, command).words()) == ("CMD", ["posenc", "healthcheck"])
    assert compose()["healthcheck"]["test"] == ["CMD", "posenc", "healthcheck"]


def test_the_environment_is_made_of_settings_and_python() -> None:
    names = {name for name in FINAL.environment() if not name.startswith(("PYTHON", "PATH"))}
    assert names <= {variable(name) for name in Settings.model_fields}
    assert FINAL.environment()["PYTHONDONTWRITEBYTECODE"] == "1"


def test_every_requirement_is_pinned_and_hashed_and_no_host_is_named() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text()
        entries = re.split(r"\n(?=[a-z0-9])", text)[1:]
        assert len(entries) > 15
        for entry in entries:
            assert re.match(r"[a-z0-9._-]+==[^ ]+ ", entry), entry
            assert "--hash=sha256:" in entry, entry
        assert not re.search(r"://|--index-url|--find-links|--trusted-host", text)


def test_compose_starts_replicas_locked_down() -> None:
    assert compose()["build"] == "."
    for service in services().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("privileged", False) is False


def test_the_proxy_knows_the_replicas_and_listens_on_port_8000() -> None:
    proxy = services()["proxy"]
    configuration = (ROOT / "deploy" / "nginx.conf").read_text()
    known = re.findall(r"server ([a-z0-9-]+):(\d+) ", configuration)
    # Twice: by their shares, and all of them where none is left that is not set aside.
    assert [name for name, _ in known] == 2 * [name for name in services() if name != "proxy"]
    assert {int(port) for _, port in known} == {Settings.model_fields["port"].default}
    (listened,) = re.findall(r"listen (\d+);", configuration)
    assert proxy["ports"] == [f"8000:{listened}"]
    assert "./deploy/nginx.conf:/etc/posenc/nginx.conf:ro" in proxy["volumes"]
    assert "/etc/posenc/nginx.conf" in proxy["command"]
    assert int(proxy["user"].partition(":")[0]) > 0
    assert set(proxy["depends_on"]) == {name for name, _ in known}


def test_every_name_that_nginx_looks_up_is_a_replicas_own_address() -> None:
    """Or it does not start where one does not resolve, and never finds one that was made anew."""
    configuration = (ROOT / "deploy" / "nginx.conf").read_text()
    found = {name: service["networks"]["default"]["ipv4_address"] for name, service in services().items()}
    (pool,) = whole()["networks"]["default"]["ipam"]["config"]
    free = list(ip_network(pool["subnet"]).hosts())[1:]  # The first is the gateway's.
    assert all(ip_address(address) in free for address in found.values())
    assert len(set(found.values())) == 4
    named = services()["proxy"]["extra_hosts"]
    assert set(re.findall(r"server (\S+):\d+", configuration)) == set(named)
    assert named == {name: address for name, address in found.items() if name != "proxy"}


def test_the_proxy_waits_for_no_replica_to_be_healthy() -> None:
    assert services()["proxy"]["depends_on"] == [name for name in services() if name != "proxy"]


def test_three_replicas_and_the_proxy_fit_a_machine_of_4_gb() -> None:
    """Beside its own system; and a replica fits itself to what it may take, with room for work."""
    sizes = {name: service["mem_limit"] for name, service in services().items()}
    assert {size[-1] for size in sizes.values()} == {"M"}
    limits = {name: int(size[:-1]) << 20 for name, size in sizes.items()}
    assert (len(limits), sum(limits.values()) < 3.4e9) == (4, True)
    limit = limits["posenc-1"]
    found = fitted(Settings(), limit, 2)
    assert taken(found) <= SLACK * limit
    assert found.memory_bytes >= 200 << 20


def test_compose_waits_longer_than_the_grace_period() -> None:
    seconds = int(compose()["stop_grace_period"].removesuffix("s"))
    assert seconds > Settings.model_fields["grace_seconds"].default
