"""How fast the truth is found: Connect Four positions solved a second, seconds to make endgame tables.

All in processor time of this process, compiled code, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from games.chess import endings
from games.connect_four import labelled
from games.connect_four.solver import Solver


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _solve_phase(phase: str, most: int) -> tuple[float, float]:
    """Verdicts per second and positions looked at per second, over labelled positions, a fresh solver."""
    solver = Solver()
    states = [labelled.states_of(row.moves)[-1] for row in labelled.read() if row.phase == phase][:most]
    spent = _seconds(lambda: [solver.verdict(state) for state in states])
    return len(states) / spent, solver.nodes / spent


def run() -> dict[str, float]:
    figures: dict[str, float] = {}
    _solve_phase("end", 3)
    print(f"{'connect four':16} {'verdicts/s':>12} {'positions/s':>14}")
    for phase, most in (("opening", 10), ("middle", 300), ("end", 300)):
        verdicts, nodes = _solve_phase(phase, most)
        figures[f"connect_four_{phase}_verdicts_per_s"] = verdicts
        figures[f"connect_four_{phase}_nodes_per_s"] = nodes
        print(f"{phase:16} {verdicts:12,.1f} {nodes:14,.0f}")
    for name in ("KQK", "KPK"):
        endings.make(name)
    print(f"{'chess endgame':16} {'seconds':>12} {'longest mate':>14}")
    for name in endings.ENDINGS:
        figures[f"{name}_seconds"] = _seconds(partial(endings.make, name))
        print(f"{name:16} {figures[f'{name}_seconds']:12.2f} {endings.ending(name).longest:14}")
    return figures
