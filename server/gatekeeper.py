"""Runs the gate: the process that plays its games, the file with its state, and the evaluators."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec

from protocol.messages import WeightsInfo
from protocol.settings import SelfPlaySettings, changed
from runtime.child_process import ChildProcess, start_patiently
from runtime.gating import PROGRESS_SECONDS, GateReport
from runtime.log_files import LogFile
from runtime.processes import describe_exit, python_module
from runtime.reading import read_struct
from runtime.runs import write_atomically
from search.settings import evaluation_settings
from server.config import ServerConfig
from server.gate import Gate, GateState, Instruction, Play, Promote, Reject, Save, belongs
from server.weights import WeightsStore

FILE = "gate.json"
RETRY_SECONDS = 5.0
"""Seconds to wait after a match that broke off, so that one which always does costs little."""
SILENCE_SECONDS = 20 * PROGRESS_SECONDS
"""Seconds without a report after which a match counts as hanging. Loading and compiling take a minute at
most."""

log = logging.getLogger("azserver")

Command = Callable[[Play], Sequence[str]]
"""Returns the command line that plays a match; the process prints `GateReport`s as JSON lines."""


@dataclass(frozen=True)
class GateSettings:
    """How matches of the gate are played."""

    game: str
    self_play: SelfPlaySettings
    """Resolved settings, without noise and everything else that is random in self-play."""
    games: int = 400
    share: float = 0.55
    simulations: int = 0
    device: str = "cpu"
    threads: int = 0

    @classmethod
    def of(cls, config: ServerConfig, self_play: SelfPlaySettings, device: str) -> GateSettings:
        """`device`: the first evaluator's device."""
        return cls(
            config.game,
            self_play,
            config.gate.games,
            config.gate.share,
            config.gate.simulations,
            config.gate.device or device,
            config.cpu_threads,
        )


def gate_settings(settings: SelfPlaySettings, simulations: int = 0) -> SelfPlaySettings:
    """Return the same search of the same game without noise and without chance."""
    quiet = evaluation_settings(settings, "history", "search.reuse_tree", "max_plies", "start.position")
    return changed(quiet, {"search.simulations": simulations or settings.search.simulations})


def gate_command(settings: GateSettings, store: WeightsStore) -> Command:
    """Return command lines of `evaluation.gate`, with other openings for each candidate."""
    search = msgspec.json.encode(asdict(gate_settings(settings.self_play, settings.simulations)))

    def command(play: Play) -> list[str]:
        return python_module(
            "evaluation.gate",
            *("--game", settings.game),
            *("--best", str(store.path(play.best))),
            *("--candidate", str(store.path(play.candidate))),
            *("--games", str(settings.games), "--share", str(settings.share)),
            *("--seed", str(play.candidate.version), "--self-play", search.decode()),
            *("--device", settings.device, "--threads", str(settings.threads)),
        )

    return command


def read_state(store: WeightsStore) -> GateState | None:
    """Return the state that an earlier process saved, if it belongs to these weights and its files exist."""
    path, current = store.about.with_name(FILE), store.current
    assert current is not None
    try:
        state = read_struct(path, GateState)
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        log.warning("%s cannot be read (%s): the gate begins anew with the current weights", path, error)
        return None
    if not belongs(state, current) or not store.has(state.best):
        log.warning("%s is about other weights: the gate begins anew with the current ones", path)
        return None
    there = {name: one for name in ("candidate", "waiting") if (one := getattr(state, name)) is not None}
    gone = [name for name, one in there.items() if not store.has(one)]
    return msgspec.structs.replace(state, **dict.fromkeys(gone))


