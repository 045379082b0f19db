"""The keys that may join: one TOML file of names, roles and public keys, reread when it changes."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from protocol.curve import NotNow
from protocol.keys import KeyOwner, KeyPair, KeyRole
from runtime.door import DoorLock
from runtime.exits import Exit, Fatal
from runtime.keys import ALLOWED_FILE, as_text, from_text, read_server_pair, server_keygen, write_private
from runtime.reading import open_regular, text_in, toml_in

log = logging.getLogger("azserver")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
MOST_KEYS = 10_000
MOST_BYTES = 2 * 1024 * 1024
"""Of the list: an entry has 140 at most."""
OWN_TOOLS = KeyOwner("this server", "watcher")
"""The owner of the server's own key, which its user's tools present."""
HEAD = "# Keys that may join this server; written by `azserver allow` and `azserver revoke`.\n"

Keys = dict[str, tuple[KeyRole, bytes]]
"""Role and public key by name."""


class Allowed:
    """The allowed keys of one server. Call `refresh` regularly; while the list is unreadable, no new peer may
    join."""

    def __init__(self, folder: Path) -> None:
        """Raises Fatal(CONFIG) if the server has no key, or no readable list."""
        self.path = folder / ALLOWED_FILE
        self.pair: KeyPair = read_server_pair(folder)
        self.lock = DoorLock(self.pair, self.owner_of)
        self._seen = self._look()  # before it is read: a change in between is seen later
        self._owners = _owners(read_allowed(self.path))
        self._problem = ""
        """Why the list is unreadable; "" while it is not."""

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
        """Reread the list if its file has changed, or if the disk did not give it. Returns whether the
        allowed keys are different now."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            owners = _owners(read_allowed(self.path))
        except Fatal as error:
            if isinstance(error.__context__, OSError):
                self._seen = ()  # the file may be as it was: read it again next time
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
        """Return what changes when the file does."""
        try:
            found = self.path.stat()
            return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode
        except OSError as error:
            return (error.errno or 0,)


def read_allowed(path: Path) -> Keys:
    """Return the keys in the file. Raises Fatal(CONFIG) saying what is wrong with it."""
    try:
        table = toml_in(_text_of(path))
    except FileNotFoundError:
        make = server_keygen(path.parent)
        raise Fatal(f"there is no list of keys {path}: {make} makes one", Exit.CONFIG) from None
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


def _text_of(path: Path) -> str:
    """A running server reads this in its loop: a pipe, a device or a file without end must not hold it up.

    Raises OSError and ValueError.
    """
    with open_regular(path) as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & stat.S_IWOTH:
            raise ValueError(f"other users may change it (mode {stat.S_IMODE(mode):03o}): chmod 600 {path}")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return text_in(data)


@contextlib.contextmanager
def changed_allowed(path: Path) -> Iterator[Keys]:
    """The list, to be changed in place by one command at a time, and written at the end of the block.

    So nobody who allows a key brings back one that is being revoked. Fatal as of reading and writing.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no such folder, which reading tells; a disk that knows no locks
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        keys = read_allowed(path)
        yield keys
        write_allowed(path, keys)


def write_allowed(path: Path, keys: Keys) -> None:
    """Write the file, whole or not at all. Raises Fatal(DISK) if it cannot be written."""
    entries = (
        f'\n["{name}"]\nrole = "{role}"\nkey = "{as_text(key)}"\n' for name, (role, key) in keys.items()
    )
    write_private(path, HEAD + "".join(entries))


def _owners(keys: Keys) -> dict[bytes, KeyOwner]:
    return {key: KeyOwner(name, role) for name, (role, key) in keys.items()}
