"""The gate of AlphaGo Zero: newer weights play only after they have won a match against the best.

The best player plays all games. Weights that the trainer publishes are candidates. One candidate at a time
plays a match against the best. The newest candidate published during the match is the next. A candidate that
wins enough becomes the best.

published -> Play(best, candidate) -> told ... -> ended -> Judged -> Play(best, next)

`Gate` decides, as a pure state machine: events in, instructions out. `Gatekeeper` carries them out: it
runs the process that plays the match (`play.gate`), keeps the state in a file and notifies the
evaluators. Everything that must survive a crash is in `GateState`, which is saved before anything
acts on it.

`verdict` decides whether a candidate is better. AlphaGo Zero, Methods, "Evaluator": a match has 400 games,
and the candidate takes over if it wins more than 55 % of them, so that it is not chosen by chance alone. Go
has no draws; here a draw counts half.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.logs import LogFile
from azselfplay.host.processes import TAIL, Child, ChildProcess, describe_exit, python_module, start_patiently
from azselfplay.host.reading import read_struct
from azselfplay.host.runs import write_atomically, write_result
from azselfplay.search.settings import evaluation_settings
from protocol.messages import WeightsInfo
from protocol.settings import SelfPlaySettings, changed
from server.config import ServerConfig
from server.weights import WeightsStore

FILE = "gate.json"
RETRY_SECONDS = 5.0
"""Seconds to wait after a match broke off, so that a match that always breaks off costs little."""
PROGRESS_SECONDS = 30.0
"""Seconds after which a running match repeats its report even if no game has ended, because silence means
that the match hangs."""
SILENCE_SECONDS = 20 * PROGRESS_SECONDS
"""Seconds without a report after which a match counts as hanging. Loading and compiling take a minute at
most."""
ATTEMPTS = 3
"""Number of broken-off matches after which a candidate is given up."""
log = logging.getLogger("azserver")


# ---- Decisions -----------------------------------------------------------------------------------


class GateReport(msgspec.Struct, frozen=True):
    """The games of a match so far, from the candidate's point of view; one JSON line each time there are
    more."""

    wins: int
    draws: int
    losses: int
    games: int
    """Games to be played unless the match is decided earlier."""

    @property
    def played(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Return the candidate's score, in [0, 1]; 0.5 before the first game."""
        return (self.wins + self.draws / 2) / self.played if self.played else 0.5

    def __str__(self) -> str:
        games = f"in {self.played} of {self.games} games"
        return f"+{self.wins} ={self.draws} -{self.losses} {games} ({self.score:.1%})"


def verdict(report: GateReport, share: float) -> bool | None:
    """Return whether the candidate is better; None while the remaining games can change that.

    Better means more than `share` of all points of `report.games` games. The result is known as soon as
    losing, or winning, all remaining games would make no difference, so stopping there changes no decision.
    """
    enough = math.floor(Fraction(str(share)) * 2 * report.games) + 1  # in half points; floats would be off
    half_points = 2 * report.wins + report.draws
    if half_points >= enough:
        return True
    return False if half_points + 2 * (report.games - report.played) < enough else None


class GateState(msgspec.Struct, frozen=True):
    """The content of `weights/gate.json`."""

    best: WeightsInfo
    before: bytes
    """sha256 of the previous best; `current.json` may still name it until an evaluator has loaded the new
    one."""
    newest: WeightsInfo
    """The weights published last."""
    candidate: WeightsInfo | None = None
    """The candidate that plays against the best now."""
    waiting: WeightsInfo | None = None
    """The newest of the weights published while `candidate` plays."""
    promoted: int = 0
    rejected: int = 0
    passed_over: int = 0
    """Candidates that were replaced by a newer one before they were judged."""


def belongs(state: GateState, current: WeightsInfo) -> bool:
    """Return whether a saved state belongs to the current weights rather than to earlier ones."""
    return current.sha256 in (state.best.sha256, state.before)


@dataclass(frozen=True)
class Play:
    """Let these two play, then call `ended`. No other match is running."""

    best: WeightsInfo
    candidate: WeightsInfo


@dataclass(frozen=True)
class Judged:
    """If `promoted`, let these weights play all games from now on. If not, they were not better, or (see
    `reason`) could not be tried."""

    info: WeightsInfo
    report: GateReport | None
    promoted: bool = False
    reason: str = ""


Instruction = GateState | Play | Judged
"""A state is to be saved durably."""


