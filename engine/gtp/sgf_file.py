"""`loadsgf`: a file of SGF as a board."""

from __future__ import annotations

from pathlib import Path

from sgfmill import sgf, sgf_moves

from engine.gtp.board import GoBoard
from engine.gtp.protocol import GtpError
from games.go.rules import GoRules
from games.go.vertices import vertex_of

LARGEST = 1 << 20
"""Bytes."""
COLOURS = "bw"


def board_from(path: Path, rules: GoRules, before: int = 0) -> GoBoard:
    """The main line of the first game in a file, up to the move `before` (1 is the first; 0: all of it).

    Size and komi are those of the file, the rest is as in `rules`. GtpError says why it cannot be used.
    """
    try:
        game = sgf.Sgf_game.from_bytes(_bytes_of(path))
        stones, moves = sgf_moves.get_setup_and_moves(game)
        to_move = game.get_root().get("PL") if game.get_root().has_property("PL") else None
        komi = game.get_komi() if game.get_root().has_property("KM") else rules.komi
    except (OSError, ValueError, RecursionError) as error:
        raise GtpError(f"cannot load file: {error}") from error
    board = GoBoard(rules)
    board.change(size=game.get_size(), komi=komi)
    played = moves[: before - 1] if before else moves
    _set_up(board, stones.list_occupied_points(), to_move or (moves[0][0] if moves else None))
    for colour, point in played:
        board.play(COLOURS.index(colour), _vertex(board, point))
    return board


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():  # not a device or a pipe, which may have no end
        raise ValueError(f"there is no file {str(path)!r}")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return path.read_bytes()


def _set_up(board: GoBoard, stones: list[tuple[str, tuple[int, int]]], to_move: str | None) -> None:
    if not stones:
        return
    colours: tuple[list[str], list[str]] = ([], [])
    for colour, point in stones:
        colours[COLOURS.index(colour)].append(_vertex(board, point))
    begins = COLOURS.index(to_move) if to_move else int(not colours[1])  # White begins after a handicap
    board.set_up(*colours, begins)


def _vertex(board: GoBoard, point: tuple[int, int] | None) -> str:
    size = board.size
    return vertex_of(size, size * size if point is None else point[0] * size + point[1])
