"""Which worker processes azclient starts: a pure function of its settings and of what the machine has."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from client.config import ClientConfig
from runtime.exits import Exit, Fatal
from runtime.ports import Address


@dataclass(frozen=True)
class Plan:
    """Command lines of children."""

    prepare: list[str]
    """Joins, compiles the server's game once and leaves."""
    workers: list[list[str]]
    device_text: str
    """Who evaluates, for people."""


def count_gpus(devices: Path = Path("/dev")) -> int:
    """NVIDIA GPUs that this user's processes see, found without loading any GPU library."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices.glob("nvidia*"))
    if visible is None or not found:
        return found
    return len([part for part in visible.split(",") if part.strip() not in ("", "-1")])


def devices_for(setting: str, gpus: int) -> list[str]:
    """The devices that workers are spread over. Fatal(CONFIG) for a word that is none."""
    if setting == "auto":
        return [f"cuda:{index}" for index in range(gpus)] or ["remote"]
    if re.fullmatch(r"remote|cpu|cuda:\d+", setting):
        return [setting]
    raise Fatal(f"--device {setting} is not known: give remote, cpu, cuda:N or auto", Exit.CONFIG)


def make_plan(
    config: ClientConfig, address: Address, spool: Path, *, gpus: int | None = None, cores: int | None = None
) -> Plan:
    """`gpus` and `cores`: of this machine, found out when not given. Fatal(CONFIG) for senseless settings."""
    if config.workers < 0 or config.games < 0:
        raise Fatal("--workers and --games must not be negative; 0 chooses for you", Exit.CONFIG)
    cores = cores or len(os.sched_getaffinity(0))
    devices = devices_for(config.device, count_gpus() if gpus is None else gpus)
    count = config.workers or (cores if devices == ["remote"] else len(devices))
    threads = config.threads or (max(1, cores // count) if devices == ["cpu"] else 0)
    common = [
        *(sys.executable, "-m", "client.worker", "--role", "client"),
        *("--server", address.server, "--leaves", address.leaves),
        *("--bulk", address.bulk),
        *("--spool", str(spool), "--name", config.name),
    ]
    workers = []
    for index in range(count):
        own = ["--index", str(index), "--device", devices[index % len(devices)]]
        workers.append([*common, *own, "--games", str(config.games), "--threads", str(threads)])
    prepare = [*common, "--warm-only", "--max-wait", str(config.max_wait)]
    text = "the server" if devices == ["remote"] else ", ".join(devices)
    return Plan(prepare, workers, text)
