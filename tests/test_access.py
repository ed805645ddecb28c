"""How the settings say who may ask."""

import doctest
from hashlib import sha256

import pytest

from service import access, command
from service.access import new_key, read_hosts, read_keys, read_networks, read_origins


def test_documentation() -> None:
    found = doctest.testmod(access)
    assert found.attempted > 5
    assert found.failed == 0


def test_a_new_key_is_nobodys_guess_and_its_entry_is_its_digest() -> None:
    made = [new_key("ci") for _ in range(50)]
    assert len({key for key, _ in made}) == 50
    for key, entry in made:
        assert read_keys(entry) == (("ci", sha256(key.encode()).digest()),)
        assert key.startswith("posenc_")
        assert len(key.removeprefix("posenc_")) == 43  # 256 bits


def test_the_command_prints_a_key_and_what_lets_it_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["key", "team-a"]) == 0
    key, entry = capsys.readouterr().out.splitlines()
    assert read_keys(entry) == (("team-a", sha256(key.encode()).digest()),)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "-a", "é", "a" * 65, "a\n"])
def test_a_name_that_is_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["key", "--", name])
    assert end.value.code == 2
    assert "is no name: ci or team-a would do" in capsys.readouterr().err


@pytest.mark.parametrize("read", [read_keys, read_origins, read_hosts, read_networks])
def test_no_entry_is_repeated_by_its_message_where_it_may_be_a_key(read: object) -> None:
    assert callable(read)
    assert read("") == ()
    with pytest.raises(ValueError, match="nothing is in it"):
        read(" , ")
    with pytest.raises(ValueError, match=r".") as error:
        read("a secret/")
    assert ("secret" in str(error.value)) == (read is not read_keys)
