"""The keys that may join this azserver: who is allowed, and the commands that change it.

The list is one TOML file of names, roles and public keys; the server reads it through `Allowed`. `azserver
keygen` creates it, `allow` and `revoke` replace it as a whole, one command at a time, and `keys` prints it. A
running server rereads the file when it changes: the sessions of a revoked key end within a second.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import re
import shlex
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from azselfplay.games.names import near_or_all
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import ANYWHERE, DEFAULT_PORT, LOOPBACK, Address
from azselfplay.host.reading import open_regular, text_in, toml_in
from azselfplay.link.keys import (
    ALLOWED_FILE,
    SERVER_FILE,
    as_text,
    default_folder,
    from_text,
    keys_folder,
    new_pair,
    read_server_pair,
    server_command,
    write_pair,
    write_private,
)
from protocol.keys import KeyOwner, KeyPair, KeyRole, NotNow
from server.config import ServerConfig

log = logging.getLogger("azserver")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
MOST_KEYS = 10_000
MOST_BYTES = 2 * 1024 * 1024
"""Most bytes of the list; an entry has at most 140."""
OWN_TOOLS = KeyOwner("this server", "watcher")
"""The owner of the server's own key, which the tools of the server's user present."""
HEAD = "# Keys that may join this server; written by `azserver allow` and `azserver revoke`.\n"

Keys = dict[str, tuple[KeyRole, bytes]]
"""Role and public key by name."""


# ---- for the server that reads the list -------------------------------------------------------


def open_allowed(config: ServerConfig) -> Allowed | None:
    """Return the allowed keys; None if no keys are used. Raises Fatal(CONFIG) saying how to make them."""
    folder = keys_folder(config.listen, config.keys, insecure=config.insecure)
    if folder is None:
        return None
    try:
        return Allowed(folder)
    except Fatal as error:
        if config.listen in LOOPBACK:
            raise
        text = f"--listen {config.listen} asks for keys, and {error}"
        raise Fatal(f"{text}. --insecure does without, on a network that you trust", Exit.CONFIG) from error


def say_address(config: ServerConfig, allowed: Allowed | None) -> None:
    """Log where to join, with the complete command for another machine."""
    if allowed is not None:
        # Another machine cannot dial 0.0.0.0 and the like.
        host = socket.gethostname() if config.listen in ANYWHERE else config.listen
        # After an IPv6 address, the port says where the address ends.
        place = host if config.port == DEFAULT_PORT and ":" not in host else Address(host, config.port).server
        key = shlex.quote(as_text(allowed.pair.public))
        allow = server_command(allowed.path.parent, "allow")
        log.info("port %d, for %d allowed keys (%s client NAME KEY)", config.port, len(allowed), allow)
        log.info("to join: azclient --server %s --server-key %s", place, key)
    elif config.listen in LOOPBACK:
        log.info("port %d, for this machine only; --listen 0.0.0.0 lets other machines join", config.port)
    else:
        log.warning(
            "--insecure: port %d is open on %s without keys and encryption; whoever reaches it may join, "
            "send games and act as the trainer",
            config.port,
            config.listen,
        )


class Allowed:
    """The allowed keys of one server. Call `refresh` regularly; while the list is unreadable, no new peer may
    join."""

    def __init__(self, folder: Path) -> None:
        """Raises Fatal(CONFIG) if the server has no key, or no readable list."""
        self.path = folder / ALLOWED_FILE
        self.pair: KeyPair = read_server_pair(folder)
        self._seen = self._look()  # before reading, so that a change in between is noticed
        self._owners = _owners(read_allowed(self.path))
        self._problem = ""
        """Why the list is unreadable; "" while it can be read."""

    def owner_of(self, key: bytes) -> KeyOwner | None:
        """Return the owner of `key`; None if it is not allowed. Raises NotNow while the list is
        unreadable."""
        if key == self.pair.public:
            return OWN_TOOLS
        if self._problem:
            raise NotNow
        return self._owners.get(key)

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def readable(self) -> int:
        """Return how many keys may join now: none while the list is unreadable."""
        return 0 if self._problem else len(self)

    def refresh(self) -> bool:
        """Reread the list if its file has changed, or if the disk could not be read last time. Returns
        whether the allowed keys are different now."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            owners = _owners(read_allowed(self.path))
        except Fatal as error:
            if isinstance(error.__context__, OSError):
                self._seen = ()  # the file may be unchanged: read it again next time
            # Log each problem once, although this is called every second.
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("nobody new may join, and connected peers stay: %s", error)
            return False
        self._problem = ""
        if owners == self._owners:
            return False
        self._owners = owners
        log.info("%d keys are allowed now (%s)", len(owners), self.path)
        return True

    def _look(self) -> tuple[int, ...]:
        """Return numbers that change when the file changes."""
        try:
            found = self.path.stat()
            return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode
        except OSError as error:
            return (error.errno or 0,)


