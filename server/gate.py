"""The gate of AlphaGo Zero as a pure state machine: events in, instructions out.

The best player plays all games. Weights that the trainer publishes are candidates. One candidate at a time
plays a match against the best, and the newest of those published meanwhile is the next. A candidate that wins
enough becomes the best.

published -> Play(best, candidate) -> told ... -> ended -> Promote, or Reject -> Play(best, next)

Everything that must survive a crash is in `GateState`, which `Save` writes before anything acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from protocol.messages import WeightsInfo
from runtime.gating import GateReport, verdict

ATTEMPTS = 3
"""Matches that may break off before a candidate is given up."""


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
    """The newest of the weights published meanwhile."""
    promoted: int = 0
    rejected: int = 0
    passed_over: int = 0
    """Candidates that were replaced by a newer one while they waited."""


@dataclass(frozen=True)
class Save:
    """Save this state durably."""

    state: GateState


@dataclass(frozen=True)
class Play:
    """Let these two play, then call `ended`. No other match is running."""

    best: WeightsInfo
    candidate: WeightsInfo


@dataclass(frozen=True)
class Promote:
    """Let these weights play all games from now on."""

    info: WeightsInfo
    report: GateReport


@dataclass(frozen=True)
class Reject:
    """These weights were not better, or (see `reason`) could not be tried."""

    info: WeightsInfo
    report: GateReport | None
    reason: str = ""


Instruction = Save | Play | Promote | Reject


def belongs(state: GateState, current: WeightsInfo) -> bool:
    """Return whether a saved state belongs to the current weights rather than to earlier ones."""
    return current.sha256 in (state.best.sha256, state.before)


class Gate:
    """The gate of one run."""

    def __init__(self, best: WeightsInfo, share: float, state: GateState | None = None) -> None:
        """`state`: saved by an earlier process; its candidate starts again, or the newer one that waited
        does."""
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
        return [Save(self.state), *self._play()]

    def published(self, info: WeightsInfo) -> list[Instruction]:
        """Handle new weights of the trainer that are stored."""
        state = self.state
        self._change(newest=info)
        known = (one.sha256 for one in (state.best, state.candidate, state.waiting) if one is not None)
        if info.sha256 in known:
            return [Save(self.state)]
        if state.candidate is None:
            self._change(candidate=info)
            return [Save(self.state), *self._play()]
        self._change(waiting=info, passed_over=state.passed_over + (state.waiting is not None))
        return [Save(self.state)]

    def told(self, report: GateReport) -> None:
        """Note the result of more games of the current match."""
        self._report = report

    def ended(self, reason: str = "") -> list[Instruction]:
        """Handle the end of the match that `Play` started; `reason` says why if it broke off."""
        played, report = self._playing, self._report
        assert played is not None
        better = None if report is None else verdict(report, self._share)
        if played.best != self.state.best:  # evaluators have refused it meanwhile
            return self._play()
        if better is None:
            return self._broken_off(played.candidate, reason or "it ended before it was decided")
        self._last = report
        assert report is not None
        if not better:
            self._change(rejected=self.state.rejected + 1)
            return self._next(Reject(played.candidate, report))
        state = self.state
        self._change(best=played.candidate, before=state.best.sha256, promoted=state.promoted + 1)
        return self._next(Promote(played.candidate, report))

    def refused(self, info: WeightsInfo, current: WeightsInfo) -> list[Instruction]:
        """Handle weights `info` that no evaluator accepts; `current` continues to play."""
        if info != self.state.best or info == current:
            return []
        self._change(best=current, before=current.sha256)
        return [Save(self.state)]

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

    def _broken_off(self, candidate: WeightsInfo, reason: str) -> list[Instruction]:
        """Try again, unless a newer candidate waits."""
        self._failed += 1
        if self._failed < ATTEMPTS and self.state.waiting is None:
            return self._play()
        return self._next(Reject(candidate, None, reason))

    def _next(self, done: Instruction) -> list[Instruction]:
        self._change(candidate=self.state.waiting, waiting=None)
        self._failed = 0
        return [Save(self.state), done, *self._play()]

    def _play(self) -> list[Instruction]:
        self._report = self._playing = None
        if self.state.candidate is None:
            return []
        self._playing = Play(self.state.best, self.state.candidate)
        return [self._playing]

    def _change(self, **changes: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)
