"""The definition of a game, as the rest of the system sees it. Nothing outside `azselfplay/games/` knows more
about a game than this.

Conventions, used everywhere:

state     `uint64[state_words]`, one position without its past
positions `uint64[n, state_words]`: all positions of a game from its start; `positions[n - 1]` is now
action    index into the policy, `0 <= action < actions`; of a game with policy planes plane * cells + cell
value     in [-1, 1], for the side to move at that position
outcome   +1, 0 or -1, for the first player (White in chess)
packed_features  `uint64[feature_words]`: what a network sees, in blocks (`Game.feature_words`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

ONGOING = 0
"""The `end_reason` of a position in which the game continues."""

PLY_CAP = "ply_cap"
"""Name of the end reason of a game that reaches the length limit; it is scored as a draw."""

MAX_PLIES = 10_000
"""Most plies in any game, also as a setting (`protocol.settings.Plies`)."""

NO_ROOT = -1
"""The argument `root` of `end_reason` outside a search: only the rules of the game decide."""

RESIGNATION = "resignation"
"""Name of the end reason of a self-play game in which a side resigned, and so lost."""

RECORDED = "recorded"
"""Name of the end reason of a game from a file that did not end by the rules (resignation, agreement, time).
Its outcome is the one given in the file."""

State = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.uint64]


# ---- Ends, symmetries, rules ---------------------------------------------------------------------


@dataclass(frozen=True)
class EndReason:
    """One way for a game to end."""

    name: str
    value: int
    """+1, 0 or -1 for the side to move in the final position (checkmate: -1)."""


@dataclass(frozen=True)
class Symmetry:
    """A map of the board to itself that leaves the rules and the start position unchanged.

    `cells[i]` is the cell that cell `i` moves to, `actions[a]` the action that `a` becomes, and `planes[p]`
    the plane that plane `p` of a position becomes (a quarter turn makes horizontal edges vertical). Codes
    move with their cells; scalars stay (`games.packed.move_features`).
    """

    name: str
    cells: npt.NDArray[np.int64]
    """[rows * cols]"""
    actions: npt.NDArray[np.int64]
    """[actions]; see `actions_like_cells`."""
    planes: npt.NDArray[np.int64] | None = None
    """[planes_per_position]; None: no plane changes."""


@dataclass(frozen=True)
class Rules:
    """The jitted functions of a game. All write into arrays they are given and allocate nothing.

    start(state) -> None
        Write the usual start position.
    side_to_move(state) -> int
        0 for the first player, 1 for the second.
    legal_actions(positions, n, actions: uint16[max_legal]) -> int
        Write the legal actions of `positions[n - 1]`, in a fixed order, and return how many there are.
        Where the game is over because there is no move, it returns 0. It is also called where the game has
        ended in another way, and before `end_reason`; there only the number that it returns is used.
    play(parent, action, child) -> None
        Write the position after a legal `action`. `parent` and `child` do not overlap.
    end_reason(positions, n, legal_count, root) -> int
        `ONGOING` or an index into `Game.end_reasons`. `root` is the index of the search's root. With
        `NO_ROOT` no search asks, and only the rules decide. A search may end a game earlier, for a reason
        that lies in `positions[root:]` (chess: the position occurred there before). If a game ends with one
        root, it must also end with every smaller root of a search. With `root = n - 1` nothing lies between
        the root and the position, so an end found with it is certain: only such ends are proofs. The length
        limit is checked elsewhere.
    encode(positions, n, history, packed_features: uint64[feature_words]) -> None
        Write the packed features of `positions[n - 1]` with `history` positions (missing ones are 0), in
        the blocks that `Game.feature_words` lists.
    maybe_wins(positions, n, actions, found: uint16[max_legal]) -> int
        A quick test, because most moves do not win: write those of the legal `actions` (uint16[k])
        that may win at once to `found`, in their order, and return how many there are. All others certainly
        do not win. `found` may be the same array as `actions`; `positions[n]` is scratch. None: all may win.
    """

    start: Callable[..., Any]
    side_to_move: Callable[..., Any]
    legal_actions: Callable[..., Any]
    play: Callable[..., Any]
    end_reason: Callable[..., Any]
    encode: Callable[..., Any]
    maybe_wins: Callable[..., Any] | None = None


@dataclass(frozen=True)
class SparseFeatures:
    """The input of a network of the family `sparse`: a few active features out of many, and for each legal
    action one row in each of several tables.

    Both are computed from the packed features and the legal actions. So they are available wherever a leaf
    goes: through symmetries, to another machine, into the replay window. They may only express rules (what
    attacks what), not values of pieces.

    describe(packed_features, history, actions, count, active: int32[most_active], rows: int32[max_legal *
             tables]) -> int
        Write the active features, each at most once, and return how many there are. Write for action `i` of
        the `count` first ones the row of each table to `rows[i * tables ..]`, numbered through all tables. A
        table that has no row for an action gets `action_rows`, which stands for a row of zeros.
    """

    name: str
    """Name of this feature set. It ends in a number that grows with each change, because weights of another
    set are refused."""
    features: int
    """Number of features."""
    most_active: int
    """Most active features of any position, and even of arbitrary words, because the words from another
    machine need not be a position."""
    tables: int
    """Number of tables with rows for actions."""
    action_rows: int
    """Number of rows of all these tables together."""
    describe: Callable[..., Any]
    shared: npt.NDArray[np.int32] | None = None
    """[features, k] for training only: further rows, numbered from 0, that a feature shares with similar ones
    (such as a piece on its square, attacked or not); -1: none. For play, a feature's rows are summed into one
    row (Stockfish's factorised features)."""


# ---- Text ----------------------------------------------------------------------------------------


LONGEST_MOVE = 40
"""Most characters in the text of a move. It has no blanks, because moves are separated by blanks."""


@dataclass(frozen=True)
class Notation:
    """Reads and writes text in the game's usual notation; plain Python, never called inside a search.

    state_from_text(text) -> state      ValueError with a sentence that says what is wrong
    state_to_text(state) -> text        "" stands for the usual start on input
    action_to_text(state, action)       UCI for chess, columns 1-7, cells 1-9
    action_from_text(state, text)       ValueError if it is not a legal action there; what earlier positions
                                        forbid (superko) it does not know
    render(state) -> text               the board as a picture for a terminal, first player below
    """

    state_from_text: Callable[[str], State]
    state_to_text: Callable[[State], str]
    action_to_text: Callable[[State, int], str]
    action_from_text: Callable[[State, str], int]
    render: Callable[[State], str]
    engine_protocol: str = ""
    """The protocol of other programs' engines that use this notation: `uci`, `usi` or `gtp`; "" if there is
    none."""
    action_to_chess: Callable[[State, int], str] | None = None
    """For a game in which castling is the king's move onto its rook: like `action_to_text`, but for programs
    that know only the castling notation of chess. `action_from_text` reads both. None for all other games."""


@dataclass(frozen=True)
class StartGenerator:
    """Start positions drawn at random, a new one for each game; plain Python, once a game.

    check(name) -> None                 ValueError says why nothing can be drawn under that name
    draw(name, rng) -> text             a position in which the game goes on, in the game's notation
    matches(name, text) -> bool         whether `draw` may have given this very text
    """

    names: str
    """Description of the available names, for people."""
    check: Callable[[str], None]
    draw: Callable[[str, np.random.Generator], str]
    matches: Callable[[str, str], bool]
    usual: str = ""
    """The name from which start positions are drawn if the settings name none; "": games begin at the usual
    start."""


# ---- Packed features -----------------------------------------------------------------------------


@dataclass(frozen=True)
class CodedCells:
    """Cells that are sent as one small number each, instead of as bits on many planes.

    `planes_of[code]` are the planes that a code sets on its cell. Code 0, which also fills positions before
    the start, sets none.
    """

    bits: int
    """Bits of a code: 1 to 8."""
    planes_of: tuple[tuple[int, ...], ...]
    """Each plane is set by some code."""

    @property
    def planes(self) -> int:
        """Number of planes that the codes expand to."""
        return 1 + max(max(planes, default=-1) for planes in self.planes_of)

    @property
    def cells_a_word(self) -> int:
        """Cells per word, the first in the lowest bits. No code is split between two words."""
        return 64 // self.bits

    def words(self, cells: int) -> int:
        """Words of 64 bits that hold the codes of one position."""
        return -(-cells // self.cells_a_word)

    def lists(self) -> npt.NDArray[np.int16]:
        """Return [2 ** bits, most planes of a code]: the planes of each code, padded with -1. Unused codes
        set no plane, so that any received value can be looked up."""
        # One row for each value that the bits can have: the values may come from another machine.
        found = np.full((1 << self.bits, max(map(len, self.planes_of))), -1, np.int16)
        for code, planes in enumerate(self.planes_of):
            found[code, : len(planes)] = planes
        return found

    def table(self) -> npt.NDArray[np.uint8]:
        """Return [2 ** bits, planes]: 1 where a code sets a plane."""
        found = np.zeros((1 << self.bits, self.planes), np.uint8)
        for code, planes in enumerate(self.planes_of):
            found[code, list(planes)] = 1
        return found


@dataclass(frozen=True)
class PackedScalars:
    """Scalar planes with the value `count / divisor`, of which only the count is sent.

    A count above its divisor is read as 1, so that any received value becomes a number in [0, 1].
    """

    fields: tuple[tuple[int, int], ...] = ()
    """(bits, divisor) of each plane: 1 to 16 bits, which can hold the divisor. Fields fill a word from its
    lowest bits on; a field that does not fit into the rest of a word starts the next one."""

    @property
    def planes(self) -> int:
        return len(self.fields)

    @property
    def words(self) -> int:
        """Words of 64 bits that hold the fields."""
        return 1 + int(self.places()[-1, 0]) if self.fields else 0

    def places(self) -> npt.NDArray[np.int64]:
        """Return [planes, 4]: for each field its word, its lowest bit there, a mask of its width, its
        divisor."""
        found = np.zeros((self.planes, 4), np.int64)
        word = used = 0
        for row, (bits, divisor) in zip(found, self.fields, strict=True):
            # No field is split, so that one shift and one mask read it.
            if used + bits > 64:
                word, used = word + 1, 0
            row[:] = word, used, (1 << bits) - 1, divisor
            used += bits
        return found


# ---- The game ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Game:
    """The whole description of a game."""

    name: str
    rows: int
    cols: int
    actions: int
    """Size of the policy."""
    policy_planes: int | None
    """Planes of a convolutional policy head (`action = plane * rows * cols + cell`), or None: flat.
    `extra_actions` follow them."""
    state_words: int
    max_legal: int
    """The largest number of legal actions in any position."""
    mean_legal: float
    """Number of legal actions in a typical position; the Dirichlet alpha at the root is about 10 / this."""
    dirichlet_alpha: float
    """The published value if there is one (AlphaZero: chess 0.3, shogi 0.15, Go 0.03)."""
    max_plies: int
    """Default length limit of a game, plies."""
    planes_per_position: int
    """Bit planes that each position of the history adds."""
    scalar_planes: int
    """Planes with the same number in [0, 1] on every cell, sent as a float32. They occur once, not once per
    position."""
    history: int
    """Default number of positions in the features (AlphaZero: 8)."""
    end_reasons: tuple[EndReason, ...]
    """Index 0 stands for a game that continues."""
    rules: Rules
    notation: Notation
    symmetries: tuple[Symmetry, ...] = field(default=())
    """All symmetries but the identity."""
    extra_actions: int = 0
    """Actions without a cell (a pass), numbered after those of the policy planes."""
    scalars_per_position: PackedScalars = PackedScalars()
    """Scalar planes that each position of the history adds (pieces in hand)."""
    scalars_once: PackedScalars = PackedScalars()
    """Scalar planes that occur once, like `scalar_planes`, but packed."""
    coded_cells: CodedCells | None = None
    """Planes that each position of the history adds by a code for each cell; None: there are none."""
    legal_as_mask: bool = False
    """Whether legal actions are sent to the evaluator as one bit for each action (`games.packed`), not
    as a list of two bytes each. This is smaller where at least a sixteenth of the actions are legal in most
    positions."""
    score: Callable[[State], float] | None = None
    """The first player's lead, in the game's own unit (boxes; points, minus komi); where the rules end the
    game its sign is the outcome. None: the game has no score besides the outcome."""
    owners: Callable[[State], npt.NDArray[np.int8]] | None = None
    """[cells] who owns each cell at the end of a game: +1 the first player, -1 the second, 0 nobody; plain
    Python, once a game. None: no cell is owned."""
    knowledge: str = ""
    """The module with what else is known about the game, imported when it is asked for
    (`games.knowledge.knowledge_of`); "": nothing is known."""
    few_positions: bool = False
    """True for games so small that a network can memorise all positions, and all lines of play can be
    tried."""
    played_out_plies: float = 0.0
    """If drawn games are shorter than this on average (in plies), they were not played out; 0: unknown."""
    generator: StartGenerator | None = None
    """Random start positions by name, if the game offers any."""
    probes: tuple[tuple[str, str], ...] = field(default=())
    """(name, position in the game's notation) of positions with a well-known value. The trainer reports the
    network's value of each."""
    sparse: SparseFeatures | None = None
    """The input of networks of the family `sparse`; None: the game supports no such network."""

    @property
    def cells(self) -> int:
        return self.rows * self.cols

    @property
    def words_per_plane(self) -> int:
        """Words per plane, of 64 cells each. Bit `i` of a plane (in word `i // 64`) is cell `i`, in row `i //
        cols`."""
        return (self.cells + 63) // 64

    @property
    def mask_bytes(self) -> int:
        """Bytes of the mask of a position's legal actions; 0 if legal actions are sent as a list."""
        return (self.actions + 7) // 8 if self.legal_as_mask else 0

    @property
    def code_bits(self) -> int:
        """Bits of a cell's code; 0 if cells have no codes."""
        return 0 if self.coded_cells is None else self.coded_cells.bits

    def bit_planes(self, history: int) -> int:
        """Return the number of planes that are sent as bits."""
        return self.planes_per_position * history

    def coded_planes(self, history: int) -> int:
        """Return the number of planes that are sent as codes."""
        return 0 if self.coded_cells is None else self.coded_cells.planes * history

    def scalars(self, history: int) -> int:
        """Return the number of planes that are sent as one number each, packed or not."""
        packed = self.scalars_per_position.planes * history + self.scalars_once.planes
        return packed + self.scalar_planes

    def planes(self, history: int) -> int:
        """Return the number of input planes of the network (chess with 8 positions: 119)."""
        return self.bit_planes(history) + self.coded_planes(history) + self.scalars(history)

    def plane_map(self, symmetry: Symmetry, history: int) -> npt.NDArray[np.int64]:
        """Return [bit_planes]: where `symmetry` takes each bit plane of the features with `history`
        positions."""
        planes = np.arange(self.planes_per_position) if symmetry.planes is None else symmetry.planes
        # Every position of the history uses the same map.
        newest_first = self.planes_per_position * np.arange(history)
        moved: npt.NDArray[np.int64] = (newest_first[:, None] + planes).ravel()
        return moved

    def feature_words(self, history: int) -> int:
        """Return the number of words of packed features. They have five blocks, each with the newest position
        first.

        The blocks are: the bit planes of all positions, `words_per_plane` words each; the codes of their
        cells; the packed scalars of each position; the packed scalars that occur once; and `scalar_planes`
        words with the bits of a float32 in the low half.
        """
        coded = 0 if self.coded_cells is None else self.coded_cells.words(self.cells)
        each = self.planes_per_position * self.words_per_plane + coded + self.scalars_per_position.words
        return each * history + self.scalars_once.words + self.scalar_planes

    def features(self, positions: Positions, n: int, history: int) -> npt.NDArray[np.uint64]:
        """Return the packed features [feature_words] of `positions[n - 1]` with `history` positions."""
        features = np.zeros(self.feature_words(history), np.uint64)
        self.rules.encode(positions, n, history, features)
        return features

    def reason_name(self, reason: int) -> str:
        return self.end_reasons[reason].name

    # The methods below take a position without its past. They are plain Python, for text, known results and
    # web pages, not for a search.

    def legal_list(self, state: State) -> list[int]:
        """Return the legal actions, in the order of the rules."""
        return legal_list(self.rules.legal_actions, self.max_legal, state)

    def after(self, state: State, action: int) -> State:
        """Return the position after a legal action."""
        child = np.zeros_like(state)
        self.rules.play(state, action, child)
        return child

    def end_value(self, state: State) -> int | None:
        """Return the value for the side to move if the game is over, else None."""
        legal = len(self.legal_list(state))
        reason = self.rules.end_reason(state.reshape(1, -1), 1, legal, NO_ROOT)
        return self.end_reasons[reason].value if reason else None


def legal_list(legal_actions: Callable[..., Any], max_legal: int, state: State) -> list[int]:
    """Return what `legal_actions` (of `Rules`) finds in a position without its past."""
    actions = np.zeros(max_legal, np.uint16)
    found: list[int] = actions[: legal_actions(state.reshape(1, -1), 1, actions)].tolist()
    return found


def actions_like_cells(
    cells: npt.NDArray[np.int64], policy_planes: int = 1, extra_actions: int = 0
) -> npt.NDArray[np.int64]:
    """Return [actions] for a `Symmetry` that moves the actions of each policy plane as it moves cells
    (`cells` [rows * cols]), and that leaves the extra actions unchanged."""
    # `action = plane * cells + cell`, as in `Game.policy_planes`.
    planes = np.arange(policy_planes)[:, None] * len(cells) + cells
    extra = policy_planes * len(cells) + np.arange(extra_actions)
    return np.concatenate([planes.ravel(), extra])


def outcome_for_first_player(value: int, side_to_move: int) -> int:
    """Convert a value (for the side to move) to an outcome (for the first player), or back. All Python code
    uses this function; compiled code does the same inline."""
    return value if side_to_move == 0 else -value
