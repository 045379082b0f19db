"""Runs `azrun`: it starts server, client and trainer, watches them, and ends them in order.

The three parts are the commands that a person would start, on a free port, as separate processes. The figures
come over the network, as for any other peer (GET_STATUS).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from azselfplay.host import logs
from azselfplay.host.aio import Stop, first_of
from azselfplay.host.exits import Exit, drop_output
from azselfplay.host.logs import LogFile
from azselfplay.host.processes import Children
from azselfplay.host.runs import RunFolder, has_final_figures
from azselfplay.host.view import View
from azselfplay.lab.azrun_config import TRAINER_GRACE, Commands, RunConfig, run_name
from azselfplay.lab.azrun_texts import Failures, Milestones, beginning, ending
from azselfplay.link.connection import Connection
from azselfplay.link.sockets import new_context
from protocol.messages import PROTOCOL_VERSION, GetStatus, Hello, Message, Status

ASK_EVERY = 1.0
"""Seconds between two GET_STATUS."""
GRACE = 15.0
"""Seconds that a part has to end cleanly, in addition to the time for which it waits for other parts."""
GRACES = {"trainer": TRAINER_GRACE, "server": GRACE + TRAINER_GRACE}
"""The parts that get more time, if the caller does not say otherwise."""
CONNECTION_LOG = "azselfplay.link.connection"
"""The logger of connections."""


class Part:
    """One of the three processes, with its own stop so that they can be ended in order."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        grace: float,
        sink: Callable[[bytes], None],
        on_exit: Callable[[Part, int], None],
    ) -> None:
        """`grace`: seconds for a clean end. `sink` gets the output of the process; `on_exit(part, code)` is
        called after each end of the process."""
        self.name = name
        self.stop = Stop()
        self.children = Children(grace=grace, sink=sink)
        self.children.add(name, argv, on_exit=partial(on_exit, self))
        self.ended = asyncio.Event()

    async def run(self, begin: asyncio.Event) -> None:
        """Wait for `begin`, then keep the process running until `end`."""
        try:
            # A client that has not begun yet must end, too.
            await first_of(begin, self.stop.finishing)
            await self.children.run(self.stop)
        finally:
            self.ended.set()

    async def end(self) -> None:
        self.stop.request()
        await self.ended.wait()


