"""The list of allowed keys: its commands, and how a running server reacts to changes."""

import errno
import fcntl
import logging
import os
import shlex
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.keys import as_text, new_pair
from client.main import keygen as azclient_keygen
from protocol.keys import KeyOwner, NotNow
from server.config import ServerConfig
from server.keys import (
    ALLOWED_FILE,
    MOST_BYTES,
    OWN_TOOLS,
    Allowed,
    changed_allowed,
    main,
    open_allowed,
    read_allowed,
    read_server_pair,
    say_address,
    write_allowed,
)


def azserver(folder: Path, *words: str) -> None:
    assert main([words[0], "--keys", str(folder), *words[1:]]) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    azserver(tmp_path, "keygen")
    return tmp_path


def test_allowed_keys_are_known_by_name_and_role_until_they_are_revoked(folder: Path, capsys) -> None:
    client, trainer = new_pair(), new_pair()
    azserver(folder, "allow", "client", "lab-3", as_text(client.public))
    azserver(folder, "allow", "trainer", "gpu", as_text(trainer.public))
    allowed = Allowed(folder)
    assert allowed.owner_of(client.public) == KeyOwner("lab-3", "client")
    assert allowed.owner_of(trainer.public) == KeyOwner("gpu", "trainer")
    assert allowed.owner_of(new_pair().public) is None
    assert allowed.owner_of(allowed.pair.public) == OWN_TOOLS
    assert not allowed.refresh()
    azserver(folder, "revoke", "lab-3")
    assert allowed.refresh()
    assert allowed.owner_of(client.public) is None
    azserver(folder, "keys")
    said = capsys.readouterr().out
    assert as_text(trainer.public) in said
    assert as_text(allowed.pair.secret) not in said


def test_a_list_that_is_lost_is_made_anew_for_the_key_that_is_there(folder: Path, capsys) -> None:
    """Another key would lock out everybody who knows the old one."""
    (folder / ALLOWED_FILE).unlink()
    with pytest.raises(Fatal, match="azserver keygen"):
        read_allowed(folder / ALLOWED_FILE)
    pair = read_server_pair(folder)
    azserver(folder, "keygen")
    assert (read_server_pair(folder), read_allowed(folder / ALLOWED_FILE)) == (pair, {})
    assert "no key is allowed yet" in capsys.readouterr().out


def test_the_printed_commands_are_about_this_folder_of_keys(tmp_path, capsys) -> None:
    folder = tmp_path / "keys of mine"
    azserver(folder, "keygen")
    line = next(one for one in capsys.readouterr().out.splitlines() if "allow" in one)
    command = line.partition(":")[2].replace("KEY", shlex.quote(as_text(new_pair().public)))
    assert main(shlex.split(command)[1:]) == 0
    assert [*read_allowed(folder / "allowed.toml")] == ["NAME"]


