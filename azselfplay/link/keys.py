"""Key files: a key pair in TOML, readable by its user alone, and the folder where they are.

Keys are text in Z85 (40 characters), as libzmq's tools write them. No secret is passed as a flag, so none
appears in a list of processes; programs get the names of files. ZeroMQ is imported only where it is needed,
so that `--help` works without it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from azselfplay.games.home import NoHome, home
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import ANYWHERE, LOOPBACK, Address
from azselfplay.host.reading import read_toml
from azselfplay.host.runs import write_atomically
from protocol.keys import KEY_BYTES, DialKeys, KeyPair

SERVER_FILE, ALLOWED_FILE = "server.key", "allowed.toml"
TEXT_LENGTH = 40
"""Characters of a key."""
PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9.:+=^/@-]*[A-Za-z0-9]")
"""Keys that need no quotes in a shell, in YAML or in systemd's files. There, the other characters of Z85 (! *
? & < > ( ) [ ] { } % $ #) have a meaning; so does a colon at the end in YAML, and a hyphen in front in all of
them."""


def default_folder() -> Path:
    """Return `~/.config/azselfplay`; XDG_CONFIG_HOME is respected."""
    config = os.environ.get("XDG_CONFIG_HOME") or home() / ".config"
    return Path(config) / "azselfplay"


def as_text(key: bytes) -> str:
    from zmq.utils import z85

    text: bytes = z85.encode(key)
    return text.decode("ascii")


def from_text(text: str, what: str) -> bytes:
    """Return the key in `text`. Raises Fatal(CONFIG) if it is not a key, without repeating a possible
    secret."""
    from zmq.utils import z85

    try:
        key: bytes = z85.decode(text.strip().encode("ascii"))
        if len(text.strip()) == TEXT_LENGTH and len(key) == KEY_BYTES:
            return key
    except (ValueError, KeyError, IndexError, struct.error):  # the last: a block above 2^32
        pass
    raise Fatal(
        f"{what} is not a key: a key has {TEXT_LENGTH} characters; put it in single quotes, because the "
        "shell would interpret some of them",
        Exit.CONFIG,
    )


def new_pair() -> KeyPair:
    """Return a random key pair whose public key is `PLAIN`."""
    import zmq

    while True:
        public, secret = (key.decode("ascii") for key in zmq.curve_keypair())
        # One pair in some thousands is `PLAIN`; finding it takes 0.1 s, and costs 12 of the 256 random bits.
        if PLAIN.fullmatch(public):
            return KeyPair(from_text(public, "a new key"), from_text(secret, "a new key"))


def write_pair(path: Path, pair: KeyPair, about: str) -> None:
    """Write a new key file. Raises Fatal(CONFIG) if there is one already, Fatal(DISK) if it cannot be
    written."""
    text = f'# {about}\npublic = "{as_text(pair.public)}"\nsecret = "{as_text(pair.secret)}"\n'
    if path.exists():
        raise Fatal(
            f"{path} exists already, and everybody who uses it would be locked out; delete the file first "
            "if you want a new key",
            Exit.CONFIG,
        )
    write_private(path, text)


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all, and sync it. Raises Fatal(DISK) if that
    fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Synced: a revoked key must not be back after a power loss.
        write_atomically(path, text.encode(), 0o600)
    except OSError as error:
        reason = f"{path.parent} is a file" if path.parent.is_file() else error.strerror
        raise Fatal(f"cannot write {path}: {reason}", Exit.DISK) from error


def read_pair(path: Path, how_to_make: str, instead: str = "") -> KeyPair:
    """Return the pair in a file. Raises Fatal(CONFIG) if there is none, if it is damaged, or if other users
    may read it. `instead`: text after the message about a missing file, on what else to do."""
    import zmq

    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        table = read_toml(path)
    except FileNotFoundError:
        raise Fatal(f"there is no key in {path}: {how_to_make} makes one{instead}", Exit.CONFIG) from None
    except (OSError, ValueError) as error:
        raise Fatal(f"the key in {path} cannot be read: {error}", Exit.CONFIG) from None
    # Its group may read it, but not change it; others may do nothing.
    if mode & 0o027:
        raise Fatal(f"other users may read {path} (mode {mode:03o}): chmod 600 {path}", Exit.CONFIG)
    keys = [from_text(str(table.get(name, "")), f"`{name}` in {path}") for name in ("public", "secret")]
    # A server would refuse a pair mixed from two files without a reason that helps.
    if zmq.curve_public(as_text(keys[1]).encode()) != as_text(keys[0]).encode():
        raise Fatal(
            f"the two keys in {path} do not belong together: {how_to_make} makes new ones", Exit.CONFIG
        )
    return KeyPair(*keys)


def server_command(folder: Path, *words: str) -> str:
    """Return a command of azserver about the keys in `folder`, to be copied into a shell."""
    command, *others = words
    where = ["--keys", str(folder)]
    with contextlib.suppress(NoHome):  # then there is no default
        where = [] if folder == default_folder() else where
    return shlex.join(["azserver", command, *where, *others])


def read_server_pair(folder: Path) -> KeyPair:
    """Return the pair of the server whose keys are in `folder`. Raises Fatal(CONFIG) as `read_pair` does."""
    return read_pair(folder / SERVER_FILE, f"`{server_command(folder, 'keygen')}`")


def dial_keys(server_key: str, file: Path | None, role: str) -> DialKeys | None:
    """Return a client's or trainer's keys; None if no `server_key` is given. `file` None: the default file of
    the role."""
    if not server_key:
        if file is not None:
            raise Fatal("--key needs --server-key, which azserver prints at its start", Exit.CONFIG)
        return None
    make = "azclient keygen --trainer" if role == "trainer" else "azclient keygen"
    server, path = from_text(server_key, "--server-key"), file or default_folder() / f"{role}.key"
    # The user may have made a key for another role.
    others = sorted(path.parent.glob("*.key")) if file is None and not path.exists() else []
    instead = "".join(f", and --key {other} uses that one" for other in others)
    return DialKeys(server, read_pair(path, f"`{make}`", instead))


def keys_folder(listen: str, keys: Path | None, *, insecure: bool) -> Path | None:
    """Return the folder of the keys that azserver uses with these settings; None: it uses none."""
    if insecure or (keys is None and listen in LOOPBACK):
        return None
    return keys or default_folder()


def address_in(settings: Mapping[str, Any]) -> Address | None:
    """Return where this machine reaches the server with these settings (config.toml), without keys; None if
    they do not say it, or it does not listen (port 0)."""
    listen, port = settings.get("listen"), settings.get("port")
    if not isinstance(listen, str) or not isinstance(port, int) or isinstance(port, bool) or not port:
        return None
    # An address that means "anywhere" cannot be dialled.
    return Address("127.0.0.1" if listen in ANYWHERE else listen, port)


def own_server_keys(settings: Mapping[str, Any]) -> DialKeys | None:
    """Return keys for watching a server of this user, given the settings in its run's folder: the server's
    own key if it uses keys.

    Raises Fatal(CONFIG) if that key cannot be read here.
    """
    keys = settings.get("keys")
    folder = keys_folder(
        str(settings.get("listen", LOOPBACK[0])),
        Path(keys) if isinstance(keys, str) else None,
        insecure=settings.get("insecure") is not False,  # missing: written by a version without keys
    )
    return None if folder is None else server_keys(folder)


def server_keys(folder: Path) -> DialKeys:
    """Return the server's own pair, with which its user's tools may watch it. Raises Fatal(CONFIG) as
    `read_pair` does."""
    pair = read_server_pair(folder)
    return DialKeys(pair.public, pair)
