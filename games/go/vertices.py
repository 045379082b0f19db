"""Points as GTP writes them: a letter for the column, without I, and a number for the row; or `pass`."""

from __future__ import annotations

COLUMNS = "ABCDEFGHJKLMNOPQRST"
PASS = "pass"


def vertex_of(size: int, action: int) -> str:
    """The text of an action on a board of size x size: a point, or the pass after all points."""
    if action == size * size:
        return PASS
    row, col = divmod(action, size)
    return f"{COLUMNS[col]}{row + 1}"


def action_of(size: int, text: str) -> int:
    """The action that a vertex names, in upper or lower case. Raises ValueError if there is no such point."""
    word = text.strip()
    if word.lower() == PASS:
        return size * size
    col, number = COLUMNS[:size].find(word[:1].upper() or "?"), word[1:]
    if col < 0 or not (number.isascii() and number.isdecimal()) or not 1 <= int(number[:4]) <= size:
        raise ValueError(
            f"{word!r} is not a point of {size} x {size}: those go from {vertex_of(size, 0)} to "
            f"{vertex_of(size, size * size - 1)}, without column I; or write {PASS}"
        )
    return (int(number[:4]) - 1) * size + col