class Gate:
    """The gate of one run."""

    def __init__(self, best: WeightsInfo, share: float, state: GateState | None = None) -> None:
        """`state`: what an earlier process saved. Its candidate starts again, or the newer one that waited
        starts instead."""
        self.state = state or GateState(best, best.sha256, best)
        self._share = share
        self._report: GateReport | None = None
        self._last: GateReport | None = None
        self._playing: Play | None = None
        self._failed = 0

    def start(self) -> list[Instruction]:
        """Continue what an earlier process left. Call it once, before all else."""
        state = self.state
        if state.waiting is not None:
            self._change(candidate=state.waiting, waiting=None, passed_over=state.passed_over + 1)
        return [self.state, *self._play()]

    def published(self, info: WeightsInfo) -> list[Instruction]:
        """Handle new weights of the trainer that are stored."""
        state = self.state
        self._change(newest=info)
        # A trainer that was restarted may publish the same weights again.
        known = (one.sha256 for one in (state.best, state.candidate, state.waiting) if one is not None)
        if info.sha256 in known:
            return [self.state]
        # No match is running, so this candidate need not wait.
        if state.candidate is None:
            self._change(candidate=info)
            return [self.state, *self._play()]
        self._change(waiting=info, passed_over=state.passed_over + (state.waiting is not None))
        return [self.state]

    def report(self, report: GateReport) -> None:
        """Note the result of more games of the current match."""
        self._report = report

    def ended(self, reason: str = "") -> list[Instruction]:
        """Handle the end of the match that `Play` started; `reason` says why if it broke off."""
        played, report = self._playing, self._report
        assert played is not None
        better = None if report is None else verdict(report, self._share)
        if played.best != self.state.best:  # evaluators refused that best player during the match
            return self._play()
        if better is None:
            # Try again, unless a newer candidate waits.
            self._failed += 1
            if self._failed < ATTEMPTS and self.state.waiting is None:
                return self._play()
            return self._next(
                Judged(played.candidate, None, reason=reason or "it ended before it was decided")
            )
        self._last, state = report, self.state
        if better:
            self._change(best=played.candidate, before=state.best.sha256, promoted=state.promoted + 1)
        else:
            self._change(rejected=state.rejected + 1)
        return self._next(Judged(played.candidate, report, better))

    def refused(self, info: WeightsInfo, current: WeightsInfo) -> list[Instruction]:
        """Handle weights `info` that no evaluator accepts; `current` continues to play."""
        # Only a best player that was just promoted, and that no evaluator has loaded yet, is taken back.
        if info != self.state.best or info == current:
            return []
        self._change(best=current, before=current.sha256)
        return [self.state]

    def figures(self) -> dict[str, Any]:
        """Return figures for STATUS; docs/protocol.md explains each."""
        state, report = self.state, self._report
        return {
            "best": state.best.version,
            "candidate": None if state.candidate is None else state.candidate.version,
            "waiting": None if state.waiting is None else state.waiting.version,
            "games": report.played if report else 0,
            "score": round(report.score, 4) if report else None,
            "last_score": round(self._last.score, 4) if self._last else None,
            "promoted": state.promoted,
            "rejected": state.rejected,
            "passed_over": state.passed_over,
        }

    def _next(self, done: Instruction) -> list[Instruction]:
        self._change(candidate=self.state.waiting, waiting=None)
        # Attempts count for each candidate.
        self._failed = 0
        return [self.state, done, *self._play()]

    def _play(self) -> list[Instruction]:
        self._report = self._playing = None
        if self.state.candidate is None:
            return []
        self._playing = Play(self.state.best, self.state.candidate)
        return [self._playing]

    def _change(self, **changes: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)


# ---- Carrying out --------------------------------------------------------------------------------


Command = Callable[[Play], Sequence[str]]
"""Returns the command line that plays a match; the process prints `GateReport`s as JSON lines."""


def gate_settings(settings: SelfPlaySettings, simulations: int = 0) -> SelfPlaySettings:
    """Return the same search of the same game, from the same starts, without noise and without chance."""
    quiet = evaluation_settings(settings, "history", "max_plies", "start")
    return changed(quiet, {"search.simulations": simulations or settings.search.simulations})


