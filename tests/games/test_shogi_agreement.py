"""Random games in step with cshogi; `python tests/games/shogi_agreement.py` plays many more (see there)."""

import pytest
import shogi
from scaled_examples import scaled
from shogi_agreement import STARTS, compare_games

from azselfplay.games.game_history import GameHistory
from azselfplay.games.playouts import legal
from azselfplay.games.shogi import GAME

GAMES = scaled(80)
MET = ("mate", "repetition", "drops", "promotions", "declarations", "second: perpetual_check_given")


def test_rules_agree_with_cshogi_at_every_ply_of_random_games() -> None:
    met = compare_games(0, GAMES)
    assert met["games"] == GAMES
    for name in MET:
        assert met[name] > 0, f"these seeds never met {name}"


@pytest.mark.parametrize("start", STARTS[:4])
def test_a_fourth_occurrence_is_that_of_python_shogi(start: str) -> None:
    """In games of players who move to and fro, it comes neither earlier nor later."""
    game = GameHistory(GAME, start)
    board = shogi.Board(GAME.notation.state_to_text(game.state))
    while game.end_reason() is None:
        assert not board.is_fourfold_repetition()
        actions = legal(GAME, game.states, game.ply + 1)
        moves = {GAME.notation.action_to_text(game.state, action): action for action in actions}
        assert {move.usi() for move in board.legal_moves} == set(moves)
        last = game.moves_text()[-2] if game.ply >= 2 else ""
        back = last[2:4] + last[:2]
        plain = max(moves, key=lambda move: ("*" not in move, "+" not in move, move))
        move = back if back in moves else plain
        game.play(moves[move])
        board.push_usi(move)
    assert board.is_fourfold_repetition() == (game.end_reason() != "mate")


@pytest.mark.oracle
@pytest.mark.parametrize("first_seed", range(0, 20_000, 1_000))
def test_rules_agree_with_cshogi_over_twenty_thousand_games(first_seed: int) -> None:
    assert compare_games(first_seed, first_seed + 1_000)["games"] == 1_000
