"""Settings of azclient."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class ClientConfig:
    """Plays games for an azserver on another machine."""

    server: str
    """Where azserver runs: HOST or HOST:PORT (its base port, 5600 unless it was told another)."""
    server_key: str = ""
    """The server's public key, where it asks for keys: azserver prints the whole line at its start."""
    key: Path | None = None
    """File of this machine's key (azclient keygen); None: ~/.config/azselfplay/client.key."""
    device: str = "auto"
    """Who evaluates positions: `remote` (the server), `cpu`, `cuda:N`, or `auto` (this machine's GPUs if it
    has any, else the server)."""
    workers: int = 0
    """Worker processes. 0: one per core with the server's evaluators (in a container: per core of its CPU
    limit), one per GPU, or one with a CPU network of its own."""
    games: int = 0
    """Games in flight in each worker. 0: as many as the server wants, or as its own network needs."""
    threads: int = 0
    """CPU threads of each worker's own network; 0: share the cores evenly. Only with --device cpu."""
    spool: Path | None = None
    """Folder for finished games that the trainer has not yet acknowledged. None: a folder of the server's
    name under ~/.local/share/azselfplay/spool."""
    name: str = ""
    """Name shown on the server; empty: this host's name."""
    metrics_port: int = 0
    """Port of /metrics for Prometheus, /livez and /readyz (docs/metrics.md); 0: none."""
    metrics_listen: str = "127.0.0.1"
    """Address of that port; 0.0.0.0 lets other machines read it (no key, no encryption)."""
    drain: float = 0.0
    """Seconds that a stop may take: the games in progress are played to their end and handed in, then
    azclient ends. 0: they are given up at once. Finished games are kept in either case."""
    log_format: Literal["text", "json"] = "text"
    """Lines of the log: for people, or one JSON object a line (docs/metrics.md)."""
    max_wait: float = 60.0
    """Seconds to wait for the server at the start before giving up (exit status 69); 0: wait for ever."""
