"""Connect Four learned by pgx and mctx, judged on our labelled positions, beside networks of ours.

`python -m bench.peers.on_labels --minutes 60`: see bench/PEERS.md. It uses the cores that `taskset`
leaves it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.__main__ import PEERS_PYTHON
from bench.peers.process import ROOT
from evaluation.truth_errors import count_errors, groups_of, rows_for
from games import get_game
from games.knowledge import Row

GAME = "connect_four"
SIMULATIONS = (0, 64)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.on_labels", description=__doc__)
    add = parser.add_argument
    add(
        "--minutes",
        type=float,
        default=60.0,
        help="of self-play and training by pgx and mctx, with compiling",
    )
    add("--seed", type=int, default=0)
    add("--python", type=Path, default=PEERS_PYTHON, help="the interpreter that has the peers' packages")
    add("--weights", type=Path, nargs="*", default=[], help="networks of ours to judge beside it")
    return parser.parse_args(argv)


def trained(chosen: argparse.Namespace, rows: Sequence[Row]) -> Mapping[int, list[int]]:
    """By number of simulations: the move that the network of pgx and mctx plays in each row.

    Raises CalledProcessError if it fails; it has then printed an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        positions, out = Path(folder, "positions.json"), Path(folder, "moves.json")
        positions.write_text(json.dumps([list(row.moves) for row in rows]))
        command = [
            *(str(chosen.python), "-m", "bench.peers.train_connect_four", "--minutes", str(chosen.minutes)),
            *("--seed", str(chosen.seed), "--positions", str(positions), "--out", str(out)),
        ]
        subprocess.run(command, cwd=ROOT, check=True)
        found = json.loads(out.read_text())
    return {int(count): moves for count, moves in found["moves"].items()}


def ours(weights: Path, rows: Sequence[Row]) -> Mapping[int, list[int]]:
    """The same for a weights file of ours."""
    from engine.nets import load_net
    from evaluation.truth_errors import chosen_actions

    net = load_net(weights, GAME)
    try:
        return {count: asyncio.run(chosen_actions(net, rows, count)) for count in SIMULATIONS}
    finally:
        net.close()


def line(name: str, simulations: int, rows: Sequence[Row], moves: Sequence[int]) -> str:
    """Errors where it matters, in per cent, one column per group."""
    shares = [count_errors(rows, moves, group).errors_matter for group in groups_of(rows)]
    return (
        f"| {name} | {simulations or 'raw policy'} | "
        + " | ".join(f"{100 * one:.1f}" for one in shares)
        + " |"
    )


def main(argv: Sequence[str] | None = None) -> int:
    chosen = parse(argv)
    rows = rows_for(get_game(GAME))
    players = {f"pgx with mctx, {chosen.minutes:g} minutes": trained(chosen, rows)}
    players |= {path.stem: ours(path, rows) for path in chosen.weights}
    print("| network | simulations | " + " | ".join(groups_of(rows)) + " |")
    print("|---|---|" + "---|" * len(groups_of(rows)))
    for name, moves in players.items():
        for simulations in SIMULATIONS:
            print(line(name, simulations, rows, moves[simulations]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
