"""The game as GTP sets it up: stones of either colour in any order, rules by KataGo's names, handicaps.

Under the rules sides alternate, but a GTP controller may play one colour twice, take moves back, and change
komi or ko rule in the middle of a game. A `GoBoard` always represents this as one legal game under our rules,
with passes in between. Rules are written as in KataGo's GTP extensions
(https://github.com/lightvector/KataGo/blob/master/docs/GTP_Extensions.md). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from azselfplay.games.go import GoRules, game_of
from azselfplay.games.go.board import Board
from azselfplay.games.go.notation import COLUMNS, action_of, vertex_of
from azselfplay.games.go.rules import NAME, Superko, kernels_of, owners_of, rules_of_options
from azselfplay.games.names import parts_of
from azselfplay.games.spec import Game, State
from azselfplay.play.gtp_lines import NAMES, GtpError
from azselfplay.play.orders import shown
from azselfplay.play.thinker import OpenGame

DEAD = 0.5
"""A stone is dead if the other side's ownership of its points is above this."""
STONES, EMPTY = "xo", "."
"""Letters in a position of `games.go.notation`."""


def rules_of(game: Game) -> GoRules:
    """Return the rules of a game of Go. Raises ValueError for another game."""
    name, options = parts_of(game.name)
    if name != NAME:
        raise ValueError(f"{game.name} is not Go: GTP plays go, or a variant such as go_9x9")
    return rules_of_options(options)


def stones_of(game: Game, state: State) -> tuple[list[str], list[str]]:
    """Return the vertices of the black and of the white stones."""
    found: tuple[list[str], list[str]] = ([], [])
    rows = game.notation.state_to_text(state).split()[0].split("/")
    for place, row in enumerate(rows):
        for column, letter in enumerate(row):
            if letter in STONES:
                found[STONES.index(letter)].append(f"{COLUMNS[column]}{game.rows - place}")
    return found


