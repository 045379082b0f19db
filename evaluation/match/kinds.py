"""The kinds of players, for people: `--help` shows them without loading any."""

from __future__ import annotations

KINDS = (
    "net:FILE@N      network in FILE, N simulations a move (800 if not said), the search of its run",
    "net:FILE@N/S    the same with another search S: puct, thompson, gumbel?gumbel_c_scale=0.1 ...",
    "policy:FILE     the network's policy alone: its first choice",
    "untrained@N     a tiny network with random weights, N simulations a move, puct; untrained@N/S",
    "random          any legal move",
    "greedy          wins at once, else takes material; where none is counted, avoids losing at once",
    "alphabeta:N     N plies of alpha-beta and a plain evaluation",
    "rollouts:N      Monte-Carlo tree search with N random playouts a move",
    "solver          perfect play where the game is solved (docs/truth.md), a shallow search elsewhere",
    "tablebase       perfect play in endgames of which there are tables, from a file of such positions",
    "uci:COMMAND?nodes=1000&movetime=MS&depth=D&timeout=S&Skill Level=3    any UCI engine",
)
"""For people."""
