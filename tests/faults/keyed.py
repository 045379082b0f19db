"""The key of a server and those of its allowed clients and trainer, as files, and the flags to use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from azselfplay.link.keys import ALLOWED_FILE, SERVER_FILE, as_text, dial_keys, new_pair, write_pair
from protocol.keys import DialKeys, KeyRole
from server.keys import write_allowed

TRAINER = "the-trainer"


class KeyRing:
    """Keys for clients of these names and for a trainer."""

    def __init__(self, folder: Path, clients: Sequence[str]) -> None:
        self._folder = folder / "keys"
        pair = new_pair()
        self.server = as_text(pair.public)
        write_pair(self._folder / SERVER_FILE, pair, "Of a test.")
        allowed: dict[str, tuple[KeyRole, bytes]] = {}
        for name in (*clients, TRAINER):
            pair = new_pair()
            write_pair(self.file(name), pair, "Of a test.")
            allowed[name] = ("trainer" if name == TRAINER else "client", pair.public)
        self.count = len(allowed)
        write_allowed(self._folder / ALLOWED_FILE, allowed)

    def file(self, name: str) -> Path:
        return self._folder / f"{name}.key"

    def server_flags(self) -> list[str]:
        return ["--keys", str(self._folder)]

    def dial_flags(self, name: str) -> list[str]:
        return ["--server-key", self.server, "--key", str(self.file(name))]

    def dial(self, name: str) -> DialKeys:
        keys = dial_keys(self.server, self.file(name), "client")
        assert keys is not None
        return keys
