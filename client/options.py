"""The command line of a worker process. azserver and azclient write it; people rarely do."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from azselfplay.host.logs import Form


@dataclass(frozen=True)
class WorkerOptions:
    """The settings of one worker; see the flags in `parse`."""

    bulk: str
    spool: Path
    leaves: str = ""
    server: str = ""
    role: str = "client"
    index: int = 0
    rings: tuple[Path, ...] = ()
    games: int = 0
    cache_mib: float = 32.0
    name: str = ""
    max_wait: float = 0.0
    drain: float = 0.0
    warm_only: bool = False
    server_key: str = ""
    key: Path | None = None
    log_format: Form = "text"
    figures: bool = False

    @property
    def full_name(self) -> str:
        """Return host and process, for people: at most 120 characters, as the protocol requires."""
        process = "preparing" if self.warm_only else self.index
        return f"{(self.name or socket.gethostname())[:100]}/{process}"

    @property
    def process_name(self) -> str:
        """Return the name of the process as it stands in log lines."""
        if self.role == "worker":
            return f"worker-{self.index}"
        return "client-preparing" if self.warm_only else f"client-{self.index}"


def parse(argv: Sequence[str] | None = None) -> WorkerOptions:
    """Parse the flags. Exits with 2 and a usage line if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m client.worker",
        allow_abbrev=False,
        description="One self-play worker process. azserver and azclient start these; see azclient --help.",
    )
    add = parser.add_argument
    add("--bulk", required=True, help="endpoint for games and weights, such as tcp://host:5601")
    add("--spool", required=True, type=Path, help="folder for finished games, shared by this host's workers")
    add("--leaves", default="", help="endpoint for leaves, where no evaluator of this machine is used")
    add("--server", default="", help="HOST:PORT as people know the server, for messages")
    add("--role", choices=("worker", "client"), default="client")
    add("--index", type=int, default=0, help="number of this worker on its host")
    add(
        "--rings",
        nargs="+",
        type=Path,
        default=(),
        help="Unix sockets of this machine's evaluators, the worker's own first; azserver's workers are told",
    )
    add(
        "--games",
        type=int,
        default=0,
        help="games in flight; 0: as many as the evaluator asks for",
    )
    add("--cache-mib", type=float, default=32.0, help="MiB of cached evaluations; 0: none")
    add("--name", default="", help="name shown to people; empty: the host's")
    add("--max-wait", type=float, default=0.0, help="seconds to wait for the server; 0: for ever")
    add(
        "--drain",
        type=float,
        default=0.0,
        help="seconds that a stop allows for finishing the games in progress",
    )
    add("--warm-only", action="store_true", help="join, compile the server's game, leave")
    add("--server-key", default="", help="the server's public key, if it asks for keys")
    add("--key", type=Path, help="file of this machine's key")
    add("--log-format", choices=("text", "json"), default="text")
    add("--figures", action="store_true", help="write a line of figures every few seconds, for azclient")
    found = vars(parser.parse_args(argv))
    options = WorkerOptions(**{**found, "rings": tuple(found["rings"])})
    if not (options.leaves or options.rings or options.warm_only or options.role == "worker"):
        parser.error("where are positions evaluated? Give --leaves ENDPOINT, or --rings SOCKET")
    return options
