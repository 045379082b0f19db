"""azserver as a whole: prepares the run, opens the ports, keeps evaluators and workers running, and stops
them.

The stop has two stages. First the workers end, while the front still accepts their last games. Under azrun
the front then waits for the trainer's last weights. Then the evaluators end, and the front ends last. A
second signal ends everything at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from azselfplay.games import Game, get_game
from azselfplay.host import logs
from azselfplay.host.aio import Stop, first_of
from azselfplay.host.exits import Exit, Fatal, require
from azselfplay.host.folders import own_folder
from azselfplay.host.hardware import usable_cores, workers_beside
from azselfplay.host.logs import LogFile
from azselfplay.host.metrics import Monitor, Watched
from azselfplay.host.ports import PORTS, check_web_port, named_base_port
from azselfplay.host.processes import Children, Stopped, python_module, to_stderr
from azselfplay.host.runs import RunFolder
from azselfplay.host.view import View
from azselfplay.search.settings import resolve
from net.architectures.registry import is_sparse
from server.config import ServerConfig, check_network_in_search
from server.front import Front, FrontSettings
from server.gate import Gatekeeper, gate_command
from server.keys import open_allowed, say_address
from server.metrics import METRICS
from server.preparation import (
    check_gate_device,
    compile_rules,
    find_devices,
    first_weights,
    network_of_run,
    opened_run,
    warn_of_waiting_games,
    with_start_positions,
)
from server.weights import WeightsStore

WATCH_SECONDS = 1.0
"""Seconds between two updates of the figures and checks for hanging evaluators."""
ALL_UP_SECONDS = 60.0
"""Seconds that the workers wait for the other evaluators once the first is up."""

log = logging.getLogger("azserver")


class App:
    """One azserver process. `run(stop)` is its whole life."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        try:
            self._game: Game = get_game(config.game)
            self._self_play = resolve(with_start_positions(config), self._game)
        except ValueError as error:
            raise Fatal(str(error), Exit.CONFIG) from error
        # Check the keys before anything is created: a server that others can reach does not start without
        # keys.
        self._allowed = open_allowed(config)
        self._cores = usable_cores()
        self._on_terminal = sys.stderr.isatty()

    async def run(self, stop: Stop) -> None:
        """Run until `stop`. Raises Fatal."""
        stop.waits_for = "the workers' last games, a few seconds"
        with ExitStack() as stack:
            folder = stack.enter_context(opened_run(self._config, self._self_play.history))
            logs.set_up(
                "azserver",
                folder.logs / "azserver.log",
                quiet=self._on_terminal,
                form=self._config.log_format,
            )
            local = stack.enter_context(own_folder())
            self._monitor = stack.enter_context(
                Monitor(self._config.metrics_listen, self._config.metrics_port)
            )
            view = stack.enter_context(View(f"azserver {folder.name}, port {self._config.port}"))
            if self._on_terminal:
                line = logs.CountingFormatter("%(asctime)s %(message)s", datefmt=logs.DATE_FORMAT)
                stack.enter_context(view.notes(logging.INFO, line))
            if self._config.web:
                # Before anything is started.
                require("web", "azserver --web")
                check_web_port(self._config.web, self._config.port)
            try:
                await self._serve(folder, local, view, stop)
            except Stopped:
                log.info("stopped before anything was started")

    async def _serve(self, folder: RunFolder, local: Path, view: View, stop: Stop) -> None:
        """Serve the run. `local`: a folder for the sockets of this machine's own processes."""
        config = self._config
        store = WeightsStore(folder.weights, self._game.name)
        history = self._self_play.history
        begins = await network_of_run(config, history, store, stop)
        network = begins.network
        devices: list[str] = []
        if is_sparse(network):
            check_network_in_search(network, self._game.name)
            log.info("no evaluator is started: the network %s is part of the players' own search", network)
        else:
            devices = await find_devices(config.gpus, stop)
            if not devices:
                log.info("no evaluator is started (--gpus none): clients play with evaluators of their own")
        await check_gate_device(config.gate, stop)
        workers = self._workers(devices, in_search=is_sparse(network))
        if not workers:
            warn_of_waiting_games(folder)
        tcp = [f"tcp://{config.listen}:{config.port + offset}" for offset in range(PORTS)]
        settings = FrontSettings(
            run=folder.name,
            run_id=folder.run_id,
            game=self._game,
            history=history,
            self_play=asdict(self._self_play),
            leaves=(tcp[0],),
            bulk=(tcp[1], f"ipc://{local / 'bulk'}"),
            evaluators=f"ipc://{local / 'evaluators'}",
            rings=tuple(local / f"ring-{index}" for index in range(len(devices))),
            devices=len(devices),
            local_workers=workers,
            network=network,
            games_in_flight=config.games,
            allowed=self._allowed,
            weights_url=config.weights_url,
        )
        # The constructor binds the ports. An error names the port that the user asked for, even if the port
        # in use is the next one.
        with named_base_port(self._config.port):
            front = Front(settings, store)
        self._monitor.watched = Watched(
            METRICS, front.metrics, lambda: front.not_ready(time.monotonic()), folder.path
        )
        try:
            front.pool.desired = await first_weights(config, history, begins, store, stop)
            device = devices[0] if devices else "cpu"
            gate = self._gate(front, folder, device) if config.gate.mode == "alphago_zero" else None
            say_address(config, self._allowed)
            await self._run_all(front, devices, workers, folder, view, stop, gate)
        finally:
            front.close()

    async def _run_all(
        self,
        front: Front,
        devices: list[str],
        workers: int,
        folder: RunFolder,
        view: View,
        stop: Stop,
        gate: Gatekeeper | None,
    ) -> None:
        """Start front, evaluators and workers in this order, and end them in the opposite one."""
        # Output of child processes would disrupt the live view on a terminal.
        sink = LogFile(folder.logs / "children.log").write if self._on_terminal else to_stderr
        evaluators, players, pages = (Children(sink=sink) for _ in range(3))
        stop_evaluators = Stop()
        self._add_evaluators(evaluators, devices, workers, front)
        # The pages have a process of their own, so that they take no time from the front.
        if port := self._config.web:
            command = "azselfplay.lab.web.command"
            pages.add("web", python_module(command, str(folder.path), "--port", str(port)))
            log.info("pages on this run: http://127.0.0.1:%d/run/%s", port, folder.name)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(front.run())
            evaluating = group.create_task(evaluators.run(stop_evaluators))
            showing = group.create_task(pages.run(stop_evaluators))
            beside = [group.create_task(self._watch(front, evaluators, view))]
            try:
                if workers:
                    selection = self._self_play.search.selection
                    network = front.settings.network if is_sparse(front.settings.network) else ""
                    await compile_rules(self._game, selection, network, front.figures.preparing, stop)
                if gate is not None:
                    beside.append(group.create_task(gate.run()))
                # On a CPU loading is too quick to be worth a line.
                on_gpu = any(device != "cpu" for device in devices)
                what = "the evaluators load the network; for a GPU torch compiles it first (about 20 s)"
                front.figures.preparing.begin(what if on_gpu else "", time.monotonic())
                # The front would refuse workers that came before an evaluator is up.
                await _first_of(front.one_up, stop.finishing)
                front.figures.preparing.end(time.monotonic())
                await _first_of(front.all_up, stop.finishing, seconds=ALL_UP_SECONDS)
                for index in range(workers):
                    worker = python_module(
                        "client.worker",
                        *("--role", "worker", "--index", str(index), "--of", str(workers)),
                        # The last endpoint is the Unix socket: processes on this machine need no handshake
                        # with keys.
                        *("--bulk", front.settings.bulk[-1], "--spool", str(folder.spool)),
                        *("--log-format", self._config.log_format),
                    )
                    players.add(f"worker-{index}", worker)
                await players.run(stop)
                # Under azrun the trainer stops at the same time, and its last weights belong to the run.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._config.trainer_grace):
                        await front.trainer_left()
            except Stopped:
                log.info("stopped while starting")
            # The workers are gone by now; this is for clients and the trainer, which may come back.
            front.say_goodbye()
            # The evaluators end last, because the workers' games needed them until now.
            stop_evaluators.request()
            await asyncio.wait({evaluating, showing})
            for task in (serving, *beside):
                task.cancel()

    def _gate(self, front: Front, folder: RunFolder, device: str) -> Gatekeeper:
        """Make the run's gate, which new weights have to pass, and connect it."""
        command = gate_command(self._config, self._self_play, device, front.store)
        share, log_file = self._config.gate.share, folder.logs / "gate.log"
        gate = Gatekeeper(front.store, share, command, front.pool.load, log_file)
        # After a crash `current.json` may still name the previous best, if no evaluator had loaded the new
        # one.
        front.bulk.weights.gate, front.pool.desired = gate, gate.state.best
        log.info("alphago_zero: weights %d play until newer ones win the gate", gate.state.best.version)
        return gate

    # ---- child processes -------------------------------------------------------------------

    def _workers(self, devices: list[str], *, in_search: bool) -> int:
        """Return the number of local workers. If nobody evaluates for them it is 0; raises Fatal(CONFIG) if
        the user asks for some nevertheless. Where the network is part of their search, the default is three
        quarters of the cores, or both of two: the trainer takes about a quarter of the time of the worker
        that it learns from."""
        if not devices and not in_search:
            if self._config.workers:
                text = "--gpus none evaluates nothing, so workers of this server cannot play"
                raise Fatal(f"{text}: leave --workers out, or name a device", Exit.CONFIG)
            return 0
        if self._config.workers is not None:
            return self._config.workers
        if not devices:
            return self._cores - self._cores // 4
        return workers_beside(devices, self._cores)

    def _add_evaluators(self, children: Children, devices: list[str], workers: int, front: Front) -> None:
        on_cpu = devices.count("cpu")
        # Evaluators on the CPU share the cores: more threads than cores would wait for each other.
        threads = self._config.cpu_threads or max(1, self._cores // max(1, on_cpu))
        for index, device in enumerate(devices):
            argv = python_module(
                "server.evaluator",
                *("--endpoint", front.settings.evaluators, "--index", str(index)),
                *("--ring", str(front.settings.rings[index])),
                # Rounded up: an evaluator sizes its batches by the number of workers that it may get.
                *("--workers", str(-(-workers // len(devices))), "--games", str(self._config.games)),
                *("--device", device, "--game", self._game.name),
                *("--history", str(self._self_play.history)),
                *("--threads", str(threads if device == "cpu" else 0)),
                *("--log-format", self._config.log_format),
            )
            children.add(
                f"evaluator-{index}",
                argv,
                on_start=partial(front.pool.process_started, index),
                on_exit=partial(front.pool.process_ended, index),
            )

    # ---- live view -------------------------------------------------------------------------

    async def _watch(self, front: Front, evaluators: Children, view: View) -> None:
        """Show the figures; kill evaluators that hang, so that they are restarted."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            view.update(front.status(), time.monotonic())
            pids = evaluators.pids()
            # The front knows which evaluators hang; `evaluators` knows their processes.
            for index, reason in front.hanging_evaluators():
                pid = pids.get(f"evaluator-{index}")
                if pid is not None:
                    log.warning("evaluator %d hangs (%s): restarting it", index, reason)
                    # Not SIGTERM: a process that hangs does not handle it. `Children` starts it again.
                    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                        os.kill(pid, signal.SIGKILL)


async def _first_of(event: asyncio.Event, stop: asyncio.Event, seconds: float | None = None) -> None:
    """Wait for `event`. Raises Stopped if `stop` comes first; returns after `seconds` in any case."""
    await first_of(event, stop, seconds=seconds)
    if stop.is_set():
        raise Stopped
