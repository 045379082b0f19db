"""The start positions of the games in the replay window, each stored once while a game in the window begins
at it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.spec import Notation


class StartTable:
    """Rows of start states, by their text. A row is reused once every game that began there is gone.

    Each game may have its own start (`start_generator`), so the table grows to the size that the window
    needs, and no further.
    """

    def __init__(self, notation: Notation, state_words: int) -> None:
        self._notation = notation
        self._rows: dict[str, int] = {}
        self._texts: list[str] = []
        self._uses: list[int] = []
        """By row: number of games that begin there."""
        self._free: list[int] = []
        self.states: npt.NDArray[np.uint64] = np.zeros((4, state_words), np.uint64)
        """[rows, state_words]; replaced by a larger array when it grows."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, text: str) -> int:
        """Return the row of a game's start position. Raises ValueError if it cannot be read."""
        row = self._rows.get(text)
        if row is None:
            state = self._notation.state_from_text(text)
            row = self._rows[text] = self._free.pop() if self._free else self._new_row()
            self._texts[row] = text
            self.states[row] = state
        self._uses[row] += 1
        return row

    def drop(self, row: int) -> None:
        """Note that a game that began there has left the window."""
        self._uses[row] -= 1
        if self._uses[row] == 0:
            del self._rows[self._texts[row]]
            self._free.append(row)

    def _new_row(self) -> int:
        row = len(self._texts)
        self._texts.append("")
        self._uses.append(0)
        if row == len(self.states):
            self.states = np.concatenate([self.states, np.zeros_like(self.states)])
        return row