def _owners(keys: Keys) -> dict[bytes, KeyOwner]:
    return {key: KeyOwner(name, role) for name, (role, key) in keys.items()}


# ---- the file ----------------------------------------------------------------------------------


def read_allowed(path: Path) -> Keys:
    """Return the keys in the file. Raises Fatal(CONFIG) saying what is wrong with it."""
    try:
        # A running server reads this in its event loop, which a pipe, a device or an endless file must not
        # block. Raises OSError and ValueError.
        with open_regular(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & stat.S_IWOTH:
                raise ValueError(
                    f"other users may change it (mode {stat.S_IMODE(mode):03o}): chmod 600 {path}"
                )
            # Read one byte more than allowed, to tell a file that is too long from one that just fits.
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES} bytes")
        table = toml_in(text_in(data))
    except FileNotFoundError:
        make = server_command(path.parent, "keygen")
        raise Fatal(f"there is no list of keys {path}: `{make}` makes one", Exit.CONFIG) from None
    except (OSError, ValueError) as error:
        raise Fatal(f"the list of keys {path} cannot be read: {error}", Exit.CONFIG) from None
    keys: Keys = {}
    for name, entry in table.items():
        said = entry.get("role") if isinstance(entry, dict) else None
        role: KeyRole | None = next((one for one in get_args(KeyRole) if one == said), None)
        if role is None or not NAME.fullmatch(name):
            raise Fatal(f"{path}: [{name}] is not an entry with a role and a key", Exit.CONFIG)
        keys[name] = role, from_text(str(entry.get("key", "")), f"`key` of [{name}] in {path}")
    if len({key for _, key in keys.values()}) < len(keys) or len(keys) > MOST_KEYS:
        raise Fatal(f"{path}: a key is there twice, or there are more than {MOST_KEYS}", Exit.CONFIG)
    return keys


