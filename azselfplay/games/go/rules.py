"""Tromp-Taylor rules of Go with their options, and their kernels, compiled once for each board size and set
of rules.

Two passes in a row end the game, and so does ply LAST_PLY. A move must not recreate an earlier board
(positional superko), an earlier board with the same side to move (situational superko), or the board before
the other side's last move (simple ko). A pass is always allowed.

Superko is made cheap as follows. A move on a point that never had a stone makes a new position, unless it is
suicide (a trick of KataGo). On any other point, a move that captures nothing adds one stone, so the key of
its position differs from the current key by that stone's key. For captures and suicides the key is computed.
Then one pass over the history finds all forbidden moves. Equal keys only show candidates; the stones
themselves are compared to decide.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import (
    ONE,
    ZERO,
    clear,
    count_trailing_zeros,
    float_as_word,
    has,
    put,
    scratch_words,
)
from azselfplay.games.go import board as board_kernels
from azselfplay.games.go.board import (
    BOARD,
    KEYS,
    NEAR,
    NEAR_WORD,
    POINT_BITS,
    POINTS,
    SCRATCH_WORDS,
    SPAN,
    WORDS,
    Board,
    area_lead,
    find_empty,
    is_suicide,
    key_of_listed,
    list_dead_beside,
    list_if_dead,
    list_nothing,
    listed,
    shorten,
)
from azselfplay.games.jit import Bindings, Unbound, bind, kernel, signed
from azselfplay.games.names import SIZE, USUAL_SIZE
from azselfplay.games.spec import Positions, State
from azselfplay.games.stubs import Actions, Words

NAME = "go"
SMALLEST, LARGEST = 2, 19
MOST_KOMI = 400
SMALL, CAP_OF_SMALL = 3, 64

Superko = Literal["positional", "situational", "simple"]


@dataclass(frozen=True)
class GoRules:
    """Tromp-Taylor rules. Raises ValueError for invalid values."""

    size: int = LARGEST
    """Points per side, 2 to 19."""
    komi: float = 7.5
    """Points for White, who moves second; a multiple of a half, at most 400 and at least -400."""
    superko: Superko = "positional"
    """What must not recur: the stones (positional), the stones with the same side to move (situational), or
    only the stones before the other side's move (simple ko)."""
    suicide: bool = True
    """Whether suicide is allowed (AlphaZero's paper does not say)."""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.size <= LARGEST:
            near = min(max(self.size, SMALLEST), LARGEST)
            raise ValueError(
                f"there is no Go board of {self.size} x {self.size}: sizes go from {SMALLEST} to {LARGEST}; "
                f"the nearest is {NAME}_{near}x{near}"
            )
        # `not ... <=` refuses NaN too.
        if not abs(self.komi) <= MOST_KOMI or 2 * self.komi != int(2 * self.komi):
            raise ValueError(
                f"a komi of {self.komi} points is impossible: it must be a multiple of 0.5, from "
                f"-{MOST_KOMI} to {MOST_KOMI}"
            )
        if self.superko not in get_args(Superko):
            raise ValueError(f"superko is {', '.join(get_args(Superko))}, not {self.superko!r}")

    @property
    def name(self) -> str:
        """The game's name: `go`, followed by unusual rules in a fixed order (`games.names.OPTIONS`)."""
        usual, size = GoRules(), f"{self.size}x{self.size}"
        parts = [
            size if size != USUAL_SIZE[NAME] else "",
            # `+ 0` makes a zero of a negative one.
            f"komi{self.komi + 0:g}" if self.komi != usual.komi else "",
            self.superko if self.superko != usual.superko else "",
            "nosuicide" if not self.suicide else "",
        ]
        return "_".join([NAME, *filter(None, parts)])

    @property
    def last_ply(self) -> int:
        """The ply at which a game ends: two moves for each point (19 x 19: 722, as in AlphaGo Zero). On the
        smallest boards best play takes longer than that, and such a cap would change who wins, so they have a
        higher one."""
        return CAP_OF_SMALL if self.size <= SMALL else 2 * self.size * self.size


def rules_of_options(options: tuple[str, ...]) -> GoRules:
    """Return the rules given by the options in a name. Raises ValueError for invalid options."""
    usual = GoRules()
    size, komi, superko = usual.size, usual.komi, usual.superko
    for option in options:
        if re.fullmatch(SIZE, option):
            rows, cols = map(int, option.split("x"))
            if rows != cols:
                raise ValueError(f"a Go board is square, not {option}; the nearest is {NAME}_{rows}x{rows}")
            size = rows
        elif option.startswith("komi"):
            text = option.removeprefix("komi")
            try:
                komi = float(text)
            except ValueError:
                why = f"{text!r} is not a komi: write a number with halves, as in komi6.5"
                raise ValueError(why) from None
        elif option in get_args(Superko):
            superko = cast(Superko, option)
    return GoRules(size, komi, superko, "nosuicide" not in options)


