"""Settings of azclient."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ClientConfig:
    """Plays games for an azserver on another machine."""

    server: str
    """Where azserver runs: HOST or HOST:PORT (its base port, 5600 unless it was told another)."""
    device: str = "auto"
    """Who evaluates positions: `remote` (the server), `cpu`, `cuda:N`, or `auto`: this machine's GPUs if it
    has any, else the server."""
    workers: int = 0
    """Worker processes. 0: one a core with the server's evaluators, one a GPU, or one with an own CPU
    network."""
    games: int = 0
    """Games in flight in each worker. 0: as many as the server wants (or the own network needs)."""
    threads: int = 0
    """CPU threads of each worker's own network; 0: the cores shared evenly. Only with --device cpu."""
    spool: Path | None = None
    """Folder for finished games that the trainer has not yet acknowledged. None: a folder of the server's
    name under ~/.local/share/azselfplay/spool."""
    name: str = ""
    """Name shown on the server; empty: this host's name."""
    max_wait: float = 60.0
    """Seconds to wait for the server at the start before giving up (exit status 69); 0: wait for ever."""


@dataclass(frozen=True)
class Address:
    """Of a server: the base port carries leaves, the next one games and weights, the third announcements."""

    host: str
    port: int

    @property
    def leaves(self) -> str:
        return f"tcp://{self._host}:{self.port}"

    @property
    def bulk(self) -> str:
        return f"tcp://{self._host}:{self.port + 1}"

    @property
    def announce(self) -> str:
        return f"tcp://{self._host}:{self.port + 2}"

    @property
    def folder_name(self) -> str:
        """For the spool; no separator of paths in it."""
        return "".join(char if char.isalnum() or char in ".-" else "_" for char in f"{self.host}-{self.port}")

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


DEFAULT_PORT = 5600


def parse_address(text: str) -> Address:
    """`host`, `host:port`, `[v6]:port` or a bare IPv6 address. ValueError says what is wrong."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or any(char.isspace() or char in "/@" for char in host):
        raise ValueError(f"{text!r} is not an address")
    if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65533):
        raise ValueError(f"{port!r} is not a base port (1 to 65533)")
    return Address(host, int(port or DEFAULT_PORT))
