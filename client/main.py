"""`azclient`: keeps worker processes running against an azserver on another machine; `azclient keygen` makes
a key for it.

It imports neither torch nor Numba nor ZeroMQ, so that `--help` is quick and the supervisor stays small. A
first child joins the server, compiles its game once into the cache and leaves. Then the evaluators of this
machine's devices and the workers start. A stop ends the workers; with `--drain` they finish their games
first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from azselfplay.host import aio, config, logs
from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal, guarded, is_installed
from azselfplay.host.folders import check_folders, own_folder
from azselfplay.host.hardware import Gpus, may_have_gpus
from azselfplay.host.metrics import Monitor, Watched
from azselfplay.host.ports import parse_address
from azselfplay.host.processes import BACKOFF_LONGEST, Children, Stopped, describe_exit, output_of, to_stderr
from azselfplay.link.keys import as_text, default_folder, dial_keys, new_pair, write_pair
from client.config import ClientConfig, Plan, count_gpus, default_spool, devices_for, make_plan
from client.metrics import METRICS, SEARCH, FigureLines, Figures, WorkersFigures

EXAMPLES = (
    "azclient --server gpu-box                          # this machine's GPUs if any, else the server's",
    "azclient --server gpu-box:5700 --device remote --workers 8   # search here, evaluate there",
    "azclient --server 10.0.0.7 --device cuda:0,cuda:1            # two evaluators here, with workers",
)
LOG_SECONDS = 10.0
"""Seconds between two log lines on what is left to do before the end."""
PREPARE, EVALUATOR, WORKER = "prepare", "evaluator-", "client-"
"""Names of the children, the last two followed by a number."""
GRACE = 8.0
"""Seconds that workers get for a clean end; they need about three."""
log = logging.getLogger("azclient")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `azclient`; returns the exit status."""
    return guarded(lambda: _main(argv))