def gate_command(
    config: ServerConfig, self_play: SelfPlaySettings, device: str, store: WeightsStore
) -> Command:
    """Return a function that makes the command line of `play.gate`; each candidate plays other openings.
    `self_play`: resolved settings; `device`: that of the first evaluator. Raises Fatal(DISK)."""
    gate = config.gate
    # In a file, because start positions may be longer than an argument can be.
    search = store.about.with_name("gate_settings.json")
    write_result(search, msgspec.json.encode(asdict(gate_settings(self_play, gate.simulations))))

    def command(play: Play) -> list[str]:
        return python_module(
            "azselfplay.play.gate",
            *("--game", config.game),
            *("--best", str(store.path(play.best))),
            *("--candidate", str(store.path(play.candidate))),
            *("--games", str(gate.games), "--share", str(gate.share)),
            *("--seed", str(play.candidate.version), "--self-play", str(search)),
            *("--device", gate.device or device, "--threads", str(config.cpu_threads)),
        )

    return command


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
    ) -> None:
        assert store.current is not None
        self._gate = Gate(store.current, share, read_state(store))
        self._store = store
        self._command = command
        self._load = load
        self._log = LogFile(log_file)
        # This event is never set: cancelling the task is enough to stop a match that is starting.
        self._never = asyncio.Event()
        self._jobs: asyncio.Queue[Play] = asyncio.Queue(maxsize=2)
        # Now, because new weights may be published before `run` begins.
        self._follow(self._gate.start())

    @property
    def state(self) -> GateState:
        return self._gate.state

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
        """Play matches, one after the other, until cancelled. Raises Fatal if these settings allow no
        match."""
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
                # The match is played again, but not at once: the cause may persist.
                await asyncio.sleep(RETRY_SECONDS)

    async def _play(self, play: Play) -> str:
        """Run one process from start to end. Returns why it broke off, or ''."""
        child = Child("gate", self._command(play), {}, self._log.write)
        process = await start_patiently(child.name, child.argv, stop=self._never, stderr=PIPE)
        assert process is not None

        async def read_stderr() -> None:
            # Read all the time, because a full pipe would stop the gate in the middle of a game.
            while words := await process.stderr.read(65_536):
                child.tail += words
                del child.tail[:-TAIL]
                child.sink(words)

        async with contextlib.aclosing(process), asyncio.TaskGroup() as group:
            errors = group.create_task(read_stderr())
            reason = await self._listen(process)
            # This also ends a match that was decided early: the games still in progress would change nothing.
            process.kill()
            await asyncio.wait({errors}, timeout=1.0)
            errors.cancel()
        # Other candidates would fail likewise, and the run would never get better weights. (BAD_DATA may
        # be about this candidate's file.)
        if process.returncode in (Exit.USAGE, Exit.CONFIG):
            raise Fatal(f"gate: {child.reported_error() or reason}", Exit(process.returncode))
        return reason

    async def _listen(self, process: ChildProcess) -> str:
        """Read the reports until the match ends, or none has come for too long. Returns why it broke off, or
        ''."""
        silence, loop = SILENCE_SECONDS, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(silence) as patience:
                async for line in process.stdout:
                    # Any line is a sign of life: during long games the process repeats its last report.
                    patience.reschedule(loop.time() + silence)
                    try:
                        self._gate.report(msgspec.json.decode(line, type=GateReport))
                    except msgspec.DecodeError as error:
                        log.warning("gate: unexpected output (%s): %r", error, line[:200])
                code = await process.wait()
        except TimeoutError:
            return f"it hung: no report for {silence:g} s, so it was ended"
        except ValueError:
            return "it printed an endless line instead of a report"
        return f"{describe_exit(code)}, see {self._log.path}" if code else ""

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case GateState() as state:
                    path = self._store.about.with_name(FILE)
                    try:
                        write_atomically(path, msgspec.json.encode(state))
                    except OSError as error:  # the run goes on; only a restart would use the old state
                        log.error("gate: %s cannot be written (%s)", path, error.strerror)
                    needed = (state.best, state.candidate, state.waiting)
                    self._store.needed = frozenset(one.sha256 for one in needed if one is not None)
                    self._store.tidy()
                case Play():
                    self._jobs.put_nowait(instruction)
                case Judged(info, None, _, reason):
                    log.warning("gate: weights %d could not be tried: %s", info.version, reason)
                case Judged(info, GateReport() as report, promoted):
                    what = "the best now" if promoted else "not better"
                    log.info("gate: weights %d are %s, %s", info.version, what, report)
                    if promoted:
                        self._load(info)


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
    # If the run was restored from a backup, the state may be about other weights.
    if not belongs(state, current) or not store.has(state.best):
        log.warning("%s is about other weights: the gate begins anew with the current ones", path)
        return None
    there = {name: one for name in ("candidate", "waiting") if (one := getattr(state, name)) is not None}
    # A candidate without its file cannot play; the best player continues.
    gone = [name for name, one in there.items() if not store.has(one)]
    return msgspec.structs.replace(state, **dict.fromkeys(gone))