class GoBoard:
    """A board, its rules, and the moves on it.

    Under the rules, sides alternate. So if a colour plays twice, the other colour passes in between. If the
    last action is already a pass, it is removed instead, so that two passes in a row do not end the game.
    """

    def __init__(self, rules: GoRules, start: str = "") -> None:
        """`start`: a position of `games.go.notation`, "" is the empty board. Raises ValueError if it is
        invalid."""
        self.rules = rules
        self._before: list[tuple[int, ...]] = []
        """The actions before each move that can be taken back."""
        self._begin(start)

    def _begin(self, start: str) -> None:
        self.game_history = OpenGame(game_of(self.rules), start)
        self._before.clear()

    # ---- Rules --------------------------------------------------------------------------------

    def change(self, **changes: Any) -> None:
        """Change rules (fields of GoRules, except the size); the game continues.

        Raises GtpError, with nothing changed, for invalid values, and if the moves played would be illegal.
        """
        try:
            rules = replace(self.rules, **changes)
            changed = OpenGame(game_of(rules), self.game_history.start)
            # The moves are replayed, because a move may be illegal under another ko rule.
            for action in self.game_history.actions:
                changed.play(action)
        except ValueError as error:
            raise GtpError(str(error)) from error
        self.rules, self.game_history = rules, changed

    @property
    def size(self) -> int:
        return self.rules.size

    # ---- Moves --------------------------------------------------------------------------------

    @property
    def to_move(self) -> int:
        """The side to move; 0: Black."""
        return self.game_history.side_to_move

    @property
    def is_over(self) -> bool:
        """Whether both sides have passed, or the game is at its last ply (`GoRules.last_ply`)."""
        return self.game_history.end_reason() is not None

    @property
    def is_empty(self) -> bool:
        """Whether there are no stones."""
        return not any(self.stones())

    def give_turn(self, colour: int) -> None:
        """Give the turn to `colour`. Raises GtpError if the game is too long for a pass."""
        if colour == self.to_move:
            return
        # The pass is the last action.
        actions, pass_ = self.game_history.actions, self.game_history.game.actions - 1
        if actions and actions[-1] == pass_:
            self.game_history.take_back(self.game_history.ply - 1)
            return
        try:
            self.game_history.play(pass_)
        except ValueError as error:
            raise GtpError(str(error)) from error

    def turned_to(self, colour: int) -> tuple[tuple[int, ...], list[int]]:
        """Return (actions, legal actions) of the game if it were the turn of `colour`."""
        # Give the turn, read the legal actions and restore the game: the pass is kept only with a move that
        # needs it.
        before = tuple(self.game_history.actions)
        self.give_turn(colour)
        actions, legal = tuple(self.game_history.actions), self.game_history.legal_actions().tolist()
        self._restore(before)
        return actions, legal

    def action(self, vertex: str) -> int:
        """Return the action of a vertex, legal or not. Raises GtpError if it is invalid."""
        try:
            return action_of(self.size, vertex)
        except ValueError as error:
            raise GtpError(f"invalid vertex: {error}") from error

    def play(self, colour: int, vertex: str) -> None:
        """Play a stone or a pass. Raises GtpError, with nothing changed, if it cannot be played."""
        action = self.action(vertex)
        before = tuple(self.game_history.actions)
        self.give_turn(colour)
        try:
            self.game_history.play(action)
        except ValueError as error:
            self._restore(before)
            raise GtpError(
                f"illegal move: {NAMES[colour]} cannot play {vertex_of(self.size, action)}"
            ) from error
        self._before.append(before)

    def undo(self) -> None:
        """Take the last move back. Raises GtpError if there is none."""
        if not self._before:
            raise GtpError("cannot undo: no move was played since the board was set")
        self._restore(self._before.pop())

    def _restore(self, actions: Sequence[int]) -> None:
        now = self.game_history.actions
        # Replay only the actions that differ, because a game may have hundreds of moves.
        same = next((i for i, pair in enumerate(zip(now, actions, strict=False)) if pair[0] != pair[1]), None)
        self.game_history.take_back(min(len(now), len(actions)) if same is None else same)
        for action in actions[self.game_history.ply :]:
            self.game_history.play(action)

    # ---- Stones -------------------------------------------------------------------------------

    def clear(self) -> None:
        self._begin("")

    def set_up(self, black: Iterable[str], white: Iterable[str], to_move: int) -> None:
        """Put stones on the empty board. Raises GtpError for wrong vertices, and for chains without a
        liberty."""
        letters = [EMPTY] * (self.size * self.size)
        for stone, vertices in zip(STONES, (black, white), strict=True):
            for vertex in vertices:
                action = self.action(vertex)
                # The action after all points is the pass.
                if action == len(letters) or letters[action] != EMPTY:
                    raise GtpError(f"bad vertex list: {vertex} is a pass, or named twice")
                letters[action] = stone
        rows = ["".join(letters[row * self.size :][: self.size]) for row in reversed(range(self.size))]
        try:
            self._begin(f"{'/'.join(rows)} {STONES[to_move]} 0")
        except ValueError as error:
            raise GtpError(str(error)) from error

    def stones(self) -> tuple[list[str], list[str]]:
        """Return the vertices of the black and of the white stones."""
        return stones_of(self.game_history.game, self.game_history.state)

    def dead(self, ownership: Sequence[float]) -> tuple[list[str], list[str]]:
        """Return the vertices of the dead black and dead white stones. A stone is dead if the other side's
        ownership, averaged over the stone's chain, is more than DEAD. ownership: [points] in [-1, 1], 1 for
        Black; () if it is unknown, and then every stone lives."""
        dead: tuple[list[str], list[str]] = ([], [])
        board, kernels, state = Board(self.size), kernels_of(self.rules), self.game_history.state
        for side, found in enumerate(self.stones() if ownership else ()):
            left = {self.action(vertex) for vertex in found}
            while left:
                # Without empty points no chain has a liberty, so the whole chain is listed.
                scratch, nowhere = (
                    np.zeros(board.scratch_words, np.uint64),
                    np.zeros(board.words + 1, np.uint64),
                )
                count = kernels.list_if_dead(state, side, nowhere, left.pop(), scratch, 0)
                # The list follows two sets of bits.
                chain = scratch[2 * (board.words + 1) :][:count].tolist()
                left.difference_update(chain)
                for_black = sum(ownership[point] for point in chain) / count
                if (for_black if side else -for_black) > DEAD:
                    dead[side].extend(vertex_of(self.size, point) for point in sorted(chain))
        return dead

    def without(self, dead: tuple[list[str], list[str]]) -> GoBoard:
        """Return the board without these black and white stones."""
        board = GoBoard(self.rules)
        black, white = (
            [one for one in found if one not in gone] for found, gone in zip(self.stones(), dead, strict=True)
        )
        board.set_up(black, white, self.to_move)
        return board

    def empty_points(self, owner: int, dead: tuple[list[str], list[str]] = ([], [])) -> list[str]:
        """Return the vertices of the empty points in the area of `owner` (+1 Black, -1 White, 0 neither),
        after removing the dead stones. Points of dead stones do not count as empty."""
        stones = {self.action(vertex) for side in self.stones() for vertex in side}
        owners = owners_of(self.rules, self.without(dead).game_history.state)
        found = [point for point, one in enumerate(owners) if one == owner and point not in stones]
        return [vertex_of(self.size, point) for point in found]

    def score(self) -> float:
        """Return Black's points minus White's and the komi, for the present board."""
        count = self.game_history.game.score
        assert count is not None, "Go counts points"
        return count(self.game_history.state)


