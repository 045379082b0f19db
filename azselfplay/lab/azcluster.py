"""`azcluster`: one file says what runs where. `cluster.plan` reads the file; this module shows, runs and
renders the plan."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from azselfplay.host import config
from azselfplay.host.exits import Exit, Fatal, as_fatal, guarded, require
from azselfplay.host.folders import check_folders
from azselfplay.host.ports import Address, check_base_port
from azselfplay.host.runs import RunLock, is_locked, write_atomically
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.lab.cluster import plan, render
from azselfplay.lab.report.status_command import as_text, of_server
from azselfplay.link.keys import dial_keys

EXAMPLES = (
    "azcluster plan cluster.toml                        # every command, on its place",
    "azcluster up cluster.toml --on local               # all parts on this machine, until Ctrl-C",
    "azcluster up cluster.toml --on ray                 # on a Ray cluster; then also status, down",
    "azcluster render cluster.toml --for kubernetes --out kubernetes",
)


@dataclass(frozen=True)
class ClusterConfig:
    """One file says which part of a run runs on which machine; docs/many_machines.md describes it."""

    command: Positional[Literal["plan", "up", "status", "down", "render"]]
    """`plan` shows every command, `up` starts them, `status` says how they are, `down` ends them, and
    `render` writes files for what starts programs on your machines."""
    file: Positional[Path]
    """The cluster file."""
    on: Literal["local", "ray"] = "local"
    """For `up`, `status` and `down`: `local` runs all parts on this machine, `ray` on the nodes of the Ray
    cluster that this machine belongs to, each on one with the label of its place."""
    for_: Annotated[Literal["kubernetes", "slurm", "systemd", "skypilot", "prometheus"], arg(name="for")] = (
        "kubernetes"
    )
    """For `render`: what the files are for. `prometheus` is the list of addresses with metrics."""
    out: Path = Path("rendered")
    """For `render`: the folder for the files."""


def _main() -> int:
    settings = config.load(ClusterConfig, command="azcluster", examples=EXAMPLES)
    cluster = plan.read(settings.file)
    if settings.command == "render":
        for path, text in render.rendered(cluster, settings.for_).items():
            written, to_do = settings.out / path, "; give another folder with --out"
            with as_fatal(OSError, Exit.DISK, f"cannot write {written}: ", to_do):
                written.parent.mkdir(parents=True, exist_ok=True)
                written.write_text(text)
            print(written)
        return int(Exit.OK)
    if settings.command == "plan":
        parts = plan.planned(cluster)
        plan.check(parts)
        print(plan.as_text(parts))
        return int(Exit.OK)
    if settings.on == "ray":
        require("ray", "azcluster --on ray")
        from azselfplay.lab.cluster import on_ray  # nothing else imports ray

        parts = plan.planned(plan.elsewhere(cluster))
        if settings.command == "up":
            plan.check(parts)
        do = {"up": on_ray.up, "status": on_ray.status, "down": on_ray.down}[settings.command]
        do(cluster.run, parts)
    else:
        cluster = plan.on_one_machine(cluster)
        parts = plan.planned(cluster)
        if settings.command == "up":
            return _up(cluster, parts)
        if settings.command == "down":
            lock = _lock(cluster)
            if not is_locked(lock):
                raise Fatal(f"nothing is up here: no process holds {lock}", Exit.UNREACHABLE)
            pid = lock.with_suffix(".pid")
            # `up` writes to its lock first; an older process id may by now be that of any program.
            if not pid.exists() or pid.stat().st_mtime_ns < lock.stat().st_mtime_ns:
                raise Fatal(f"{cluster.run.name} comes up just now; try again", Exit.TRY_AGAIN)
            with contextlib.suppress(ProcessLookupError):  # it ends just now
                os.kill(int(pid.read_text()), signal.SIGTERM)
            with lock.open() as file:
                # This lock is granted only after all parts have ended and `up` has released its own lock.
                fcntl.flock(file, fcntl.LOCK_SH)
    if settings.command == "status":
        keys = dial_keys(cluster.run.server_key, None, "client") if settings.on == "ray" else None
        status = of_server(Address(parts[0].host, cluster.run.port, keys))
        print(as_text(status))
        return int(status.exit)
    return int(Exit.OK)


# ---- On this machine -----------------------------------------------------------------------------


def _lock(cluster: plan.Cluster) -> Path:
    """Return the file that `up` locks. The file beside it holds the process id of `up`."""
    return Path(cluster.run.runs) / f".{cluster.run.name}.azcluster"


def _up(cluster: plan.Cluster, parts: list[plan.Part]) -> int:
    """Run all parts until a signal comes, as azrun does."""
    require("train", "azcluster up")
    server = plan.check(parts)
    run, lock = cluster.run, _lock(cluster)
    check_folders(Path(run.runs), "`runs` in [run]")
    Path(run.runs).mkdir(parents=True, exist_ok=True)
    from azselfplay.host.aio import run as run_until_signal
    from azselfplay.lab.launcher import Launcher

    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(RunLock(lock))
        except BlockingIOError:
            raise Fatal(
                f"{run.name} is up already: end it with `azcluster down`, or name another run", Exit.TRY_AGAIN
            ) from None
        # `down` is another process, and may come at once: it needs our process id to send a signal.
        write_atomically(lock.with_suffix(".pid"), str(os.getpid()).encode())
        check_base_port("127.0.0.1", run.port)
        settings = RunConfig(
            game=server.game,
            net=server.net,
            run=run.name,
            runs=Path(run.runs),
            workers=server.workers,
            client_workers=len(parts) - 2,
        )
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        commands = {part.name: plan.runnable(part.with_devices(visible)) for part in parts}
        launcher = Launcher(settings, run.port, commands, graces={part.name: part.grace for part in parts})
        run_until_signal(launcher.main)
    return launcher.report()


def main() -> int:
    """Entry point of `azcluster`."""
    return guarded(_main)


if __name__ == "__main__":
    raise SystemExit(main())
