"""Chess games as PGN, written and read, and boards as SVG, by python-chess, which is imported when needed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from games.chess.fen import SQUARES, state_to_fen
from games.chess.notation import action_to_uci
from games.knowledge import Clicks, ReadGame, WrittenMove, grid
from games.spec import State

PICTURE_SIZE = 230
"""Pixels."""
PGN_COLUMNS = 80
SQUARE, MARGIN = 45, 15
"""Size of a square, and of the margin with the coordinates, in python-chess's own units."""


def svg(state: State, move: str, *, turned: bool = False) -> bytes:
    """The board of a position; `move` (UCI, "" at the start), which led to it, is marked. `turned`: Black at
    the bottom."""
    import chess
    import chess.svg

    board, last = chess.Board(state_to_fen(state)), chess.Move.from_uci(move) if move else None
    below = chess.BLACK if turned else chess.WHITE
    return str(chess.svg.board(board, orientation=below, size=PICTURE_SIZE, lastmove=last)).encode()


def pgn(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """A game as PGN, other moves as variations. `moves`: in UCI; `ending`: comment after the last move.
    Raises ValueError if a move is invalid."""
    import chess
    import chess.pgn

    tree = chess.pgn.Game()
    tree.setup(chess.Board(start) if start else chess.Board())
    tree.headers.update(tags)
    node: chess.pgn.GameNode = tree
    for move, comment, others in moves:
        played = node.add_main_variation(chess.Move.from_uci(move), comment=comment)
        for other, its_comment in others:
            node.add_variation(chess.Move.from_uci(other), comment=its_comment)
        node = played
    if ending:
        node.comment = ending
    return tree.accept(chess.pgn.StringExporter(columns=PGN_COLUMNS))


def read_pgn(text: str) -> Iterator[ReadGame]:
    """The main lines of the games in a PGN, moves in UCI.

    Raises ValueError at a game with an illegal move, a FEN that is none, without moves, or of a variant.
    """
    import chess
    import chess.pgn

    class MainLine(chess.pgn.GameBuilder):  # type: ignore[type-arg]
        def begin_variation(self) -> chess.pgn.SkipType:  # type: ignore[override]
            super().begin_variation()
            return chess.pgn.SKIP

        def handle_error(self, error: Exception) -> None:
            self.game.errors.append(error)  # without a line in the log

    file = io.StringIO(text)
    while (found := chess.pgn.read_game(file, Visitor=MainLine)) is not None:
        variant = found.headers.get("Variant", chess.Board.aliases[0])
        if variant.lower() not in map(str.lower, chess.Board.aliases):
            raise ValueError(f"it is of the variant {variant[:60]!r}, not of standard chess")
        if found.errors:
            raise ValueError(str(found.errors[0]) or type(found.errors[0]).__name__)
        start = found.headers.get("FEN", "")
        moves = [move.uci() for move in found.mainline_moves()]
        if not start and not moves:
            raise ValueError("it has neither moves nor a FEN")
        yield ReadGame(start, moves)


def _clicked(state: State, action: int) -> tuple[str, ...]:
    """The square that the piece leaves, and the one that it goes to."""
    move = action_to_uci(state, action)
    return move[:2], move[2:4]


_SIZE = 8 * SQUARE + 2 * MARGIN
_RANKS = [SQUARES[8 * rank : 8 * rank + 8] for rank in reversed(range(8))]
CLICKS = Clicks(
    _SIZE, _SIZE, grid(_RANKS, MARGIN, MARGIN, SQUARE), _clicked, svg_turned=partial(svg, turned=True)
)