# ---- The position after a move -------------------------------------------------------------------


STATE_WORDS = Unbound()


@kernel
def start(state: State) -> None:
    """Write the start position: the board is empty, and the first player (Black) moves."""
    state[:] = ZERO


@kernel
def side_to_move(state: State) -> int:
    """Return the side to move; 0: the first player."""
    return signed(state[3 * WORDS + 1] & ONE)


@kernel
def passes(state: State) -> int:
    """Return the number of passes in a row just before, at most two."""
    return signed(state[3 * WORDS + 1] >> ONE)


@kernel
def take_off(child: State, side: int, scratch: Words, count: int) -> None:
    """Remove the listed stones of `side` from the board and empty the list."""
    child[3 * WORDS] ^= key_of_listed(side, scratch, count)
    for place in range(count):
        clear(child, side * WORDS, listed(scratch, place))
    shorten(scratch, count, 0)


@kernel
def play(parent: State, action: int, child: State) -> None:
    """Write the position after a stone or a pass (action POINTS). The stones that it captures are removed; if
    it captures none and its own chain has no liberty, that chain is removed."""
    for word in range(STATE_WORDS):
        child[word] = parent[word]
    side, point = side_to_move(parent), signed(action)
    # This sets the number of passes to 0; a pass adds to it below.
    child[3 * WORDS + 1] = np.uint64(1 - side)
    if point == POINTS:
        child[3 * WORDS + 1] += np.uint64(2 * min(2, passes(parent) + 1))
        return
    scratch, empty = scratch_words(SCRATCH_WORDS), scratch_words(SPAN)
    list_nothing(scratch)
    put(child, side * WORDS, point)
    # Set even if the stone is removed at once: from now on superko has to check this point.
    put(child, 2 * WORDS, point)
    child[3 * WORDS] ^= KEYS[side, point]
    find_empty(child, empty)
    # Captures come first: they may give the stone or its chain their only liberties.
    count = list_dead_beside(child, 1 - side, empty, point, scratch)
    if count > 0:
        take_off(child, 1 - side, scratch, count)
        return
    count = list_if_dead(child, side, empty, point, scratch, 0)
    if count > 0:
        take_off(child, side, scratch, count)


# ---- The end, and the features -------------------------------------------------------------------


KOMI_HALVES = Unbound()
"""Twice the komi."""
LAST_PLY = Unbound()
"""The game ends after this many plies."""

ONGOING, MORE_POINTS, FEWER_POINTS, AS_MANY_POINTS = range(4)
PLANES_PER_POSITION = 2
SCALAR_PLANES = 1


@kernel
def lead(state: State) -> int:
    """Return the first player's points minus the second's and the komi, in half points."""
    return 2 * area_lead(state) - KOMI_HALVES


