"""How many positions are worked on at once. Pure."""

from __future__ import annotations

BATCHES_IN_FLIGHT = 3
"""Positions for so many batches: one is computed, one waits, one is being taken apart."""
MAX_SIMULATIONS_IN_FLIGHT = 1_500_000
"""Sum over all trees, which bounds memory: about 0.7 kB a simulation in chess, so 1 GB."""


def positions_in_flight(wanted: int, target_rows: int) -> int:
    """`wanted`, or for 0 as many as keep batches of `target_rows` full."""
    return wanted or max(BATCHES_IN_FLIGHT * target_rows, 2)


class Room:
    """Counts positions and their simulations. One position always fits, whatever it asks for."""

    def __init__(self, positions: int, simulations: int = MAX_SIMULATIONS_IN_FLIGHT) -> None:
        self.positions = 0
        self._simulations = 0
        self._max_positions = positions
        self._max_simulations = simulations

    def fits(self, simulations: int) -> bool:
        if not self.positions:
            return True
        return (
            self.positions < self._max_positions and self._simulations + simulations <= self._max_simulations
        )

    def enter(self, simulations: int) -> None:
        self.positions += 1
        self._simulations += simulations

    def leave(self, simulations: int) -> None:
        self.positions -= 1
        self._simulations -= simulations
