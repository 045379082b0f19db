"""The start positions of the games in the replay window: each once, while a game there begins at it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.spec import Notation


class StartTable:
    """Rows of states, by their text. A row is given anew once every game that began there has gone.

    Games may each have a start of their own (`start_generator`), so the table is as large as the window asks
    for, and no larger.
    """

    def __init__(self, notation: Notation, state_words: int) -> None:
        self._notation = notation
        self._rows: dict[str, int] = {}
        self._texts: list[str] = []
        self._uses: list[int] = []
        """By row: games that begin there."""
        self._free: list[int] = []
        self.states: npt.NDArray[np.uint64] = np.zeros((4, state_words), np.uint64)
        """[rows, state_words], another array once it has grown."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, text: str) -> int:
        """The row of a game's start position. ValueError if it cannot be read."""
        row = self._rows.get(text)
        if row is None:
            state = self._notation.state_from_text(text)
            row = self._rows[text] = self._free.pop() if self._free else self._new_row()
            self._texts[row] = text
            self.states[row] = state
        self._uses[row] += 1
        return row

    def drop(self, row: int) -> None:
        """A game that began there has left the window."""
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