@kernel
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Return `ONGOING`, or why the game is over. It ends after two passes and at LAST_PLY; the area of the
    final board decides."""
    state = positions[n - 1]
    if passes(state) < 2 and n - 1 < LAST_PLY:
        return ONGOING
    points = lead(state) if side_to_move(state) == 0 else -lead(state)
    if points == 0:
        return AS_MANY_POINTS
    return MORE_POINTS if points > 0 else FEWER_POINTS


@kernel
def maybe_wins(positions: Positions, n: int, actions: Actions, found: Actions) -> int:
    """Write the actions that may win at once (see `games.spec`): those that end the game."""
    count, is_last = 0, n >= LAST_PLY
    for action in actions:
        if is_last or (action == POINTS and passes(positions[n - 1]) == 1):
            found[count] = action
            count += 1
    return count


@kernel
def encode(positions: Positions, n: int, history: int, packed_features: Words) -> None:
    """Write `packed_features` [2 * WORDS * history + 1]. Each position has two planes, newest first: the
    stones of the side that is to move now, and the other side's. Then follows 1 if the first player is to
    move, else 0 (AlphaGo Zero, Methods)."""
    side = side_to_move(positions[n - 1])
    for back in range(history):
        first = 2 * WORDS * back
        for word in range(WORDS):
            own, other = ZERO, ZERO
            if back < n:
                state = positions[n - 1 - back]
                own, other = state[side * WORDS + word], state[(1 - side) * WORDS + word]
            packed_features[first + word] = own
            packed_features[first + WORDS + word] = other
    packed_features[2 * WORDS * history] = float_as_word(np.float32(1 - side))


# ---- Legal moves ---------------------------------------------------------------------------------


BOARD_SIZE, TWICE_POINTS = Unbound(), Unbound()

MASKS: npt.NDArray[np.uint64] = np.zeros((2, 0), np.uint64)
"""[2, words] `Board.masks`."""
SITUATIONAL, SIMPLE, SUICIDE = Unbound(), Unbound(), Unbound()
"""Each is 1 or 0: superko also considers the side to move; only simple ko is forbidden; suicide is
allowed."""
POINT_MASK = np.uint64((1 << POINT_BITS) - 1)
KEY_SHIFT = np.uint64(58)
"""A shift that leaves the highest six bits of a key, which index a bit of a word."""
ILLEGAL, LEGAL, ADDS, TAKES = range(4)
"""What is known about a move before the history is read. Superko may forbid the last two kinds: ADDS adds a
stone and captures none; TAKES also removes stones (its own in case of suicide)."""


@kernel
def word_at(bits: Words, word: int) -> Any:
    """Return a word of `bits` [WORDS]; 0 beyond them."""
    return bits[word] if 0 <= word < WORDS else ZERO


@kernel
def beside(bits: Words, word: int) -> Any:
    """Return the points of one word that neighbour a point of `bits` [WORDS]."""
    before, here, after = word_at(bits, word - 1), bits[word], word_at(bits, word + 1)
    row = np.uint64(BOARD_SIZE)
    up = (here << row) | (before >> (np.uint64(64) - row))
    down = (here >> row) | (after << (np.uint64(64) - row))
    # The masks remove steps over the edge into the next row.
    right = ((here << ONE) | (before >> np.uint64(63))) & MASKS[0, word]
    left = ((here >> ONE) | (after << np.uint64(63))) & MASKS[1, word]
    return up | down | right | left


@kernel
def makes(parent: State, point: int, old: State) -> bool:
    """Return whether a stone on `point` leads to the same stones as in `old`."""
    child = scratch_words(STATE_WORDS)
    play(parent, point, child)
    for word in range(2 * WORDS):  # noqa: SIM110 - Numba compiles loops, not generators
        if child[word] != old[word]:
            return False
    return True


@kernel
def is_forbidden(positions: Positions, n: int, at: int, point: int) -> bool:
    """Return whether superko forbids the move on `point` because of `positions[at]`, which has the key that
    the move leads to."""
    # After the move it is the other side's turn, so an old position with the same side to move as now is
    # another situation.
    if SITUATIONAL and side_to_move(positions[at]) == side_to_move(positions[n - 1]):
        return False
    return makes(positions[n - 1], point, positions[at])


@kernel
def judge(state: State, empty: Words, point: int, scratch: Words) -> tuple[int, Any]:
    """Return, for a stone on an empty point that is left out of `empty` [WORDS + 1], (ILLEGAL, LEGAL, ADDS or
    TAKES; the key of the resulting position). The list is empty before and after."""
    side, was_taken = side_to_move(state), has(state, 2 * WORDS, point)
    count = list_dead_beside(state, 1 - side, empty, point, scratch)
    key = state[3 * WORDS] ^ KEYS[side, point]
    if count > 0:
        key ^= key_of_listed(1 - side, scratch, count)
        shorten(scratch, count, 0)
        return TAKES if was_taken else LEGAL, key
    count = list_dead_beside(state, side, empty, point, scratch)
    dies = is_suicide(state, side, empty, point, scratch)
    key_of_dead = key_of_listed(side, scratch, count)
    shorten(scratch, count, 0)
    if not dies:
        return ADDS if was_taken else LEGAL, key
    # A single stone that dies leaves the board unchanged: a repetition, unless the side to move counts.
    if SUICIDE == 0 or (count == 0 and SITUATIONAL == 0):
        return ILLEGAL, key
    # The new stone is removed again, so only the other stones of its chain change the key.
    return TAKES, state[3 * WORDS] ^ key_of_dead


@kernel
def strike_repeated(
    positions: Positions, n: int, legal: Words, adds: Words, takes: Words, count: int
) -> None:
    """Remove the moves that superko forbids from `legal` [WORDS]. The candidates are the moves in `adds`
    [WORDS], which add one stone, and the `count` moves in `takes` [2 * POINTS], whose keys begin at 0 and
    whose points begin at POINTS."""
    now, side, seen = positions[n - 1], side_to_move(positions[n - 1]), ZERO
    # `seen` has one bit for each value of a key's highest six bits. One test of it skips most old positions.
    for i in range(count):
        seen |= ONE << (takes[i] >> KEY_SHIFT)
    for at in range(max(0, n - 2) if SIMPLE else 0, n):
        key = positions[at, 3 * WORDS]
        # If the old position is the current one plus a stone, the keys differ by that stone's key, which
        # contains its point.
        added = key ^ now[3 * WORDS]
        point = signed(added & POINT_MASK)
        is_one_stone = point < POINTS and KEYS[side, point] == added and has(adds, 0, point)
        if is_one_stone and is_forbidden(positions, n, at, point):
            clear(legal, 0, point)
        if (seen >> (key >> KEY_SHIFT)) & ONE != ZERO:  # otherwise no key can be equal
            for i in range(count):
                point = signed(takes[POINTS + i])
                if takes[i] == key and is_forbidden(positions, n, at, point):
                    clear(legal, 0, point)


@kernel
def find_legal(positions: Positions, n: int, legal: Words) -> None:
    """Write the points where a stone may be placed, as bits, to `legal` [WORDS]."""
    state = positions[n - 1]
    empty, adds = scratch_words(SPAN), scratch_words(WORDS)
    scratch, takes = scratch_words(SCRATCH_WORDS), scratch_words(TWICE_POINTS)
    list_nothing(scratch)
    find_empty(state, empty)
    count, any_adds = 0, False
    for word in range(WORDS):
        adds[word] = ZERO
        # Legal without further tests: next to an empty point the stone has a liberty, and on a point that
        # never had a stone nothing can recur.
        legal[word] = empty[word] & ~state[2 * WORDS + word] & beside(empty, word)
        others = empty[word] & ~legal[word]
        while others != ZERO:
            point = 64 * word + signed(count_trailing_zeros(others))
            others &= others - ONE
            clear(empty, 0, point)
            known, key = judge(state, empty, point, scratch)
            # Restore `empty` for the next point.
            put(empty, 0, point)
            if known != ILLEGAL:
                put(legal, 0, point)
            if known == ADDS:
                put(adds, 0, point)
                any_adds = True
            elif known == TAKES:
                takes[count], takes[POINTS + count] = key, np.uint64(point)
                count += 1
    # Most positions do not need the history.
    if any_adds or count > 0:
        strike_repeated(positions, n, legal, adds, takes, count)


@kernel
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal points, ascending, and then the pass to `actions` [points + 1]. Returns their
    number."""
    legal = scratch_words(WORDS)
    find_legal(positions, n, legal)
    count = 0
    for word in range(WORDS):
        bits = legal[word]
        while bits != ZERO:
            actions[count] = 64 * word + signed(count_trailing_zeros(bits))
            count += 1
            bits &= bits - ONE
    # Always legal.
    actions[count] = POINTS
    return count + 1


