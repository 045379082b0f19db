"""Chess endgames in which every position is known: king and queen, rook, pawn, or bishop and knight.

All are against a bare king. The tables are made on first use (in seconds) and kept under
`~/.cache/azselfplay/truth`. `probe` looks up a position of the game, whichever colour has the men.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.chess import endings_kernel as kernel
from games.chess.layout import BISHOPS, BLACK, FLAGS, KINGS, KNIGHTS, PAWNS, QUEENS, RIGHTS_MASK, ROOKS, WHITE
from games.spec import State

ENDINGS = ("KQK", "KRK", "KPK", "KBNK")

_PIECES = {"KQK": (kernel.QUEEN,), "KRK": (kernel.ROOK,), "KBNK": (kernel.BISHOP, kernel.KNIGHT)}
_WORDS = {"Q": QUEENS, "R": ROOKS, "P": PAWNS, "B": BISHOPS, "N": KNIGHTS}
_VERSION = hashlib.sha256(Path(kernel.__file__).read_bytes()).hexdigest()[:12]
"""Tables made by another version of the kernel are made again."""

Table = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Ending:
    """Both tables of an ending in which White has the men (index and entries: `endings_kernel`)."""

    name: str
    white: Table
    """White to move: plies to mate, kernel.DRAWN or kernel.ILLEGAL."""
    black: Table
    """Black to move."""

    @property
    def longest(self) -> int:
        """Most moves that White, to move, needs."""
        return (int(self.white[self.white < kernel.UNKNOWN].max()) + 1) // 2


class Known(NamedTuple):
    """What a table says about a position."""

    value: int
    """+1, 0 or -1 for the side to move."""
    plies: int
    """Plies until mate with best play; 0 in a draw, and when mated."""


def cache_folder() -> Path:
    return Path.home() / ".cache" / "azselfplay" / "truth"


@cache
def ending(name: str) -> Ending:
    """The tables of one of ENDINGS, read from the cache folder, or made and stored there."""
    path = cache_folder() / f"{name}-{_VERSION}.npz"
    try:
        with np.load(path) as file:
            return _whole(Ending(name, file["white"], file["black"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        made = make(name)
    with contextlib.suppress(OSError):  # without a place to store it, it is made again each time
        _keep(made, path)
    return made


def _keep(tables: Ending, path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, white=tables.white, black=tables.black)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _whole(tables: Ending) -> Ending:
    """The tables in a file. Raises ValueError if they do not have the size that the kernels expect."""
    wanted = (64 ** len(tables.name),)
    for table in (tables.white, tables.black):
        if table.shape != wanted or table.dtype != np.uint8:
            raise ValueError(
                f"a table of {tables.name} is {table.dtype}{table.shape}, expected uint8{wanted}"
            )
    return tables


def make(name: str) -> Ending:
    """Solve one of ENDINGS (KPK needs those of queen and rook first)."""
    men = len(name) - 2
    white, black = (np.zeros(64 ** (2 + men), np.uint8) for _ in range(2))
    if name == "KPK":
        queen, rook = ending("KQK").black, ending("KRK").black
        most = max(int(table[table < kernel.UNKNOWN].max()) for table in (queen, rook))
        kernel.solve_pawn(queen, rook, most, white, black)
    else:
        kernel.solve_pieces(np.array(_PIECES[name], np.int64), white, black, np.zeros_like(white))
    return Ending(name, white, black)


def ending_of(state: State) -> str | None:
    """The name of the ending if there is a table for it, whichever side has the men; otherwise None."""
    counts = {letter: int(state[word]).bit_count() for letter, word in _WORDS.items()}
    name = "K" + "".join(letter * counts[letter] for letter in "QRPBN") + "K"
    white, black = int(state[WHITE]), int(state[BLACK])
    bare = min(white.bit_count(), black.bit_count()) == 1
    return name if name in ENDINGS and bare and not state[FLAGS] & RIGHTS_MASK else None


def probe(state: State) -> Known | None:
    """What is known about a legal position; None if there is no table for its material."""
    name = ending_of(state)
    if name is None:
        return None
    strong_is_black = int(state[WHITE]).bit_count() == 1
    entry = _entry(state, name, strong_is_black)
    if entry == kernel.DRAWN:
        return Known(0, 0)
    strong_to_move = bool(int(state[FLAGS]) & 1) == strong_is_black
    return Known(1 if strong_to_move else -1, entry)


def _entry(state: State, name: str, strong_is_black: bool) -> int:
    """The table entry of a position, seen as if the strong side were White."""
    strong, weak = (BLACK, WHITE) if strong_is_black else (WHITE, BLACK)
    words = [(KINGS, strong), (KINGS, weak), *((_WORDS[letter], strong) for letter in name[1:-1])]
    turn = 56 if strong_is_black else 0
    squares = [(int(state[piece] & state[side]).bit_length() - 1) ^ turn for piece, side in words]
    index = sum(square * 64**place for place, square in enumerate(squares))
    tables = ending(name)
    strong_to_move = bool(int(state[FLAGS]) & 1) == strong_is_black
    entry = int((tables.white if strong_to_move else tables.black)[index])
    if entry == kernel.ILLEGAL:
        raise ValueError("no legal position: the kings touch, or the side that has moved is in check")
    return entry


def state_at(name: str, index: int, *, strong_to_move: bool, strong_is_black: bool = False) -> State:
    """The position of a table's entry, with counters at 0; the board is turned if Black has the men."""
    turn = 56 if strong_is_black else 0
    strong, weak = (BLACK, WHITE) if strong_is_black else (WHITE, BLACK)
    state = np.zeros(9, np.uint64)
    men = [(KINGS, strong), (KINGS, weak), *((_WORDS[letter], strong) for letter in name[1:-1])]
    for place, (piece, side) in enumerate(men):
        bit = np.uint64(1 << ((index >> 6 * place & 63) ^ turn))
        state[piece] |= bit
        state[side] |= bit
    black_to_move = strong_to_move == strong_is_black
    state[FLAGS] = np.uint64(int(black_to_move) * (1 + (1 << 32)))
    return state