@contextlib.contextmanager
def changed_allowed(path: Path) -> Iterator[Keys]:
    """Yield the list, for one command at a time to change in place; it is written at the end of the block.

    So a command that allows a key cannot bring back one that is being revoked. Raises Fatal as reading and
    writing do.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no such folder (reading reports it), or no locks on this disk
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            # Lock the folder, because the file is replaced as a whole.
            fcntl.flock(folder, fcntl.LOCK_EX)
        keys = read_allowed(path)
        yield keys
        write_allowed(path, keys)


def write_allowed(path: Path, keys: Keys) -> None:
    """Write the file, whole or not at all. Raises Fatal(DISK) if it cannot be written, Fatal(CONFIG) if it
    could not be read again."""
    if len(keys) > MOST_KEYS:
        to_do = "`azserver revoke` those that are not used any more"
        raise Fatal(f"{path} cannot have more than {MOST_KEYS} keys: {to_do}", Exit.CONFIG)
    entries = (
        f'\n["{name}"]\nrole = "{role}"\nkey = "{as_text(key)}"\n' for name, (role, key) in keys.items()
    )
    write_private(path, HEAD + "".join(entries))


# ---- the commands ------------------------------------------------------------------------------


def main(argv: Sequence[str]) -> int:
    """Run the command in `argv[0]`. A running azserver sees the change within a second."""
    options = parser().parse_args(argv)
    folder = options.keys or Path(os.environ.get("AZ_KEYS") or default_folder())
    match options.command:
        case "keygen":
            pair, file, allowed = new_pair(), folder / SERVER_FILE, folder / ALLOWED_FILE
            if file.exists() and not allowed.exists():
                # Only the list is missing. A new key would lock out everybody who knows the old one.
                write_allowed(allowed, {})
                print(f"the key in {file} stays, and {allowed} is new: no key is allowed yet")
                return Exit.OK
            write_pair(file, pair, "Key of an azserver. Keep it secret: whoever has it can pose as it.")
            if not allowed.exists():
                write_allowed(allowed, {})
            print(f"the key is in {file}")
            print(f"allow the keys of others:  {server_command(folder, 'allow')} client NAME KEY")
            key = shlex.quote(as_text(pair.public))
            print(f"they dial with:  azclient --server HOST --server-key {key}")
        case "allow":
            _allow(folder, options.role, options.name, options.key)
        case "keys":
            print(f"server   {as_text(read_server_pair(folder).public)}  (--server-key)")
            for name, (role, known) in read_allowed(folder / ALLOWED_FILE).items():
                print(f"{role:8} {as_text(known)}  {name}")
        case "revoke":
            name = options.name
            with changed_allowed(folder / ALLOWED_FILE) as keys:
                if name not in keys:
                    hint = near_or_all(name, keys, "key") if keys else "no key is allowed"
                    raise Fatal(f"there is no key of {name!r}: {hint}", Exit.CONFIG)
                del keys[name]
            print(f"{name} may not join any more; a running azserver ends its sessions within a second")
    return int(Exit.OK)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words after `azserver`."""
    whole = argparse.ArgumentParser(prog="azserver", description="Keys of this server (docs/security.md).")
    commands = whole.add_subparsers(dest="command", required=True)
    about = {
        "keygen": "make this server's key, and an empty list of allowed keys",
        "allow": "let a key join; the key is what `azclient keygen` printed",
        "keys": "print this server's key and the allowed ones",
        "revoke": "take a key from the list; its sessions end within a second",
    }
    parts = {name: commands.add_parser(name, help=text, description=text) for name, text in about.items()}
    for part in parts.values():
        part.add_argument(
            "--keys", type=Path, help="folder of the keys (default: AZ_KEYS, or ~/.config/azselfplay)"
        )
    parts["allow"].add_argument("role", choices=("client", "trainer"))
    parts["allow"].add_argument("name", help="for logs and figures; letters, digits and ._-")
    parts["allow"].add_argument("key", help="in single quotes")
    parts["revoke"].add_argument("name")
    return whole


def _allow(folder: Path, role: KeyRole, name: str, text: str) -> None:
    key = from_text(text, "KEY")
    if not NAME.fullmatch(name):
        raise Fatal(
            f"{name!r} cannot be a name: use letters, digits and ._- , for example lab-3", Exit.CONFIG
        )
    with changed_allowed(folder / ALLOWED_FILE) as keys:
        # One key, one name: logs, figures and quarantines go by the name.
        others = [other for other, (_, known) in keys.items() if known == key and other != name]
        if others:
            why = f"this key is there as {others[0]!r}, and a key has one name"
            to_do = f"to rename it, {server_command(folder, 'revoke', others[0])} first"
            raise Fatal(f"{why}; {to_do}", Exit.CONFIG)
        if name in keys and keys[name] != (role, key):
            revoke = server_command(folder, "revoke", name)
            if keys[name][1] == key:
                why = f"{name!r} may join with this key as {keys[name][0]}"
                raise Fatal(f"{why}: to make it a {role}, {revoke} first", Exit.CONFIG)
            raise Fatal(
                f"{name!r} is the name of another key ({keys[name][0]}): choose another name, or, if that "
                f"key is not used any more, {revoke} first",
                Exit.CONFIG,
            )
        if key == read_server_pair(folder).public:
            text = "this is the server's own key: `azclient keygen` makes one for a client"
            raise Fatal(text, Exit.CONFIG)
        keys[name] = role, key
    print(f"{name} may join as {role}")
