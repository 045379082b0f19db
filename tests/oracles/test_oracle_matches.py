"""Our engines in whole games over GTP and USI, against programs that players use: nobody forfeits.

This tier is optional (`make test-oracles`) and is skipped where the other program is missing.
"""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from test_match_runner import match

from azselfplay.games import get_game
from azselfplay.games.spec import PLY_CAP, RESIGNATION
from azselfplay.play.openings import random_openings

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).resolve().parents[2]
GAMES = 10
"""Number of pairs of games."""


@pytest.mark.parametrize(
    ("name", "protocol", "program", "arguments"),
    [
        ("go_9x9", "gtp", "gnugo", " --mode gtp --positional-superko --allow-suicide?level=1"),
        ("shogi", "usi", "fairy-stockfish", "?nodes=200"),
    ],
)
def test_twenty_games_are_played_to_their_end(name: str, protocol: str, program: str, arguments: str) -> None:
    found = shutil.which(program) or shutil.which(f"/usr/games/{program}")
    if found is None:
        pytest.skip(f"{program} is not installed (Debian: apt install {program})")
    game = get_game(name)
    engine = shlex.join(["env", "-C", str(ROOT), sys.executable, "-m", "azselfplay.lab.azplay", protocol])
    ours = f"{protocol}:{engine} --game {name} --threads 1 --nodes 20 --hash 16?timeout=240"

    them, openings = f"{protocol}:{found}{arguments}", random_openings(game, GAMES, 4, seed=1)
    played = [(one.reason, one.detail) for one in match(game, ours, them, openings, concurrent=2)]
    ends = {PLY_CAP, RESIGNATION, *(reason.name for reason in game.end_reasons)}
    assert len(played) == 2 * GAMES
    assert [one for one in played if one[0] not in ends] == []
