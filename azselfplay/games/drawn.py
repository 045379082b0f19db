"""A picture of any game's board, drawn from what a network sees of it, for games that have none of their own;
and where its moves are clicked.

Planes that change places with the side that looks at them are the men of the two sides. Kinds of men are
letters; cells that are sent as codes show their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from azselfplay.games.boards import Clicks, Spot, grid, picture, text_at
from azselfplay.games.spec import Game, State

Planes = npt.NDArray[np.uint8]
"""[planes, cells] of one position."""

STEP, EDGE = 44, 2
"""Pixels: a cell, and the margin around the board."""
LONGEST = 4
"""Most letters of a move that is written into its cell."""
MOST_MEN = 4
"""Most men drawn on one cell."""
PAPER, LINE, NUMBER = "#fbfaf6", "#8a8577", "#6b675c"
SIDES, COLOURS = ("Blue", "Orange"), ("#2d5fa8", "#b5532a", "#5a5f66")
"""Names of the players, and colours of their men and of those that are nobody's."""


def svg(game: Game, state: State, _move: str) -> bytes:
    """The position, with the moves of free cells written there."""
    width, height = STEP * game.cols + 2 * EDGE, STEP * game.rows + 2 * EDGE
    parts = [f'<rect width="{width}" height="{height}" fill="{PAPER}" class="paper"/>']
    men, moves = men_of(game, state), moves_by_cell(game, state)
    for spot, cell in zip(cells_of(game), _from_the_top(game), strict=True):
        place = f'x="{spot.x:g}" y="{spot.y:g}" width="{STEP}" height="{STEP}"'
        parts.append(f'<rect {place} fill="none" stroke="{LINE}" class="pencil"/>')
        there = men[cell][:MOST_MEN]
        # One fills the cell, several share it.
        radius = STEP * (0.38 if len(there) == 1 else 0.21)
        for at, (owner, text) in enumerate(there):
            shift = 0 if len(there) == 1 else STEP * 0.22
            x = spot.x + STEP / 2 + (shift if at % 2 else -shift)
            y = spot.y + STEP / 2 + (shift if at // 2 else -shift)
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{COLOURS[owner]}"/>')
            if text:
                parts.append(text_at(x, y + radius / 3, text, int(radius), "#ffffff"))
        if not there and (text := moves.get(cell, "")):
            parts.append(text_at(spot.x + STEP / 2, spot.y + STEP / 2 + 4, text, 12, NUMBER, ' class="ink"'))
    return picture(width, height, parts)


def men_of(game: Game, state: State) -> list[list[tuple[int, str]]]:
    """For each cell: (owner, or 2 for nobody; letter of the kind) of what stands there."""
    features = np.zeros(game.feature_words(1), np.uint64)
    game.rules.encode(state.reshape(1, -1), 1, 1, features)
    side, bits = int(game.rules.side_to_move(state)), _bits(game, features)
    codes = [0] * game.cells
    if game.coded_cells is not None:
        # Codes lie behind the planes, several in a word.
        first, a_word = game.planes_per_position * game.words_per_plane, game.coded_cells.cells_a_word
        mask = (1 << game.code_bits) - 1
        codes = [
            int(features[first + cell // a_word]) >> cell % a_word * game.code_bits & mask
            for cell in range(game.cells)
        ]
    # Other planes are only drawn where none are men: they say something about men, or about the board.
    kinds = kinds_of_men(game)
    shown = bits[: 2 * kinds] if kinds else bits
    letters = kinds or len(bits)
    men: list[list[tuple[int, str]]] = []
    for cell in range(game.cells):
        here = [
            ((plane // kinds) ^ side if kinds else 2, chr(ord("A") + plane % letters) if letters > 1 else "")
            for plane in np.flatnonzero(shown[:, cell]).tolist()
        ]
        men.append(here + ([(2, str(codes[cell]))] if codes[cell] else []))
    return men


PLIES = 12
"""Moves played to see which planes are men."""
_kinds: dict[str, int] = {}


def kinds_of_men(game: Game) -> int:
    """`k` where the first k planes are men of the side to move, and the next k the same of the other; 0 if a
    short game does not show that: no plane changes places, or each side sees the board from its own end."""
    if game.name not in _kinds:
        pairs = list(_seen_by_both(game))
        if all((own == other).all() for own, other in pairs):
            pairs = []
        most = game.planes_per_position // 2 if pairs else 0
        _kinds[game.name] = next(
            (k for k in range(most, 0, -1) if all((_swapped(own, k) == other).all() for own, other in pairs)),
            0,
        )
    return _kinds[game.name]


def _swapped(planes: Planes, kinds: int) -> Planes:
    # The other side sees its own men first, so these planes and as many behind them change places.
    return np.concatenate([planes[kinds : 2 * kinds], planes[:kinds], planes[2 * kinds :]])


def _seen_by_both(game: Game) -> Iterator[tuple[Planes, Planes]]:
    """Bits of positions of a game as one side sees them, and then as the other does, in its history."""
    positions = np.zeros((PLIES + 1, game.state_words), np.uint64)
    game.rules.start(positions[0])
    # The same game each time, so that a picture never changes.
    rng = np.random.default_rng(0)
    for ply in range(PLIES):
        legal = game.legal_list(positions[ply])
        if not legal or game.end_value(positions[ply]) is not None:
            return
        game.rules.play(positions[ply], int(rng.choice(legal)), positions[ply + 1])
        if ply and game.rules.side_to_move(positions[ply]) != game.rules.side_to_move(positions[ply + 1]):
            now, later = (
                np.zeros(game.feature_words(1), np.uint64),
                np.zeros(game.feature_words(2), np.uint64),
            )
            game.rules.encode(positions, ply + 1, 1, now)
            game.rules.encode(positions, ply + 2, 2, later)
            # The newest position comes first; behind it stands this one, as the other side sees it.
            newest = game.planes_per_position * game.words_per_plane
            yield _bits(game, now), _bits(game, later[newest:])


def _bits(game: Game, features: npt.NDArray[np.uint64]) -> Planes:
    """[planes_per_position, cells] of the newest position."""
    words = features[: game.planes_per_position * game.words_per_plane].astype("<u8").view(np.uint8)
    rows = words.reshape(game.planes_per_position, 8 * game.words_per_plane)
    return np.unpackbits(rows, axis=1, bitorder="little")[:, : game.cells]


# ---- Moves ---------------------------------------------------------------------------------------


def moves_by_cell(game: Game, state: State) -> dict[int, str]:
    """The text of each move that is short, and the only one on its cell."""
    by_cell = {action: cell_of(game, action) for action in game.legal_list(state)}
    counts = Counter(by_cell.values())
    texts = {
        cell: game.notation.action_to_text(state, action)
        for action, cell in by_cell.items()
        if cell is not None and counts[cell] == 1
    }
    return {cell: text for cell, text in texts.items() if len(text) <= LONGEST}


def cell_of(game: Game, action: int) -> int | None:
    """The cell of an action; None for one without a cell."""
    if game.policy_planes is None and game.actions != game.cells:
        return None
    return action % game.cells if action < game.actions - game.extra_actions else None


def cells_of(game: Game) -> tuple[Spot, ...]:
    """The cells of the picture, the top row first."""
    rows = range(game.rows, 0, -1)
    return grid(
        [[f"row {row}, column {col + 1}" for col in range(game.cols)] for row in rows], EDGE, EDGE, STEP
    )


def _from_the_top(game: Game) -> list[int]:
    """Cells in the order of `cells_of`; they are numbered from the bottom."""
    return [row * game.cols + col for row in range(game.rows - 1, -1, -1) for col in range(game.cols)]


def clicks_of(game: Game) -> Clicks:
    """Cells are clicked where actions are cells, columns where they are columns; other actions have no
    place."""
    width, height = STEP * game.cols + 2 * EDGE, STEP * game.rows + 2 * EDGE
    if game.policy_planes is None and game.actions == game.cols:
        high = height - 2 * EDGE
        spots = tuple(
            Spot(f"column {col + 1}", EDGE + STEP * col, EDGE, STEP, high) for col in range(game.cols)
        )
        return Clicks(width, height, spots, lambda _state, action: (spots[action].name,))
    cells = cells_of(game)
    name_of = {cell: spot.name for cell, spot in zip(_from_the_top(game), cells, strict=True)}

    def clicked(_state: State, action: int) -> tuple[str, ...]:
        cell = cell_of(game, action)
        return () if cell is None else (name_of[cell],)

    return Clicks(width, height, cells, clicked)
