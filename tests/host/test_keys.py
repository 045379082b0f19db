"""Key files: readable for their user alone, and never shown."""

import codecs
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
import zmq
from in_process import ends

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.connection import refusal
from azselfplay.link.keys import (
    PLAIN,
    as_text,
    dial_keys,
    from_text,
    keys_folder,
    new_pair,
    own_server_keys,
    read_pair,
    write_pair,
    write_private,
)
from protocol.keys import DialKeys


def test_a_new_key_goes_through_a_shell_and_yaml_without_quotes() -> None:
    text = as_text(new_pair().public)
    assert PLAIN.fullmatch(text)
    # This key has every character that a key may have.
    text = "a.:+=^/@-" + "Zz09" * 7 + "b-c"
    assert PLAIN.fullmatch(text)
    assert not any(map(PLAIN.fullmatch, (text[:-1] + ":", "-" + text[1:], text[:-2] + "%c")))
    shell = ["bash", "--norc", "-ic", f"echo {text}"]
    # In our session, an interactive shell would stop pytest where that runs in the background of a terminal.
    done = subprocess.run(shell, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout == f"{text}\n"
    assert yaml.safe_load(f"server-key: {text}") == {"server-key": text}


def test_a_pair_comes_back_from_its_file_which_only_its_user_may_read(tmp_path: Path) -> None:
    pair, path = new_pair(), tmp_path / "new" / "client.key"
    write_pair(path, pair, "about it")
    assert read_pair(path, "keygen") == pair
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())  # as an editor may leave it
    assert read_pair(path, "keygen") == pair
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert as_text(pair.secret) not in repr(pair)


def test_what_was_written_lasts_through_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are synced first; then the folder, in which the file already has its final name."""
    synced: list[str] = []

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(path.joinpath("k").read_text() if path.is_dir() else path.read_text())

    monkeypatch.setattr("os.fsync", fsync)
    write_private(tmp_path / "k", "one")
    write_private(tmp_path / "k", "two")
    assert synced == ["one", "one", "two", "two"]


def test_a_folder_that_is_a_file_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("")
    with ends(Exit.DISK, r"cannot write .*keys/k: .*keys is a file"):
        write_private(tmp_path / "keys" / "k", "secret")


def test_a_key_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    pair = new_pair()
    write_pair(tmp_path / "k", pair, "")
    with pytest.raises(Fatal, match="exists already"):
        write_pair(tmp_path / "k", new_pair(), "")
    assert read_pair(tmp_path / "k", "") == pair


@pytest.mark.parametrize("mode", [0o604, 0o640 | 0o020])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    write_pair(tmp_path / "k", new_pair(), "")
    (tmp_path / "k").chmod(mode)
    with ends(Exit.CONFIG, "chmod 600"):
        read_pair(tmp_path / "k", "")


def test_damaged_files_say_what_is_wrong_and_repeat_no_secret(tmp_path: Path) -> None:
    pair, other, path = new_pair(), new_pair(), tmp_path / "k"
    damaged = {
        f'public = "{as_text(other.public)}"\nsecret = "{as_text(pair.secret)}"\n': "do not belong together",
        f'public = "{as_text(pair.public)}"\nsecret = "{as_text(pair.secret)[:-1]}"\n': "is not a key",
        "public = ": "cannot be read",
    }
    for text, reason in damaged.items():
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(Fatal, match=reason) as error:
            read_pair(path, "keygen")
        assert as_text(pair.secret)[:-1] not in str(error.value)
    with pytest.raises(Fatal, match="`azclient keygen` makes one"):
        read_pair(tmp_path / "none", "`azclient keygen`")


@pytest.mark.parametrize("text", ["", "short", "x" * 41, "\u00e9" * 40, '"' * 40, "#" * 40])
def test_what_is_no_key_is_said_and_not_repeated(text: str) -> None:
    with pytest.raises(Fatal, match="--server-key is not a key"):
        from_text(text, "--server-key")


def test_keys_are_asked_for_beyond_the_loopback_address_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    assert keys_folder("127.0.0.1", None, insecure=False) is None
    assert keys_folder("127.0.0.1", tmp_path, insecure=False) == tmp_path
    assert keys_folder("0.0.0.0", tmp_path, insecure=False) == tmp_path
    assert keys_folder("0.0.0.0", None, insecure=False) is not None
    assert keys_folder("0.0.0.0", None, insecure=True) is None


def test_who_dials_needs_the_servers_key_and_a_file_with_its_own(tmp_path: Path) -> None:
    pair, server = new_pair(), new_pair()
    write_pair(tmp_path / "mine", pair, "")
    assert dial_keys("", None, "client") is None
    assert dial_keys(as_text(server.public), tmp_path / "mine", "client") == DialKeys(server.public, pair)
    with pytest.raises(Fatal, match="needs --server-key"):
        dial_keys("", tmp_path / "mine", "client")
    with pytest.raises(Fatal, match="azclient keygen --trainer"):
        dial_keys(as_text(server.public), tmp_path / "other", "trainer")


def test_a_key_of_another_kind_is_named_where_the_usual_one_is_missing(tmp_path, monkeypatch) -> None:
    """This is `azclient doctor` on a trainer's machine, which has only trainer.key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    theirs = tmp_path / "azselfplay" / "trainer.key"
    write_pair(theirs, new_pair(), "about it")
    with pytest.raises(Fatal, match=f"azclient keygen.*--key {theirs} uses that one"):
        dial_keys(as_text(new_pair().public), None, "client")


def test_the_servers_user_looks_at_it_with_its_own_key(tmp_path: Path) -> None:
    pair = new_pair()
    write_pair(tmp_path / "server.key", pair, "")
    settings = {"listen": "0.0.0.0", "keys": str(tmp_path), "insecure": False}
    assert own_server_keys(settings) == DialKeys(pair.public, pair)
    assert own_server_keys({"listen": "0.0.0.0", "insecure": True}) is None
    assert own_server_keys({"listen": "127.0.0.1", "insecure": False}) is None
    assert own_server_keys({"listen": "0.0.0.0"}) is None  # left by a version without keys


def test_each_refusal_says_what_to_do() -> None:
    keys = DialKeys(new_pair().public, new_pair())
    auth, protocol = zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    mismatch = zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
    assert f"azserver allow client NAME '{as_text(keys.own.public)}'" in refusal(auth, 400, keys, "client")
    assert "azserver allow trainer" in refusal(auth, 400, keys, "trainer")
    assert "not the key of this server" in refusal(auth, 500, keys, "client")
    assert "azclient keygen" in refusal(protocol, mismatch, None, "client")
    assert "leave --server-key out" in refusal(protocol, mismatch, keys, "client")
    # The doctor shows what comes before the colon, and what to do after it.
    told = [refusal(auth, value, keys, "client") for value in (400, 500)]
    told += [refusal(protocol, mismatch, each, "client") for each in (keys, None)]
    assert all(found and todo for found, _, todo in (one.partition(": ") for one in told))
    assert refusal(protocol, 1, keys, "client") == ""
