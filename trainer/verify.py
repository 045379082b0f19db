"""Checks, before a game is stored, that our rules and settings could have produced it.

A trainer learns whatever it is fed, so no client is trusted: each game is replayed under the rules, and its
search targets are checked against the legal actions. Cheap checks come first, so that the kernel (`replay`,
compiled once for each game) reads only columns whose lengths fit together. The kernel reports the ply and two
numbers, from which Python makes a sentence for people. `tests/trainer/naive_verify.py` is a slow reference
version.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import bind, kernel, signed
from azselfplay.games.spec import NO_ROOT, PLY_CAP, RESIGNATION, Game, Positions, outcome_for_first_player
from azselfplay.games.stubs import bindings, end_reason, legal_actions, play
from azselfplay.search.selection import selection
from protocol.errors import Code
from protocol.records import (
    IMPROVED_POLICY,
    MOST_VISITS,
    PLAYED_ON,
    POLICY_TARGET,
    PRUNED_TARGET,
    SHARES,
    GameRecord,
)
from protocol.settings import SelfPlaySettings, changed

FINE = 0
ILLEGAL_ACTION = 1
AFTER_END = 2
VISIT_UNKNOWN_ACTION = 3
VISIT_SUM = 4
VISIT_NOT_PLAYED = 5
FAULTS = {
    ILLEGAL_ACTION: (Code.ILLEGAL_ACTION, "action {found} is not legal"),
    AFTER_END: (Code.PLAYED_ON, "the game was over already ({found})"),
    VISIT_UNKNOWN_ACTION: (Code.BAD_VISITS, "visits of action {found}, which is not legal"),
    VISIT_SUM: (Code.BAD_VISITS, "{found} visits in all; expected {wanted}"),
    VISIT_NOT_PLAYED: (Code.BAD_VISITS, "action {found} was played without a visit, in a policy target"),
}
"""For each fault that `replay` reports: the code, and the text about the ply."""
PLY, FOUND, WANTED = 0, 1, 2
"""Columns of the report: the ply, what was found, and what was expected."""


@dataclass(frozen=True)
class Rejection:
    """Why a game is refused: a code for counting, and a sentence for people that names the ply."""

    code: Code
    reason: str

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class Verifier:
    """Checks games of one run. Holds scratch space: use one per thread."""

    def __init__(self, game: Game, settings: SelfPlaySettings, run: bytes = b"") -> None:
        """`settings`: as in WELCOME. `run`: games that name a run must name this one; empty: any."""
        self._game, self._run = game, run
        self._settings = changed(settings, {"max_plies": settings.max_plies or game.max_plies})
        start = self._settings.start
        self._starts = frozenset(start.positions.splitlines() if start.share > 0 else ())
        """Other start positions that games of this run may have, exactly as written."""
        self._replay = bind([sys.modules[__name__]], {game.name: bindings(game)}).replay
        self._line = np.zeros((game.max_plies + 1, game.state_words), dtype=np.uint64)
        self._legal = np.zeros(game.max_legal, dtype=np.uint16)
        self._allowed = np.zeros(game.actions, dtype=np.int32)
        self._report = np.zeros(3, dtype=np.int64)

    def check(self, record: GameRecord, newest_version: int) -> Rejection | None:
        """Return None for a valid game, else the first fault.

        `record` comes from `records.from_bytes`, which has checked what holds for any game, such as the
        lengths of the columns, the limit on the plies, and that visited actions ascend and have visits.
        `newest_version` is the highest weights version that can have answered by now.
        """
        # Cheap checks first. Each may rely on those before it: the replay uses the columns as array indices.
        if record.game != self._game.name:
            return Rejection(Code.WRONG_GAME, f"a game of {record.game!r}; this run plays {self._game.name}")
        if record.run and self._run and record.run != self._run:
            what = f"it was played for run {record.run.hex()}, this is {self._run.hex()}"
            return Rejection(Code.WRONG_RUN, what)
        settings = self._settings
        cap, simulations = settings.max_plies, settings.search.simulations
        for name, found, wanted, fits in (
            ("start", record.start, settings.start.position, self._may_begin(record)),
            ("max_plies", record.max_plies, cap, record.max_plies == cap),
            ("simulations", record.simulations, simulations, record.simulations == simulations),
        ):
            if not fits:
                return Rejection(
                    Code.WRONG_SETTINGS, f"{name} is {found!r}, games of this run have {wanted!r}"
                )
        learns_shares = selection(settings.search.selection).LEARNS_SHARES
        if not learns_shares and (record.flags & IMPROVED_POLICY).any():
            return Rejection(Code.WRONG_SETTINGS, "it has improved policies, this run learns from visits")
        if settings.resignation.value == 0 and (record.flags & PLAYED_ON).any():
            return Rejection(Code.WRONG_SETTINGS, "it is marked as played on, but nobody resigns in this run")
        if not settings.search.solver and (record.flags & PRUNED_TARGET).any():
            return Rejection(Code.WRONG_SETTINGS, "it has pruned targets, this run prunes none")
        try:
            start = self._game.notation.state_from_text(record.start)
        except ValueError as error:
            return Rejection(Code.BAD_START, f"the start position {record.start!r} cannot be read: {error}")
        if record.max_plies >= len(self._line):
            self._line = np.zeros((record.max_plies + 1, self._game.state_words), dtype=np.uint64)
        # The replay continues from here.
        self._line[0] = start
        if record.is_imported:
            text = "no ply has visits: only `azplay games RUN import` stores games without a search"
            return Rejection(Code.BAD_VISITS, text)
        if int(record.versions.max()) > newest_version:
            ply = int((record.versions > newest_version).argmax())
            return Rejection(
                Code.UNKNOWN_VERSION,
                f"ply {ply}: weights version {record.versions[ply]} is not out yet (newest {newest_version})",
            )
        return self._check_replay(record)

    def _check_replay(self, record: GameRecord) -> Rejection | None:
        game = Played(record.actions, record.visited, record.flags, record.visit_actions, record.visits)
        fault = self._replay(self._line, self._legal, self._allowed, game, record.simulations, self._report)
        ply, found, wanted = (int(number) for number in self._report)
        if fault == FINE:
            return self._check_end(record, found)
        says: dict[str, int | str] = {"found": found, "wanted": wanted}
        if fault == AFTER_END:
            says["found"] = self._game.reason_name(found)
        elif fault == VISIT_SUM:
            # `wanted` is the largest allowed sum, with the subtree kept.
            flags, exact = record.flags[ply], record.simulations
            if flags & IMPROVED_POLICY:
                says["wanted"] = f"{SHARES} shares of an improved policy"
            elif not flags & POLICY_TARGET:
                says["wanted"] = f"at most {wanted}, this being no policy target"
            elif flags & PRUNED_TARGET:
                says["wanted"] = f"at most {wanted}, this being a pruned target"
            else:
                more = f", and at most {wanted} with the subtree kept" if wanted > exact else ""
                says["wanted"] = f"{exact}{more}"
        code, text = FAULTS[fault]
        return Rejection(code, f"ply {ply}: {text.format(**says)}")

    def _check_end(self, record: GameRecord, ended: int) -> Rejection | None:
        """Check reason and outcome. `ended`: end reason of the final position under the rules; 0: none."""
        plies = record.plies
        if ended:
            reason = self._game.end_reasons[ended]
            name, outcome = reason.name, outcome_for_first_player(reason.value, self._mover(plies))
        # The rules come first: a game that they end with its last allowed ply was not cut off.
        elif plies == record.max_plies:
            name, outcome = PLY_CAP, 0
        elif record.reason == RESIGNATION:
            ply, value = plies - 1, float(record.root_values[-1])
            highest = self._settings.resignation.value
            if highest == 0:
                return Rejection(Code.WRONG_SETTINGS, "it was resigned, but nobody resigns in this run")
            if record.flags[ply] & PLAYED_ON:
                text = f"ply {ply}: resigned, in a game that is marked as played on"
                return Rejection(Code.WRONG_REASON, text)
            if record.visited[ply] == 0 or value > highest:
                return Rejection(
                    Code.BAD_VALUES,
                    f"ply {ply}: resigned at root value {value:.4g}; a search must give {highest:g} or less",
                )
            # A side resigns when it has moved, so the last mover has lost.
            name, outcome = RESIGNATION, outcome_for_first_player(-1, self._mover(plies - 1))
        else:
            return Rejection(Code.UNFINISHED, f"ply {plies}: the game is not over after its last move")
        if record.reason != name:
            return Rejection(
                Code.WRONG_REASON, f"ply {plies}: ended by {name}, the record says {record.reason!r}"
            )
        if record.outcome != outcome:
            return Rejection(
                Code.WRONG_OUTCOME,
                f"ply {plies}: the outcome of {name} is {outcome:+d}, the record says {record.outcome:+d}",
            )
        return None

    def _may_begin(self, record: GameRecord) -> bool:
        start, generator = self._settings.start, self._game.generator
        if record.start == start.position or record.start in self._starts:
            return True
        names = start.generator.split(",") if start.generator else ()
        return generator is not None and any(generator.matches(name, record.start) for name in names)

    def _mover(self, ply: int) -> int:
        """Return the side to move after `ply` plies of the game replayed last; 0: the first player."""
        return int(self._game.rules.side_to_move(self._line[ply]))


class Played(NamedTuple):
    """The columns of a record that are replayed (`protocol.records.GameRecord`)."""

    actions: npt.NDArray[np.uint16]
    """[plies]"""
    visited: npt.NDArray[np.uint16]
    """[plies] number of entries of each ply in `visit_actions` and `visits`."""
    flags: npt.NDArray[np.uint8]
    """[plies]"""
    visit_actions: npt.NDArray[np.uint16]
    """[sum of visited]"""
    visits: npt.NDArray[np.uint16]
    """[sum of visited]"""


@kernel
def check_visits(
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.uint16],
    first: int,
    last: int,
    allowed: npt.NDArray[np.int32],
    mark: int,
    report: npt.NDArray[np.int64],
) -> int:
    """Return the fault of the visit columns `first .. last` of one ply, or FINE with their sum in FOUND of
    `report` (int64[3]). `actions`, `visits`: [sum of visited].

    `allowed [actions of the game]` holds for each action the mark of the last ply at which it was legal. So
    it need not be cleared between plies: an action is legal at this ply if `allowed[action] == mark`.
    """
    total = 0
    for i in range(first, last):
        action = signed(actions[i])
        if action >= len(allowed) or allowed[action] != mark:
            report[FOUND] = action
            return VISIT_UNKNOWN_ACTION
        total += signed(visits[i])
    report[FOUND] = total
    return FINE


@kernel
def visits_of(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.uint16], first: int, last: int, action: int
) -> int:
    """Return the visits of `action` at the ply whose entries of `actions` and `visits` ([sum of visited]) are
    `first .. last`; 0 when it has none."""
    for i in range(first, last):
        if signed(actions[i]) == action:
            found: int = signed(visits[i])
            return found
    return 0


@kernel
def sum_allowed(total: int, simulations: int, kept: int, flags: int) -> bool:
    """Return whether a sum of root visits is allowed: `simulations` new visits, plus at most `kept` from the
    subtree. (Fewer than `kept` is allowed, because the search takes back visits of positions that now repeat
    one before the root.)

    A ply that is not a policy target had a smaller search, and a pruned target lost visits, so their sums are
    only bounded from above. The shares of an improved policy have a fixed sum of their own.
    """
    if (flags & IMPROVED_POLICY) != 0:
        return total == SHARES
    if (flags & POLICY_TARGET) == 0 or (flags & PRUNED_TARGET) != 0:
        return total <= simulations + kept
    return simulations <= total <= simulations + kept


@kernel
def replay(
    positions: Positions,
    legal: npt.NDArray[np.uint16],
    allowed: npt.NDArray[np.int32],
    game: Played,
    simulations: int,
    report: npt.NDArray[np.int64],
) -> int:
    """Play the game from `positions[0]` and return the first fault, with its ply in `report[PLY]`.

    positions: uint64[plies + 1, state_words] scratch; row 0 is the start position. legal: [max_legal]
    scratch. allowed: [actions of the game] scratch. report: int64[3]; after FINE, FOUND is the end reason of
    the final position (0: goes on).
    """
    flags = game.flags
    allowed[:] = 0  # 0 is no mark: marks begin at 1
    first = 0
    kept = 0
    plies = len(game.actions)
    for ply in range(plies):
        report[PLY] = ply
        count = legal_actions(positions, ply + 1, legal)
        ended = end_reason(positions, ply + 1, count, NO_ROOT)
        if ended != 0:
            report[FOUND] = ended
            return AFTER_END
        mark = ply + 1
        for i in range(count):
            allowed[signed(legal[i])] = mark
        action = signed(game.actions[ply])
        report[FOUND] = action
        if action >= len(allowed) or allowed[action] != mark:
            return ILLEGAL_ACTION
        last = first + signed(game.visited[ply])
        fault = check_visits(game.visit_actions, game.visits, first, last, allowed, mark, report)
        if fault != FINE:
            return fault
        is_target = (flags[ply] & POLICY_TARGET) != 0
        is_improved = (flags[ply] & IMPROVED_POLICY) != 0
        if not sum_allowed(report[FOUND], simulations, kept, signed(flags[ply])):
            report[WANTED] = simulations + kept
            return VISIT_SUM
        played = visits_of(game.visit_actions, game.visits, first, last, action)
        if is_target and not is_improved and played == 0:
            # A search plays an action that it visited. At other plies the action may come from a random
            # opening, and an action chosen by noise may have too small a share of an improved policy to be
            # listed.
            report[FOUND] = action
            return VISIT_NOT_PLAYED
        if (flags[ply] & PRUNED_TARGET) == 0:
            # The next search keeps the visits of the action played, without the first one, which evaluated
            # the position itself. A search that improves the policy (gumbel) keeps none.
            kept = 0 if is_improved else max(played - 1, 0)
        else:  # visits of the action played may have been left out
            kept = min(simulations + kept - 1, MOST_VISITS)
        first = last
        play(positions[ply], action, positions[ply + 1])
    report[PLY] = plies
    count = legal_actions(positions, plies + 1, legal)
    report[FOUND] = end_reason(positions, plies + 1, count, NO_ROOT)
    return FINE