# ---- Compiling -----------------------------------------------------------------------------------


@cache
def kernels_of(rules: GoRules) -> SimpleNamespace:
    """Return all kernels by name. Kernels that depend only on the board size, not on the rules, are compiled
    once per size."""
    return bind([board_kernels, sys.modules[__name__]], bindings_of(rules))


def bindings_of(rules: GoRules) -> dict[str, Bindings]:
    """Return the bindings with which `games.jit.bind` compiles the kernels for a board and for rules."""
    board = Board(rules.size)
    return {
        f"go_board_{rules.size}": [
            (WORDS, board.words),
            (POINTS, board.points),
            (SPAN, board.words + 1),
            (SCRATCH_WORDS, board.scratch_words),
            (BOARD_SIZE, board.size),
            (TWICE_POINTS, 2 * board.points),
            (STATE_WORDS, board.state_words),
            (NEAR_WORD, board.near_word),
            (NEAR, board.near),
            (BOARD, board.words_of(range(board.points))),
            (KEYS, board.keys),
            (MASKS, board.masks()),
        ],
        # Not named after the game: rules that differ only in the komi share the code that lists legal moves.
        "go_rules": [
            (KOMI_HALVES, round(2 * rules.komi)),
            (SITUATIONAL, int(rules.superko == "situational")),
            (SIMPLE, int(rules.superko == "simple")),
            (SUICIDE, int(rules.suicide)),
            (LAST_PLY, rules.last_ply),
        ],
    }


def owners_of(rules: GoRules, state: State) -> npt.NDArray[np.int8]:
    """Return [points] the owner of each point on the current board, if all stones are alive: +1 the first
    player (Black), -1 the second, 0 nobody."""
    owners = np.zeros(rules.size * rules.size, np.int8)
    kernels_of(rules).find_owners(state, owners)
    return owners
