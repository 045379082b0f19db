"""Settings of azclient."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from protocol.settings import Amount, Count, Port


@dataclass(frozen=True)
class ClientConfig:
    """Plays games for an azserver on another machine."""

    server: str
    """Host of azserver: HOST, or HOST:PORT with its base port (default 5600)."""
    server_key: str = ""
    """The server's public key, if the server uses keys: azserver prints the complete command at its start."""
    key: Path | None = None
    """File of this machine's key (azclient keygen); not given: ~/.config/azselfplay/client.key."""
    device: str = "auto"
    """Where positions are evaluated: `remote` (by the server), `cpu`, `cuda:N`, or `auto` (this machine's
    GPUs if it has any, else the server). A `sparse` network is part of each worker's search, whatever is
    given here."""
    workers: Count = 0
    """Worker processes. 0: one per core with the server's evaluators (respecting a container's CPU limit),
    or where the network is `sparse`, one per GPU with local GPUs, one with a local CPU network."""
    games: Count = 0
    """Games in flight in each worker. 0: as many as the server asks for, or as a local network needs."""
    threads: Count = 0
    """CPU threads of each worker's local network; 0: share the cores evenly. Only with --device cpu."""
    spool: Path | None = None
    """Folder for finished games that the trainer has not yet acknowledged. Not given: a folder named after
    the server, in ~/.local/share/azselfplay/spool."""
    name: str = ""
    """Name shown on the server; empty: this host's name."""
    metrics_port: Port = 0
    """Port of /metrics for Prometheus, /livez and /readyz (docs/metrics.md); 0: none."""
    metrics_listen: str = "127.0.0.1"
    """Address of that port; 0.0.0.0 lets other machines read it (no key, no encryption)."""
    drain: Amount = 0.0
    """Seconds that a stop may take to finish the games in progress and hand them in. 0: these games are
    abandoned at once. Finished games are kept in either case."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: `text` for people, or `json` with one object per line (docs/metrics.md)."""
    max_wait: Amount = 60.0
    """Seconds to wait for the server at the start before giving up (exit status 69); 0: forever."""