class Gatekeeper:
    """Carries out the instructions of `Gate`. `load` makes the evaluators load weights that are in the
    store."""

    def __init__(
        self,
        store: WeightsStore,
        share: float,
        command: Command,
        load: Callable[[WeightsInfo], None],
        log_file: Path,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        """`silence`: seconds without a report after which a match's process counts as hanging."""
        assert store.current is not None
        self._gate = Gate(store.current, share, read_state(store))
        self._store = store
        self._command = command
        self._load = load
        self._log = LogFile(log_file)
        self._silence = silence
        self._never = asyncio.Event()
        self._jobs: asyncio.Queue[Play] = asyncio.Queue(maxsize=2)

    @property
    def best(self) -> WeightsInfo:
        return self._gate.state.best

    @property
    def newest(self) -> WeightsInfo:
        """The weights published last."""
        return self._gate.state.newest

    def figures(self) -> dict[str, Any]:
        return self._gate.figures()

    def published(self, info: WeightsInfo) -> None:
        """Handle new weights of the trainer that are stored."""
        self._follow(self._gate.published(info))

    def refused(self, info: WeightsInfo) -> None:
        """Handle weights that no evaluator accepts."""
        if self._store.current is not None:
            self._follow(self._gate.refused(info, self._store.current))

    async def run(self) -> None:
        """Play matches, one after the other, until cancelled."""
        self._follow(self._gate.start())
        while True:
            play = await self._jobs.get()
            log.info(
                "gate: weights %d play against %d, the best so far", play.candidate.version, play.best.version
            )
            try:
                reason = await self._play(play)
            except OSError as error:
                reason = str(error)
            self._follow(self._gate.ended(reason))
            if reason:
                await asyncio.sleep(RETRY_SECONDS)

    async def _play(self, play: Play) -> str:
        """Run one process from start to end. Returns why it broke off, or ''."""
        process = await start_patiently("gate", self._command(play), stop=self._never, stderr=PIPE)
        assert process is not None
        async with contextlib.aclosing(process), asyncio.TaskGroup() as group:
            complaints = group.create_task(self._keep_complaints(process))
            reason = await self._listen(process)
            process.kill()
            await asyncio.wait({complaints}, timeout=1.0)
            complaints.cancel()
        return reason

    async def _listen(self, process: ChildProcess) -> str:
        """Read its reports to the end, or until none has come for too long."""
        silence, loop = self._silence, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(silence) as patience:
                async for line in process.stdout:
                    patience.reschedule(loop.time() + silence)
                    self._hear(line)
                code = await process.wait()
        except TimeoutError:
            return f"it hung: no report for {silence:g} s, so it was ended"
        except ValueError:
            return "it printed an endless line instead of a report"
        return f"{describe_exit(code)}, see {self._log.path}" if code else ""

    async def _keep_complaints(self, process: ChildProcess) -> None:
        while words := await process.stderr.read(65_536):
            self._log.write(words)

    def _hear(self, line: bytes) -> None:
        try:
            self._gate.told(msgspec.json.decode(line, type=GateReport))
        except msgspec.DecodeError as error:
            log.warning("gate: unexpected output (%s): %r", error, line[:200])

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Save(state):
                    self._save(state)
                case Play():
                    self._jobs.put_nowait(instruction)
                case Promote(info, report):
                    log.info("gate: weights %d are the best now, %s", info.version, _told(report))
                    self._load(info)
                case Reject(info, None, reason):
                    log.warning("gate: weights %d could not be tried: %s", info.version, reason)
                case Reject(info, report):
                    assert report is not None
                    log.info("gate: weights %d are not better, %s", info.version, _told(report))

    def _save(self, state: GateState) -> None:
        path = self._store.about.with_name(FILE)
        try:
            write_atomically(path, msgspec.json.encode(state))
        except OSError as error:  # until a restart, which would use the old state, everything continues
            log.error("gate: %s cannot be written (%s)", path, error.strerror)
        needed = (state.best, state.candidate, state.waiting)
        self._store.needed = frozenset(one.sha256 for one in needed if one is not None)
        self._store.tidy()


def _told(report: GateReport) -> str:
    return (
        f"+{report.wins} ={report.draws} -{report.losses} in {report.played} of {report.games} games "
        f"({report.score:.1%})"
    )