NAMED: Mapping[str, Mapping[str, Any]] = {
    "tromp-taylor": {"ko": "POSITIONAL", "suicide": True},
    "new-zealand": {"ko": "SITUATIONAL", "suicide": True},
}
"""Supported rules by KataGo's names."""

FIXED: Mapping[str, Any] = {
    "scoring": "AREA",
    "tax": "NONE",
    "hasButton": False,
    "whiteHandicapBonus": "0",
    "friendlyPassOk": False,
}
"""Rules that are the same in all supported rule sets."""

MOST_JSON_CHARACTERS = 1000
"""Most characters in a JSON object."""


def as_json(rules: GoRules) -> str:
    """Return the answer to kata-get-rules."""
    own = {"ko": rules.superko.upper(), "suicide": rules.suicide}
    return json.dumps(own | dict(FIXED), separators=(",", ":"))


def changes_in(text: str) -> dict[str, Any]:
    """Return the fields of GoRules that kata-set-rules changes. Raises GtpError for unsupported rules."""
    wanted = NAMED.get(text.lower())
    if text.startswith("{"):
        # The length bounds the parser's work; deep nesting raises RecursionError.
        try:
            wanted = json.loads(text) if len(text) <= MOST_JSON_CHARACTERS else None
        except (ValueError, RecursionError):
            wanted = None
        if not isinstance(wanted, dict):
            raise GtpError("syntax error: rules are a name or a JSON object")
    if wanted is None:
        raise GtpError(f"unknown rules {shown(text)}: there are {', '.join(NAMED)}, or a JSON object")
    changes: dict[str, Any] = {}
    for key, value in wanted.items():
        changes |= change_of(key, value)
    return changes


def change_of(key: str, value: Any) -> dict[str, Any]:
    """Return the fields that one rule changes. Raises GtpError if it is not supported."""
    if key == "ko" and str(value).lower() in get_args(Superko):
        return {"superko": str(value).lower()}
    # KataGo's name for the rule, and a shorter one.
    if key in ("suicide", "multiStoneSuicideLegal") and isinstance(value, bool):
        return {"suicide": value}
    # The rule has this value anyway, so nothing changes.
    if key in FIXED and str(value).lower() == str(FIXED[key]).lower():
        return {}
    known = ", ".join(f"{name} {str(one).lower() if one is False else one}" for name, one in FIXED.items())
    raise GtpError(
        f"the rule {shown(key)} cannot be {shown(str(value))}: ko is POSITIONAL, SITUATIONAL or SIMPLE, "
        f"suicide true or false; {known}"
    )


LEAST = 2
"""Fewest stones of a handicap."""


def handicap_points(size: int, count: int) -> list[str]:
    """Return `count` vertices for handicap stones. Raises GtpError if the specification has no such
    handicap."""
    most = most_points(size)
    if not LEAST <= count <= most:
        there_are = f"{LEAST} to {most}" if most else "none"
        raise GtpError(
            f"invalid number of stones: on {size} x {size} there are {there_are}; or set_free_handicap"
        )
    # The specification's order: corners, then sides, and the middle last if the number is odd.
    low, middle = (4 if size >= 13 else 3), (size + 1) // 2
    high = size + 1 - low
    corners = [(low, low), (high, high), (low, high), (high, low)]
    sides = [(low, middle), (high, middle), (middle, low), (middle, high)]
    points = corners[: min(count, 4)]
    # Sides come in pairs of opposite points.
    points += sides[: (count - 4) // 2 * 2] if count > 5 else []
    if len(points) < count:
        points.append((middle, middle))
    return [f"{COLUMNS[x - 1]}{y}" for x, y in points]


def most_points(size: int) -> int:
    """Return the largest number of fixed handicap stones; 0 on boards that are too small."""
    # The specification has no handicaps on such boards.
    if size < 7:
        return 0
    return 9 if size % 2 and size > 7 else 4