class Launcher:
    """The parts (server, trainer, and any clients), the watcher and the view, for the duration of one run."""

    def __init__(
        self, settings: RunConfig, port: int, commands: Commands, graces: Mapping[str, float] = {}
    ) -> None:
        """`commands`: the processes. `graces`: seconds for a clean end, by part."""
        self.settings = settings
        self.name = run_name(settings)
        self.folder = RunFolder(settings.runs, self.name)
        self.port = port
        self.commands = commands
        self._graces = {name: {**GRACES, **graces}.get(name, GRACE) for name in commands}
        self.figures: dict[str, Any] = {}
        self._ready_for_clients = asyncio.Event()
        self._no_workers = asyncio.Event()
        self._is_ending = False
        self._failures = Failures()
        # Read from the folder, because a continued run has steps already.
        self._first_step = self._step()

    async def main(self, stop: Stop) -> None:
        """Run until the time is over or a signal comes; then end players, trainer and server. If the parts of
        a new run are refused, no folder is left behind."""
        at_most = GRACE + self._graces["server"] + self._graces["trainer"]
        at_most += max((self._graces[name] for name in self.commands if name.startswith("client")), default=0)
        stop.waits_for = f"games and training steps under way, {at_most:.0f} s at most"
        with (
            self.folder.removed_if_refused(),
            View(f"{self.name}, port {self.port}") as view,
            contextlib.ExitStack() as stack,
        ):
            logs.set_up("azrun", self.folder.logs / "azrun.log", quiet=True)
            warnings = view.notes()
            # At the end the server goes away as planned, so a lost connection is not worth a message.
            warnings.addFilter(lambda record: not (self._is_ending and record.name == CONNECTION_LOG))
            stack.enter_context(warnings)
            parts = self._parts(view)
            for text in beginning(self.settings, self.folder, self.port):
                view.note(text)
            async with asyncio.TaskGroup() as group:
                # This event is set at once, because only the client has to wait.
                at_once = asyncio.Event()
                at_once.set()
                for part in parts:
                    begin = self._ready_for_clients if part.name.startswith("client") else at_once
                    group.create_task(part.run(begin))
                watcher = group.create_task(self._watch(view))
                await first_of(stop.finishing, seconds=60 * self.settings.minutes or None)
                stop.request()
                # Save the rates of the run itself: at its end, when the parts leave one after the other, they
                # are distorted.
                at_end = {key: self.figures.get(key, 0.0) for key in ("evals", "uptime_s", "mean_batch")}
                self._is_ending = True
                view.note(
                    f"{datetime.now():%H:%M:%S} ending: the last games are stored, the last weights written "
                    "(some seconds; Ctrl-C ends it at once)"
                )
                await self._end_in_order(parts, watcher)
                # A trainer that was killed has left the figures of an earlier end.
                final = self.folder.read_figures() if has_final_figures(self.folder) else {}
                self.figures["trainer"] = final or self.figures.get("trainer")
            # Replace the figures of the last look, which came while the parts were leaving.
            self.figures |= at_end

    async def _end_in_order(self, parts: Sequence[Part], watcher: asyncio.Task[None]) -> None:
        """End the players first, so that their games are stored. Ask the server to stop, which ends its
        workers. End the trainer, whose last weights the server still accepts (`--trainer-grace`). Then end
        the server."""
        server, trainer, *clients = parts  # in the order of `make_commands`
        await asyncio.gather(*(client.end() for client in clients))
        server.stop.request()
        await first_of(self._no_workers, server.ended, seconds=GRACE)
        await trainer.end()
        watcher.cancel()
        await server.end()

    def summary(self) -> dict[str, Any]:
        """Return the last line of output, for programs."""
        trainer = self.figures.get("trainer") or {}
        # There are no batches if the network is part of the search.
        batches = {"mean_batch": mean} if (mean := self.figures.get("mean_batch")) else {}
        return {
            "games": trainer.get("games", 0),
            "positions": trainer.get("positions", 0),
            "steps": trainer.get("step", 0),
            "evals_per_s": round(
                self.figures.get("evals", 0) / max(1.0, self.figures.get("uptime_s", 0.0)), 1
            ),
            **batches,
            "versions": trainer.get("versions", {"workers": 0, "clients": 0}),
            "games_by_source": trainer.get("games_by_source", {"workers": 0, "clients": 0}),
        }

    def report(self) -> int:
        """Print the summary for scripts, and, on the standard error, what was finished and what to do now.
        Returns the exit status."""
        failure = self._failures.of_training(time.monotonic(), self._step(), self._first_step)
        why, status = failure or ("", Exit.OK)
        try:
            print(json.dumps(self.summary()), flush=True)
        except BrokenPipeError:
            # In `azrun | tee log`, Ctrl-C has ended `tee`, too. People and the status still say how it went.
            drop_output()
        print(
            "", *ending(self.settings, self.folder, self.figures, why), sep="\n", file=sys.stderr, flush=True
        )
        return int(status)

    def _step(self) -> int:
        trainer = self.figures.get("trainer") or self.folder.read_figures()
        return int(trainer.get("step") or 0)

    async def _watch(self, view: View) -> None:
        """Ask for the figures every second and show them."""
        context, milestones = new_context(), Milestones()
        hello = Hello(PROTOCOL_VERSION, "watcher", f"azrun {os.getpid()}")

        def on_message(message: Message, frames: list[memoryview]) -> None:
            if isinstance(message, Status) and not frames:
                # A trainer (or server) that has just restarted has no figures yet, so keep the last ones.
                trainer = message.figures.get("trainer") or self.figures.get("trainer") or {}
                self.figures = {**message.figures, "trainer": trainer}
                workers = (message.figures.get("sessions") or {}).get("workers", 0)
                if workers:
                    self._no_workers.clear()
                else:
                    self._no_workers.set()
                # Otherwise the client would compile the game at the same time as the server, and both would
                # take twice as long.
                if workers >= (self.settings.workers != 0):
                    self._ready_for_clients.set()
                # At the end the parts leave one after the other; these changes are not reported.
                for text in [] if self._is_ending else milestones.lines(self.figures):
                    view.note(f"{datetime.now():%H:%M:%S} {text}")
                troubles = self._failures.current(time.monotonic())
                view.update({**self.figures, "troubles": troubles}, time.monotonic())

        connection = Connection(context, f"tcp://127.0.0.1:{self.port}", hello, on_message=on_message)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.run())
                while True:
                    connection.send(GetStatus())
                    await asyncio.sleep(ASK_EVERY)
        finally:
            context.term()

    def _parts(self, view: View) -> list[Part]:
        self.folder.logs.mkdir(parents=True, exist_ok=True)

        def on_output(name: str, log_file: LogFile, output: bytes) -> None:
            # Write all output to the file, including lines that are not shown.
            log_file.write(output)
            for text in self._failures.on_output(name, output, time.monotonic(), self._step()):
                view.note(f"{datetime.now():%H:%M:%S} {text}")

        def ended(part: Part, code: int) -> None:
            asked, why = part.stop.finishing.is_set(), part.children.reported_error(part.name)
            # Once a part was asked to end, errors matter only for the trainer, which still writes the last
            # weights.
            if not asked or part.name == "trainer":
                self._failures.ended(part.name, code, why, time.monotonic(), self._step(), asked=asked)

        return [
            Part(name, argv, self._graces[name], partial(on_output, name, log_file), ended)
            for name, argv in self.commands.items()
            for log_file in [LogFile(self.folder.logs / f"azrun-{name}.log")]
        ]
