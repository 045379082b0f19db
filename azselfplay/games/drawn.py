"""A generic picture of the board, with its clickable areas, for games that have no picture of their own. It
is drawn from the network's input planes.

Planes that are swapped when the side to move changes are taken for the men of the two sides. Kinds of men are
shown as letters, and cells that are sent as codes show the code. If moves are written with names of cells
(`a2b3`), these names are shown at the edges, and the cells are clicked in that order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.boards import Clicks, Spot, grid, picture, text_at
from azselfplay.games.spec import Game, State

Planes = npt.NDArray[np.uint8]
"""[planes, cells] of one position."""

STEP, EDGE, NAMED_EDGE = 44, 2, 20
"""Pixels: a cell, and the margin around the board, without and with names of columns and rows."""
MOST_CELL_CHARACTERS = 4
"""Longest text of a move that is written into its cell."""
MOST_MEN = 4
"""Most men drawn on one cell."""
PAPER, LINE, NUMBER, LAST = "#fbfaf6", "#8a8577", "#6b675c", "#e3b04f"
SIDES, COLOURS = ("Blue", "Orange"), ("#2d5fa8", "#b5532a", "#5a5f66")
"""Names of the players; colours of the first player's men, the second's, and those of neither."""


def svg(game: Game, state: State, move: str) -> bytes:
    """Return the position as SVG. Moves to empty cells are written into the cells, and the cells of `move`,
    which led to the position, are marked."""
    edge, width, height = _measures(game)
    parts = [f'<rect width="{width}" height="{height}" fill="{PAPER}" class="paper"/>']
    men, moves, last = men_of(game, state), moves_by_cell(game, state), named_cells(game, move)
    for spot, cell in zip(cells_of(game), _from_the_top(game), strict=True):
        place = f'x="{spot.x:g}" y="{spot.y:g}" width="{STEP}" height="{STEP}"'
        # Pale, so that text in it is readable in dark mode too.
        fill = f'fill="{LAST}" fill-opacity="0.4"' if cell in last else 'fill="none"'
        parts.append(f'<rect {place} {fill} stroke="{LINE}" class="pencil"/>')
        there = men[cell][:MOST_MEN]
        # A single man fills the cell; several share it.
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
    # The names of columns and rows as moves use them, on all four edges, so that the board is centred.
    names = list(look_of(game).cells)
    columns = [(edge + STEP * (col + 0.5), name[0]) for col, name in enumerate(names[: game.cols])]
    rows = [(height - edge - STEP * (row + 0.5), name[1:]) for row, name in enumerate(names[:: game.cols])]
    places = [(x, y, name) for x, name in columns for y in (edge / 2, height - edge / 2)]
    places += [(x, y, name) for y, name in rows for x in (edge / 2, width - edge / 2)]
    parts += [text_at(x, y + 4, name, 12, NUMBER, ' class="ink"') for x, y, name in places]
    return picture(width, height, parts)


def _measures(game: Game) -> tuple[int, int, int]:
    """Return (margin around the board, width of the picture, height), in pixels."""
    edge = NAMED_EDGE if look_of(game).cells else EDGE
    return edge, STEP * game.cols + 2 * edge, STEP * game.rows + 2 * edge


def men_of(game: Game, state: State) -> list[list[tuple[int, str]]]:
    """Return for each cell its men as (owner, or 2 for nobody; letter of the kind)."""
    features = game.features(state.reshape(1, -1), 1, 1)
    side, bits = int(game.rules.side_to_move(state)), _bits(game, features)
    codes = [0] * game.cells
    if game.coded_cells is not None:
        # The codes follow the planes, several in a word.
        first, a_word = game.planes_per_position * game.words_per_plane, game.coded_cells.cells_a_word
        mask = (1 << game.code_bits) - 1
        codes = [
            int(features[first + cell // a_word]) >> cell % a_word * game.code_bits & mask
            for cell in range(game.cells)
        ]
    # If some planes are men, draw only those: the others describe men, or the board.
    kinds = look_of(game).kinds
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
"""Plies of a short game that shows which planes are men, and which cells moves name."""


class Look(NamedTuple):
    """How to draw a game, as found out from a short game."""

    kinds: int
    """k if the first k planes are men of the side to move, and the next k the same kinds of the other side; 0
    if no planes are swapped, or if each side sees the board from its own end."""
    cells: Mapping[str, int]
    """Cells by their names in the text of moves, with `a1` or `A1` at the lower left. Empty if moves name no
    cells, or if the named cells are not those that change in the planes."""


class Ply(NamedTuple):
    """A move of the short game after which the other side is to move."""

    own: Planes
    """The position before the move, as its player sees it."""
    other: Planes
    """The same position, as the other player sees it."""
    changed: npt.NDArray[np.bool_]
    """[cells] where the move changes what the other player sees."""
    names: list[str]
    """Names of cells in the text of the move."""
    names_of_all: set[str]
    """Names of cells in the texts of all legal moves."""


NAMES = re.compile(r"(?<![a-wyz])[A-Za-z][1-9][0-9]*")
"""Finds names of cells in the text of a move: `a2` and `b3` in `a2b3`, `a2xb3` and `Na2-b3`; none in
`edge5`."""
_looks: dict[str, Look] = {}


def look_of(game: Game) -> Look:
    """Return how a game is drawn. This is found out only once per game."""
    if game.name not in _looks:
        plies = list(_short_game(game))
        changes = any((ply.own != ply.other).any() for ply in plies)
        most = game.planes_per_position // 2 if changes else 0

        def are_men(kinds: int) -> bool:
            # Each side sees its own men first: the first `kinds` planes change places with the next `kinds`.
            swapped = np.r_[kinds : 2 * kinds, :kinds, 2 * kinds : game.planes_per_position]
            return all(np.array_equal(ply.own[swapped], ply.other) for ply in plies)

        kinds = next(filter(are_men, range(most, 0, -1)), 0)
        _looks[game.name] = Look(kinds, _cells_by_name(game, plies))
    return _looks[game.name]


def _cells_by_name(game: Game, plies: list[Ply]) -> dict[str, int]:
    """Return `Look.cells` of the game."""
    named = set().union(*(ply.names_of_all for ply in plies))
    letters = ascii_uppercase if any(map(str.isupper, named)) else ascii_lowercase
    names = [f"{letter}{row + 1}" for row in range(game.rows) for letter in letters[: game.cols]]
    cells = {name: cell for cell, name in enumerate(names)}
    if not named or not named <= cells.keys() or len(cells) != game.cells:
        return {}
    # Each move must change a cell that it names; otherwise the names belong to other cells, perhaps of a
    # turned board.
    fits = all(ply.changed[[cells[name] for name in ply.names]].any() for ply in plies if ply.names)
    return cells if fits else {}


def _short_game(game: Game) -> Iterator[Ply]:
    positions = np.zeros((PLIES + 1, game.state_words), np.uint64)
    game.rules.start(positions[0])
    # The same game each time, so that a picture never changes.
    rng = np.random.default_rng(0)
    for ply in range(PLIES):
        legal = game.legal_list(positions[ply])
        if not legal or game.end_value(positions[ply]) is not None:
            return
        action = int(rng.choice(legal))
        game.rules.play(positions[ply], action, positions[ply + 1])
        if ply and game.rules.side_to_move(positions[ply]) != game.rules.side_to_move(positions[ply + 1]):
            now, later = game.features(positions, ply + 1, 1), game.features(positions, ply + 2, 2)
            # The newest position comes first; it is followed by the one before the move, as the other side
            # sees it.
            newest = game.planes_per_position * game.words_per_plane
            own, other, after = (_bits(game, words) for words in (now, later[newest:], later))
            names = {one: NAMES.findall(game.notation.action_to_text(positions[ply], one)) for one in legal}
            yield Ply(own, other, (other != after).any(axis=0), names[action], set().union(*names.values()))


def _bits(game: Game, features: npt.NDArray[np.uint64]) -> Planes:
    """Return [planes_per_position, cells] the bit planes of the newest position."""
    words = features[: game.planes_per_position * game.words_per_plane].astype("<u8").view(np.uint8)
    rows = words.reshape(game.planes_per_position, 8 * game.words_per_plane)
    return np.unpackbits(rows, axis=1, bitorder="little")[:, : game.cells]


# ---- Moves ---------------------------------------------------------------------------------------


def named_cells(game: Game, text: str) -> tuple[int, ...]:
    """Return the cells that the text of a move names, in order; () if the game's moves name no cells
    (`Look.cells`)."""
    cells, names = look_of(game).cells, NAMES.findall(text)
    return tuple(cells[name] for name in names) if cells.keys() >= set(names) else ()


def cells_of_move(game: Game, state: State, action: int) -> tuple[int, ...]:
    """Return the cells of a move, in order: those that its text names, or else the cell of its action."""
    named, cell = named_cells(game, game.notation.action_to_text(state, action)), cell_of(game, action)
    return named or (() if cell is None else (cell,))


def moves_by_cell(game: Game, state: State) -> dict[int, str]:
    """Return by cell the text of the move there. Only moves with one cell, a short text, and no other move on
    that cell are included."""
    by_cell = {action: cells_of_move(game, state, action) for action in game.legal_list(state)}
    counts = Counter(by_cell.values())
    texts = {
        cells[0]: game.notation.action_to_text(state, action)
        for action, cells in by_cell.items()
        if len(cells) == 1 and counts[cells] == 1
    }
    return {cell: text for cell, text in texts.items() if len(text) <= MOST_CELL_CHARACTERS}


def cell_of(game: Game, action: int) -> int | None:
    """Return the cell of an action; None if it has no cell."""
    if game.policy_planes is None and game.actions != game.cells:
        return None
    return action % game.cells if action < game.actions - game.extra_actions else None


def names_of_cells(game: Game) -> list[str]:
    """Return the names of the cells on the picture, by number."""
    return list(look_of(game).cells) or [
        f"row {row + 1}, column {col + 1}" for row in range(game.rows) for col in range(game.cols)
    ]


def cells_of(game: Game) -> tuple[Spot, ...]:
    """Return the cells of the picture, the top row first."""
    edge, _, _ = _measures(game)
    names = names_of_cells(game)
    starts = range(game.cells - game.cols, -1, -game.cols)
    return grid([names[start : start + game.cols] for start in starts], edge, edge, STEP)


def _from_the_top(game: Game) -> list[int]:
    """Return the cells, which are numbered from the bottom, in the order of `cells_of`."""
    return [row * game.cols + col for row in range(game.rows - 1, -1, -1) for col in range(game.cols)]


def clicks_of(game: Game) -> Clicks:
    """Return the clickable areas of the drawn picture: the columns if actions are columns, otherwise the
    cells of each move (`cells_of_move`). Other actions have no place. Cells are named as in the game's moves
    (`a2`), or else `row 2, column 1`, both from the lower left."""
    edge, width, height = _measures(game)
    if game.policy_planes is None and game.actions == game.cols:
        high = height - 2 * edge
        spots = tuple(
            Spot(f"column {col + 1}", edge + STEP * col, edge, STEP, high) for col in range(game.cols)
        )
        return Clicks(width, height, spots, lambda _state, action: (spots[action].name,))
    cells = cells_of(game)
    name_of = {cell: spot.name for cell, spot in zip(_from_the_top(game), cells, strict=True)}

    def clicked(state: State, action: int) -> tuple[str, ...]:
        return tuple(name_of[cell] for cell in cells_of_move(game, state, action))

    return Clicks(width, height, cells, clicked)
