"""A finished game as it travels and is stored: moves and search targets, never features.

`docs/records.md` has the format with its sizes and reasons. In memory the columns are arrays, on the
wire one MessagePack map whose columns are little-endian bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FORMAT = 1

POLICY_TARGET = 1
"""Flag of a ply whose visits are a policy target (a full search)."""


@dataclass(frozen=True, eq=False)
class GameRecord:
    """One finished game. `plies` actions; column `i` belongs to the position before action `i`."""

    uid: bytes
    """16 random bytes drawn when the game began; what makes a resent game count once."""
    game: str
    start: str
    """Start position in the game's notation, empty for the usual one."""
    max_plies: int
    simulations: int
    """New simulations per move that the settings asked for."""
    actions: npt.NDArray[np.uint16]
    """[plies] what was played."""
    visited: npt.NDArray[np.uint16]
    """[plies] number of root actions with at least one visit."""
    visit_actions: npt.NDArray[np.uint16]
    """[sum of visited] those actions, ply after ply, ascending within a ply."""
    visits: npt.NDArray[np.uint16]
    """[sum of visited] their visit counts, never 0."""
    root_values: npt.NDArray[np.float32]
    """[plies] value of the root after search, for the side to move, in [-1, 1]."""
    flags: npt.NDArray[np.uint8]
    """[plies] POLICY_TARGET."""
    versions: npt.NDArray[np.uint32]
    """[plies] weights version that answered the last evaluation of that move's search."""
    outcome: int
    """+1, 0 or -1 for the first player."""
    reason: str
    """Name of the end reason (`games.spec`), or `ply_cap`."""
    seed: int = 0
    source: str = ""
    """Who played it, for people: host and process."""
    seconds: float = 0.0
    """Wall clock the game took."""

    @property
    def plies(self) -> int:
        return len(self.actions)