def load(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> ClientConfig:
    """Return the checked settings of azclient. `argv` and `environment` are those of `config.load`."""
    settings = config.load(ClientConfig, argv, command="azclient", examples=EXAMPLES, environment=environment)
    devices_for(settings.device, count_gpus(), has_torch=is_installed("torch"))
    return settings


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["doctor"]:
        from client.doctor import main as check_machine

        return check_machine(words[1:])
    if words[:1] == ["keygen"]:
        return keygen(words[1:])
    settings = load(argv)
    dial_keys(settings.server_key, settings.key, "client")  # checked now: an error ends this process
    address = parse_address(settings.server)
    spool = settings.spool or default_spool(address)
    check_folders(spool, "--spool")
    logs.set_up("azclient", form=settings.log_format)

    async def life(stop: aio.Stop) -> None:
        with ExitStack() as stack:
            monitor = stack.enter_context(Monitor(settings.metrics_listen, settings.metrics_port))
            stack.enter_context(suppress(Stopped))
            chosen = replace(settings, device=await chosen_device(settings.device, stop))
            # For the sockets of evaluators on this machine.
            plan = make_plan(chosen, address, spool, stack.enter_context(own_folder()))
            await supervise(plan, stop, settings.drain, monitor, spool)

    aio.run(life)
    return int(Exit.OK)


async def chosen_device(setting: str, stop: aio.Stop) -> str:
    """Return the GPUs that torch can use in place of `auto`, or `remote` if it can never use any: a GPU's
    device file does not say that torch has code for it. `auto` stays if GPUs with device files do not answer
    now: evaluators wait for them. Raises Stopped."""
    if setting != "auto" or not may_have_gpus() or not is_installed("torch"):
        return setting
    try:
        found = Gpus(*json.loads(await output_of("net.gpu", stop=stop)))
    except Fatal:
        return setting
    if found.may_come and count_gpus():
        return setting
    if not found.usable:
        text = "this machine's GPUs are not used: %s (--device remote: without this warning)"
        log.warning(text, found.why)
    return ",".join(found.usable) or "remote"


async def supervise(plan: Plan, stop: aio.Stop, drain: float, monitor: Monitor, spool: Path) -> None:
    """Play until a signal, for whatever run the server has. Raises Fatal as `Supervisor.run` does."""
    # --max-wait is for the first time: later the server is waited for as workers do it, for ever.
    later = replace(plan, prepare=[*plan.prepare, "--max-wait", "0"])
    while not stop.finishing.is_set():
        try:
            await Supervisor(plan, stop, drain).run(monitor, spool)
        except Fatal as fatal:
            # People watch the first start. Later, what may pass, such as too little memory, is waited for.
            if plan is not later or fatal.code in NOT_RETRIED:
                raise
            log.warning("preparing again has failed (%s); the next try is in %.0f s", fatal, BACKOFF_LONGEST)
            await aio.first_of(stop.finishing, seconds=BACKOFF_LONGEST)
        plan = later


class Supervisor:
    """Prepares for the server's run, then keeps the workers running until a signal, or until they join a run
    for which they must be prepared again: its game or network is another one."""

    def __init__(self, plan: Plan, stop: aio.Stop, drain: float = 0.0) -> None:
        """`drain`: as in `ClientConfig`."""
        self._plan = plan
        self._stop = stop
        self._end = aio.Stop()
        """Ends the children."""
        self._drain = drain
        # Workers that are draining must not be killed before that time is over.
        self._children = Children(grace=GRACE + drain)
        self._search: list[str] = []
        """What was prepared: see `client.metrics.SEARCH`."""
        self._failed: Fatal | None = None
        self._figures = WorkersFigures(len(plan.workers))

    async def run(self, monitor: Monitor, spool: Path) -> None:
        """Run until a signal or another run. If the preparing child fails, raises Fatal with the child's
        message and exit status."""

        def figures() -> Figures:
            running = sum(name.startswith(WORKER) for name in self._children.pids())
            return self._figures.as_dict(running, self._children.restarts(WORKER))

        monitor.watched = Watched(METRICS, figures, self._figures.not_ready, spool)
        self._stop.waits_for = "the workers, which give up unfinished games"
        if self._drain:
            self._stop.waits_for = f"the workers, which finish their games, {self._drain:.0f} s at most"

        def on_preparing(figures: Figures) -> None:
            self._search = figures[SEARCH]

        sink = FigureLines(all_but_errors, on_preparing)
        # The preparing child is not restarted when it fails: its message and exit status become ours.
        self._children.add(PREPARE, self._plan.prepare, restart=False, on_exit=self._on_prepared, sink=sink)

        async def end_on_signal() -> None:
            """End the children. With --drain, log how many games are left: at once, and then regularly."""
            await self._stop.finishing.wait()
            self._end.request()
            while self._drain:
                left = self._figures.left()
                log.info("draining: %s; a second signal ends at once and gives unfinished games up", left)
                await asyncio.sleep(LOG_SECONDS)

        async with asyncio.TaskGroup() as group:
            ending = group.create_task(end_on_signal())
            await self._children.run(self._end)
            ending.cancel()
        if self._failed is not None:
            raise self._failed

    def _on_prepared(self, code: int) -> None:
        # If the child ends because of the stop, its exit code means nothing.
        if self._stop.finishing.is_set():
            return
        if code != Exit.OK:
            words = (
                self._children.reported_error(PREPARE)
                or f"preparing failed ({describe_exit(code)}), see above"
            )
            self._failed = Fatal(words, Exit(code) if code in set(Exit) else Exit.INTERNAL)
            self._end.request()
            return
        plan = self._plan
        argvs, evaluators, evaluator = plan.workers, plan.evaluators, plan.device_text
        # The last word is the network in the search.
        if self._search and self._search[-1]:
            argvs, evaluators, evaluator = plan.in_search, [], "the network in their own search"
        for index, argv in enumerate(evaluators):
            self._children.add(f"{EVALUATOR}{index}", argv, serves=True)
        # The number is known only now, because a network in the search needs other workers.
        self._figures.expected = len(argvs)
        workers = "1 worker" if len(argvs) == 1 else f"{len(argvs)} workers"
        log.info("starting %s, evaluated by %s", workers, evaluator)
        for index, argv in enumerate(argvs):
            self._children.add(
                f"{WORKER}{index}",
                argv,
                on_exit=partial(self._figures.ended, index),
                sink=FigureLines(to_stderr, partial(self._on_figures, index)),
            )

    def _on_figures(self, index: int, figures: Figures) -> None:
        if SEARCH not in figures:
            self._figures.report(index, figures)
        elif figures[SEARCH] != self._search and not self._end.finishing.is_set():
            log.info("the server's run has another game or network: everything here starts again for it")
            self._end.request()


def all_but_errors(line: bytes) -> None:
    """Print a line of the preparing child. Its `command: error: ...` becomes azclient's own."""
    if b": error: " not in line:
        to_stderr(line)


def keygen(argv: Sequence[str]) -> int:
    """Print the public key and what to do with it."""
    options = keygen_parser().parse_args(argv)
    role = "trainer" if options.trainer else "client"
    # The key is named after this machine; a trainer's name differs from that of a client beside it. A host's
    # name may have dots and other characters that a key's name must not have.
    host = re.sub("[^A-Za-z0-9]", "-", socket.gethostname().partition(".")[0]).strip("-")[:50] or "NAME"
    name = host if role == "client" else f"{host}-{role}"
    path: Path = options.key or default_folder() / f"{role}.key"
    pair = new_pair()
    write_pair(path, pair, f"Key of an azselfplay {role}. Keep it secret.")
    print(f"the key is in {path}; on the server's machine, let it join:")
    print(f"  azserver allow {role} {name} {shlex.quote(as_text(pair.public))}")
    return int(Exit.OK)


def keygen_parser() -> argparse.ArgumentParser:
    """Return the parser of the words after `azclient keygen`."""
    whole = argparse.ArgumentParser(
        prog="azclient keygen", description="Makes a key for this machine (docs/security.md)."
    )
    whole.add_argument("--trainer", action="store_true", help="for `python -m trainer`, not for azclient")
    place = "client.key or trainer.key in ~/.config/azselfplay"
    whole.add_argument("--key", type=Path, help=f"file of the key (default: {place})")
    return whole


if __name__ == "__main__":
    sys.exit(main())
