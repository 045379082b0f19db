"""The keys that may join: one TOML file of names, roles and public keys, read again when it changes."""

from __future__ import annotations

import logging
import re
import tomllib
from pathlib import Path
from typing import get_args

from protocol.curve import NotNow
from protocol.keys import KeyOwner, KeyPair, KeyRole
from runtime.door_lock import DoorLock
from runtime.exits import Exit, Fatal
from runtime.keys import ALLOWED_FILE, as_text, from_text, read_server_pair, server_keygen, write_private

log = logging.getLogger("azserver")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
MOST_KEYS = 10_000
OWN_TOOLS = KeyOwner("this server", "watcher")
"""Who shows the server's own key: its user's tools."""
HEAD = "# Keys that may join this server; written by `azserver allow` and `azserver revoke`.\n"

Keys = dict[str, tuple[KeyRole, bytes]]
"""Role and public key by name."""


class Allowed:
    """The keys of one server. `refresh` now and then; a list that cannot be read lets nobody new in."""

    def __init__(self, folder: Path) -> None:
        """Fatal(CONFIG) if the server has no key, or no list that can be read."""
        self.path = folder / ALLOWED_FILE
        self.pair: KeyPair = read_server_pair(folder)
        self.lock = DoorLock(self.pair, self.owner_of)
        self._owners = _owners(read_allowed(self.path))
        self._seen = self._look()
        self._readable = True

    def owner_of(self, key: bytes) -> KeyOwner | None:
        """Raises NotNow while the list cannot be read."""
        if key == self.pair.public:
            return OWN_TOOLS
        if not self._readable:
            raise NotNow
        return self._owners.get(key)

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def readable(self) -> int:
        """Keys that may join now: none while the list cannot be read."""
        return len(self) if self._readable else 0

    def refresh(self) -> bool:
        """Read the list if its file has changed. Whether other keys are allowed now."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            owners = _owners(read_allowed(self.path))
        except Fatal as error:
            self._readable = False
            log.error("nobody new may join, and who is in stays: %s", error)
            return False
        self._readable = True
        if owners == self._owners:
            return False
        self._owners = owners
        log.info("%d keys are allowed now (%s)", len(owners), self.path)
        return True

    def _look(self) -> tuple[int, ...]:
        """What changes when the file does."""
        try:
            found = self.path.stat()
            return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode
        except OSError as error:
            return (error.errno or 0,)


def read_allowed(path: Path) -> Keys:
    """Fatal(CONFIG) says what is wrong with the file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        make = server_keygen(path.parent)
        raise Fatal(f"there is no list of keys {path}: {make} makes one", Exit.CONFIG) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Fatal(f"the list of keys {path} cannot be read: {error}", Exit.CONFIG) from None
    keys: Keys = {}
    for name, entry in table.items():
        said = entry.get("role") if isinstance(entry, dict) else None
        role: KeyRole | None = next((one for one in get_args(KeyRole) if one == said), None)
        if role is None or not NAME.fullmatch(name):
            raise Fatal(f"{path}: [{name}] is no entry with a role and a key", Exit.CONFIG)
        keys[name] = role, from_text(str(entry.get("key", "")), f"`key` of [{name}] in {path}")
    if len({key for _, key in keys.values()}) < len(keys) or len(keys) > MOST_KEYS:
        raise Fatal(f"{path}: a key is there twice, or there are more than {MOST_KEYS}", Exit.CONFIG)
    return keys


def write_allowed(path: Path, keys: Keys) -> None:
    """Whole or not at all. Fatal(DISK) if it cannot be written."""
    entries = (
        f'\n["{name}"]\nrole = "{role}"\nkey = "{as_text(key)}"\n' for name, (role, key) in keys.items()
    )
    write_private(path, HEAD + "".join(entries))


def _owners(keys: Keys) -> dict[bytes, KeyOwner]:
    return {key: KeyOwner(name, role) for name, (role, key) in keys.items()}
