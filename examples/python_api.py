"""Load a network, search a position, play a match: the Python API in one file.

python examples/python_api.py                            # an untrained network for tic-tac-toe
python examples/python_api.py runs/connect_four-sparse     # the newest network of a run, or a weights file
"""

from __future__ import annotations

import asyncio
import sys

from azselfplay.link.finding import weights_named
from azselfplay.play.analysis import Analyst, Request
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.elo import estimate, pair_counts
from azselfplay.play.nets import LoadedNet, load_net
from azselfplay.play.openings import openings_for
from azselfplay.play.players import make_player
from azselfplay.play.runner import MatchSettings, play_match

SIMULATIONS = 100
OPPONENT = "alphabeta:2"
"""Any player that `azplay match --help` lists."""
OPENINGS = 10
"""Each is played twice, with colours swapped."""


async def search_position(net: LoadedNet, moves: tuple[str, ...] = ()) -> None:
    """Search the position after `moves`, given in the game's notation, and print what was found."""
    analyst = Analyst.of(net.game, net.evaluator, net.history)
    found = await analyst.answer(Request(id=1, fen="", moves=moves, simulations=SIMULATIONS))
    print(f"best move {found['best']}, value {found['value']:+.2f} for the side to move")
    print("win, draw, loss by the network:", found["wdl"])
    print("expected line:", *found["pv"])
    for move, visits in list(found["visits"].items())[:5]:
        print(f"  {move:>5}: {visits:4d} visits, prior {found['policy'][move]:.3f}")


async def play(net: LoadedNet) -> None:
    """Play a match against a fixed opponent and print the result with its error."""
    player = NetPlayer(net.name, net, SIMULATIONS)
    opponent = make_player(OPPONENT, net.game)
    openings = openings_for(net.game, "random", OPENINGS, seed=1)
    try:
        games = await play_match(net.game, player, opponent, openings, MatchSettings(concurrent=8))
    finally:
        await player.close()
        await opponent.close()
    outcomes = [game.outcome_for_a for game in games]
    result = estimate(pair_counts(outcomes))
    print(f"{outcomes.count(1)} won, {outcomes.count(0)} drawn, {outcomes.count(-1)} lost")
    interval = f"{result.elo_low:+z.0f} to {result.elo_high:+z.0f}"
    print(f"against {OPPONENT}: {result.elo:+z.0f} Elo, 95 % interval {interval}")


async def main(net: LoadedNet) -> None:
    print(f"{net.name} plays {net.game.name}")
    await search_position(net)
    await play(net)


if __name__ == "__main__":
    given = sys.argv[1:]
    loaded = load_net(weights_named(given[0])) if given else load_net(None, "tic_tac_toe")
    try:
        asyncio.run(main(loaded))
    finally:
        loaded.close()