def test_client_and_trainer_of_one_machine_are_allowed_as_printed(folder: Path, tmp_path, capsys) -> None:
    for flags in ([], ["--trainer"]):
        assert azclient_keygen([*flags, "--key", str(tmp_path / f"own{len(flags)}")]) == 0
        command = shlex.split(capsys.readouterr().out.splitlines()[-1])
        azserver(folder, *command[1:])
    client, trainer = read_allowed(folder / "allowed.toml")
    assert trainer == f"{client}-trainer"


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_files_of_keys_are_for_their_user_alone_whatever_the_umask_is(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds from their creation on, also under the temporary name of an unfinished file."""
    folder, opened, real = tmp_path / "keys", list[int](), os.open

    def noting(path: str, flags: int, mode: int = 0o777, **where: int) -> int:
        handle = real(path, flags, mode, **where)
        if flags & os.O_CREAT:
            opened.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    folder.mkdir(0o700)
    before = os.umask(umask)
    monkeypatch.setattr(os, "open", noting)
    try:
        azserver(folder, "keygen")
        azserver(folder, "allow", "client", "lab-3", as_text(new_pair().public))
    finally:
        os.umask(before)
    assert opened
    assert not any(mode & 0o077 for mode in opened)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"server.key": 0o600, "allowed.toml": 0o600}


def without_end(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def sparse(path: Path) -> None:
    os.truncate(path, 2**30)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no TOML": lambda path: path.write_text("["),
    "no role": lambda path: path.write_text('["x"]\nrole = "king"\nkey = "a"'),
    "no key": lambda path: path.write_text('["x"]\nrole = "client"\nkey = "' + "#" * 40 + '"'),
    "deep": lambda path: path.write_text("x = " + "[" * 100_000),
    "a long number": lambda path: path.write_text("x = " + "9" * 5000),
    "no text": lambda path: path.write_bytes(b"\xff"),
    "too long": lambda path: path.write_text("#" * (MOST_BYTES + 1)),
    "deleted": Path.unlink,
    "of a gigabyte": sparse,
    "without end": without_end,
    "a pipe": pipe,
    "for others to change": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_while_the_list_cannot_be_read_nobody_new_gets_in_and_it_is_said(
    folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A running server neither waits for such a list nor reads it to its end."""
    key = new_pair().public
    azserver(folder, "allow", "client", "lab-3", as_text(key))
    allowed, path = Allowed(folder), folder / "allowed.toml"
    with caplog.at_level(logging.INFO):
        DAMAGES[damage](path)
        assert not allowed.refresh()
        with pytest.raises(NotNow):
            allowed.owner_of(key)
        assert "nobody new may join" in caplog.text
        path.unlink(missing_ok=True)
        write_allowed(path, {"lab-3": ("client", key)})
        allowed.refresh()
    assert allowed.owner_of(key) == KeyOwner("lab-3", "client")


def test_a_list_that_could_not_be_read_for_a_moment_counts_again_without_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = new_pair().public
    allowed = Allowed(folder)
    azserver(folder, "allow", "client", "lab-3", as_text(key))
    with monkeypatch.context() as broken:
        broken.setattr("server.keys.open_regular", failing_disk)
        assert not allowed.refresh()
        assert not allowed.refresh()
        with pytest.raises(NotNow):
            allowed.owner_of(key)
    assert len([one for one in caplog.records if "nobody new may join" in one.message]) == 1
    assert allowed.refresh()
    assert allowed.owner_of(key) == KeyOwner("lab-3", "client")


def failing_disk(path: Path) -> str:
    raise OSError(errno.EIO, "Input/output error", str(path))


def test_a_list_that_a_link_names_is_followed_and_its_next_target_is_seen(folder: Path) -> None:
    """Kubernetes mounts files in this way."""
    path, key = folder / "allowed.toml", new_pair().public
    path.rename(folder / "first")
    path.symlink_to("first")
    allowed = Allowed(folder)
    write_allowed(folder / "second", {"lab-3": ("client", key)})
    (folder / "link").symlink_to("second")
    (folder / "link").replace(path)
    assert allowed.refresh()
    assert allowed.owner_of(key) == KeyOwner("lab-3", "client")


def test_who_changes_the_list_waits_for_who_is_at_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise allowing one key would bring back another that is being revoked."""
    azserver(folder, "allow", "client", "old", as_text(new_pair().public))
    came, real = threading.Event(), fcntl.flock
    words = (folder, "allow", "client", "new", as_text(new_pair().public))
    other = threading.Thread(target=azserver, args=words, daemon=True)

    def flock(handle: int, operation: int) -> None:
        if threading.current_thread() is other:
            came.set()
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with changed_allowed(folder / "allowed.toml") as keys:
        other.start()
        assert came.wait(60)
        del keys["old"]
    other.join(60)
    assert list(read_allowed(folder / "allowed.toml")) == ["new"]


def test_a_mistake_in_a_command_changes_nothing_and_says_what_to_do(folder: Path) -> None:
    key, own = as_text(new_pair().public), as_text(Allowed(folder).pair.public)
    azserver(folder, "allow", "client", "lab-3", key)
    before = read_allowed(folder / "allowed.toml")
    mistakes = {
        ("allow", "client", "lab-4", key): "this key is there as 'lab-3'",
        ("allow", "client", "lab-3", as_text(new_pair().public)): (
            r"choose another name, or, if .* not used any more, azserver revoke --keys \S+ lab-3 first"
        ),
        ("allow", "trainer", "lab-3", key): r"may join with this key as client: .* lab-3 first",
        ("allow", "client", "no name", as_text(new_pair().public)): "cannot be a name",
        ("allow", "client", "lab-4", key[:-1]): "is not a key",
        ("allow", "client", "me", own): "the server's own key",
        ("revoke", "lab-33"): "the nearest key is 'lab-3'",
        ("revoke", "nosuch"): "there is lab-3",
        ("keygen",): "exists already",
    }
    for words, reason in mistakes.items():
        with pytest.raises(Fatal, match=reason):
            azserver(folder, *words)
    assert read_allowed(folder / "allowed.toml") == before
    azserver(folder, "allow", "client", "lab-3", key)  # repeating the same command is no mistake


def test_no_more_keys_are_allowed_than_the_server_reads(folder: Path, monkeypatch) -> None:
    """Otherwise the list could not be read any more, and nobody could join."""
    monkeypatch.setattr("server.keys.MOST_KEYS", 2)
    for name in ("lab-1", "lab-2"):
        azserver(folder, "allow", "client", name, as_text(new_pair().public))
    with pytest.raises(Fatal, match="cannot have more than 2 keys") as caught:
        azserver(folder, "allow", "client", "lab-3", as_text(new_pair().public))
    assert caught.value.code == Exit.CONFIG
    assert list(read_allowed(folder / "allowed.toml")) == ["lab-1", "lab-2"]


def test_listening_to_others_needs_keys_or_a_word_that_it_does_not(folder: Path, tmp_path, caplog) -> None:
    asks = r"--listen 0\.0\.0\.0 asks for keys.*azserver keygen --keys .*--insecure"
    with pytest.raises(Fatal, match=asks):
        open_allowed(ServerConfig(listen="0.0.0.0", keys=tmp_path / "none"))
    assert open_allowed(ServerConfig()) is None
    with caplog.at_level(logging.INFO):
        insecure = ServerConfig(listen="0.0.0.0", insecure=True)
        say_address(insecure, open_allowed(insecure))
        assert "--insecure: port 5600 is open on 0.0.0.0 without keys" in caplog.text
        config = ServerConfig(listen="10.1.2.3", port=5700, keys=folder)
        allowed = open_allowed(config)
        assert allowed is not None
        say_address(config, allowed)
        say_address(ServerConfig(listen="fd00::1:2", keys=folder), allowed)
    key = shlex.quote(as_text(allowed.pair.public))
    assert f"azclient --server 10.1.2.3:5700 --server-key {key}" in caplog.text
    assert f"azclient --server [fd00::1:2]:5600 --server-key {key}" in caplog.text
    assert as_text(allowed.pair.secret) not in caplog.text
    with pytest.raises(Fatal, match="leave out --keys"):
        ServerConfig(listen="0.0.0.0", insecure=True, keys=folder).check()
