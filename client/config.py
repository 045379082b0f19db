"""Settings of azclient, and which worker processes it starts for them.

`make_plan` is a pure function of the settings and of the machine's resources: it returns command lines.
Nothing here loads a GPU library, because `--help` must be quick.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from azselfplay.games.home import home
from azselfplay.host.exits import Exit, Fatal, as_fatal, how_to_install, is_installed
from azselfplay.host.hardware import named_devices, usable_cores, workers_beside
from azselfplay.host.ports import Address
from azselfplay.host.processes import python_module
from protocol.settings import Amount, Count, Port


@dataclass(frozen=True)
class ClientConfig:
    """Plays AlphaZero self-play games for an azserver and sends it the finished ones. `azclient doctor HOST`
    checks machine, connection and server. `azclient keygen` makes a key."""

    server: str
    """Host of azserver: HOST, or HOST:PORT with its base port (default 5600)."""
    server_key: str = ""
    """The server's public key, if the server uses keys: azserver prints the complete command at its start."""
    key: Path | None = None
    """File of this machine's key (azclient keygen); not given: ~/.config/azselfplay/client.key."""
    device: str = "auto"
    """Where positions are evaluated: `remote` (by the server), by an evaluator for each of `cuda:0,cuda:1` or
    for `cpu`, or `auto` (this machine's GPUs if torch can use any, else the server). A `sparse` network is
    part of each worker's search, whatever is given here."""
    workers: Count = 0
    """Worker processes. 0: one per core with the server's evaluators (respecting a container's CPU limit), or
    where the network is `sparse`; with local evaluators most cores, or a quarter of them beside a CPU
    network."""
    games: Count = 0
    """Games in flight in each worker. 0: as many as its evaluator, or the server, asks for."""
    threads: Count = 0
    """CPU threads of each local evaluator; 0: share the cores evenly. Only with --device cpu."""
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


@dataclass(frozen=True)
class Plan:
    """Command lines of child processes."""

    prepare: list[str]
    """Joins, compiles the server's game once and leaves."""
    evaluators: list[list[str]]
    """This machine's own; none with the server's."""
    workers: list[list[str]]
    device_text: str
    """Where leaves are evaluated, for people."""
    in_search: list[list[str]]
    """The workers instead, where the network turns out to be part of their search: it uses no device, so
    there is one for each core."""


def make_plan(
    config: ClientConfig,
    address: Address,
    spool: Path,
    sockets: Path = Path(),
    *,
    gpus: int | None = None,
    cores: int | None = None,
    has_torch: bool | None = None,
) -> Plan:
    """Return the plan. `sockets`: folder of the local evaluators' Unix sockets. `gpus`, `cores` and
    `has_torch` describe this machine or container; they are detected when not given. Raises Fatal(CONFIG) for
    a device that is not there."""
    cores = cores or usable_cores()
    gpus = count_gpus() if gpus is None else gpus
    has_torch = is_installed("torch") if has_torch is None else has_torch
    devices = devices_for(config.device, gpus, has_torch=has_torch)
    is_remote = devices == ["remote"]
    count = config.workers or (cores if is_remote else workers_beside(devices, cores))
    joining = (
        *("--server", address.server, "--bulk", address.bulk),
        # With "=", because a value may begin with a hyphen.
        *(f"--spool={spool}", f"--name={config.name}", f"--server-key={config.server_key}"),
        *((f"--key={config.key}",) if config.key else ()),
        *("--log-format", config.log_format),
    )
    common = python_module("client.worker", *joining, "--role", "client", "--leaves", address.leaves)
    figures = ["--figures"] if config.metrics_port or config.drain else []
    playing = ["--games", str(config.games), "--drain", f"{config.drain:g}"]
    rings = [] if is_remote else [str(sockets / f"ring-{index}") for index in range(len(devices))]

    def evaluator(index: int) -> list[str]:
        # Evaluators on the CPU share its cores; one on a GPU has no use for threads of torch.
        threads = config.threads or max(1, cores // devices.count("cpu")) if devices[index] == "cpu" else 0
        return python_module(
            *("client.evaluator", *joining, "--ring", rings[index], "--index", str(index)),
            *("--device", devices[index], "--threads", str(threads)),
            *("--workers", str(-(-count // len(devices))), "--games", str(config.games)),
        )

    def numbered(of: int, *more: str) -> list[list[str]]:
        numbers = (("--index", str(index), "--of", str(of)) for index in range(of))
        return [[*common, *one, *figures, *playing, *more] for one in numbers]

    workers = numbered(count, *(("--rings", *rings) if rings else ()))
    evaluators = [evaluator(index) for index in range(len(rings))]
    # Whether the network is in the search is known only later.
    in_search = numbered(config.workers or cores)
    prepare = [*common, "--warm-only", "--max-wait", str(config.max_wait)]
    text = "the server" if devices == ["remote"] else ", ".join(devices)
    if config.device == "auto" and gpus and not has_torch:
        text += " (torch is not installed, so the GPUs here are not used)"
    return Plan(prepare, evaluators, workers, text, in_search)


def add_joining(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a child that joins the server, as `make_plan` gives them."""
    add = parser.add_argument
    add("--bulk", required=True, help="endpoint for games and weights, such as tcp://host:5601")
    add("--spool", required=True, type=Path, help="folder of this host for finished games and weights")
    add("--server", default="", help="HOST:PORT as people know the server, for messages")
    add("--index", type=int, default=0, help="number of this process among its kind on its host")
    add("--games", type=int, default=0, help="games in flight of a worker; 0: as many as fill the batches")
    add("--name", default="", help="name shown to people; empty: the host's")
    add("--server-key", default="", help="the server's public key, if it asks for keys")
    add("--key", type=Path, help="file of this machine's key")
    add("--log-format", choices=("text", "json"), default="text")


def devices_for(setting: str, gpus: int, *, has_torch: bool = True) -> list[str]:
    """Return the devices of this machine's evaluators, or ["remote"]. Raises Fatal(CONFIG) for an unknown
    device, and for a local network without torch."""
    if setting == "auto":
        return [f"cuda:{index}" for index in range(gpus if has_torch else 0)] or ["remote"]
    with as_fatal(ValueError, Exit.CONFIG, f"--device {setting}: "):
        devices = named_devices(setting, "auto", "remote")
    if devices != ["remote"] and not has_torch:
        text = how_to_install(f"--device {setting}", ["torch"], "train")
        raise Fatal(f"{text}; or use --device remote", Exit.CONFIG)
    return devices


def count_gpus(devices: Path = Path("/dev")) -> int:
    """Return how many NVIDIA GPUs this user's processes see, without loading any GPU library."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices.glob("nvidia*"))
    # A container may name GPUs in the variable and have no device files.
    if visible is None or not found:
        return found
    # -1 hides all GPUs, as an empty value does.
    return len([part for part in visible.split(",") if part.strip() not in ("", "-1")])


def default_spool(address: Address) -> Path:
    """Return where finished games wait unless --spool says otherwise (XDG_DATA_HOME is respected)."""
    data = os.environ.get("XDG_DATA_HOME") or home() / ".local" / "share"
    return Path(data) / "azselfplay" / "spool" / address.folder_name
