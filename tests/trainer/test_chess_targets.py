"""Hand-made chess games of every end, length parity and colour are verified and turned into targets."""

import numpy as np
import pytest
from changed_settings import self_play

from azselfplay.games import get_game
from protocol.records import POLICY_TARGET, GameRecord
from trainer.sampler import Sampler
from trainer.verify import Verifier
from trainer.window import Window

CHESS = get_game("chess")
SAMPLER = Sampler(CHESS, CHESS.history)

SHUFFLE = "g1f3 g8f6 f3g1 f6g8 "
WIN, DRAW, LOSS = 0, 1, 2
GAMES = {
    "White mates, odd": ("", "e2e4 e7e5 d1h5 b8c6 f1c4 g8f6 h5f7", "checkmate", 1, [0, 2, 0, 2, 0, 2, 0]),
    "White mates, even": ("7k/8/6K1/8/8/8/8/R7 b - - 0 1", "h8g8 a1a8", "checkmate", 1, [LOSS, WIN]),
    "Black mates, even": ("", "f2f3 e7e5 g2g4 d8h4", "checkmate", -1, [LOSS, WIN, LOSS, WIN]),
    "Black mates, odd": ("r7/8/8/8/8/6k1/8/7K b - - 0 1", "a8a1", "checkmate", -1, [WIN]),
    "stalemate": ("7k/5K2/8/6Q1/8/8/8/8 w - - 0 1", "g5g6", "stalemate", 0, [DRAW]),
    "bare kings": ("7k/6Q1/8/8/8/8/8/K7 b - - 0 1", "h8g7", "insufficient_material", 0, [DRAW]),
    "fifty moves": ("7k/8/8/8/8/8/R7/K7 w - - 99 90", "a2a3", "fifty_moves", 0, [DRAW]),
    "threefold": ("", SHUFFLE * 2, "threefold_repetition", 0, [DRAW] * 8),
    "cap": ("", "e2e4 e7e5 " + SHUFFLE, "ply_cap", 0, [DRAW] * 6),
}


def hand_made(start: str, moves: list[str], reason: str, outcome: int, max_plies: int) -> GameRecord:
    """Return the game with all visits on the moves played."""
    state = CHESS.notation.state_from_text(start)
    actions = []
    for move in moves:
        actions.append(CHESS.notation.action_from_text(state, move))
        child = np.zeros_like(state)
        CHESS.rules.play(state, actions[-1], child)
        state = child
    plies = len(actions)
    played = np.array(actions, dtype=np.uint16)
    return GameRecord(
        uid=bytes(16), game="chess", start=start, max_plies=max_plies, simulations=10,
        actions=played, visited=np.ones(plies, np.uint16), visit_actions=played,
        visits=np.full(plies, 10, np.uint16), root_values=np.zeros(plies, np.float32),
        flags=np.full(plies, POLICY_TARGET, np.uint8), versions=np.zeros(plies, np.uint32),
        outcome=outcome, reason=reason,
    )  # fmt: skip


@pytest.mark.parametrize(("start", "moves", "reason", "outcome", "classes"), GAMES.values(), ids=GAMES)
def test_ends_by_hand(start: str, moves: str, reason: str, outcome: int, classes: list[int]) -> None:
    """Each end is verified under its own reason, and its value target is the mover's at every ply."""
    played = moves.split()
    cap = len(played) if reason == "ply_cap" else 512
    record = hand_made(start, played, reason, outcome, cap)
    assert Verifier(CHESS, self_play(position=start, max_plies=cap, simulations=10)).check(record, 0) is None
    window = Window(CHESS, 20)
    window.add(record)
    numbers = np.arange(window.positions)
    assert SAMPLER.make(window, numbers, np.zeros_like(numbers)).classes.tolist() == classes


def test_moves_after_a_threefold_repetition_are_refused() -> None:
    """Playing on after the third occurrence is against the rules."""
    record = hand_made("", [*(SHUFFLE * 2).split(), "e2e4"], "ply_cap", 0, 9)
    rejection = Verifier(CHESS, self_play(max_plies=9, simulations=10)).check(record, 0)
    assert rejection is not None
    assert str(rejection) == "played_on: ply 8: the game was over already (threefold_repetition)"
