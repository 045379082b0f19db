"""Load a network, search a position, play a game, train: the Python interface in one file.

python examples/python_api.py                              # an untrained network for tic-tac-toe
python examples/python_api.py runs/connect_four-sparse     # the newest network of a run, or a weights file
"""

from __future__ import annotations

import sys

import azselfplay as az

GAMES = 10


def main(name: str) -> None:
    with az.load(name) as run:
        print(f"{run.name} plays {run.game}")
        position = run.position()
        win, draw, loss, policy = position.evaluate()
        print(f"win {win:.3f}, draw {draw:.3f}, loss {loss:.3f} by the network alone")
        found = position.search(simulations=100)
        print(f"best move {found.best}, value {found.value:+.2f} for the side to move")
        for move, visits in list(found.visits.items())[:5]:
            print(f"  {move:>5}: {visits:4d} visits, prior {policy[move]:.3f}")
        print("expected line:", *found.line)
        print(position.play(found.best).board)

        outcomes = [az.play(run, "alphabeta:2", simulations=100, seed=seed).outcome for seed in range(GAMES)]
        print(
            f"{outcomes.count(1)} won, {outcomes.count(0)} drawn, {outcomes.count(-1)} lost, all moving first"
        )


if __name__ == "__main__":
    main(*sys.argv[1:] or ["tic_tac_toe"])
