"""Packed features of shogi, compared with a naive encoder on SFEN text."""

import numpy as np
import numpy.typing as npt
import pytest
from naive_shogi import plain_planes
from shogi_agreement import STARTS

from azselfplay.games.playouts import codes, features, legal, scalars
from azselfplay.games.shogi import GAME
from azselfplay.games.spec import Positions


def planes_of(positions: Positions, n: int, history: int) -> npt.NDArray[np.float32]:
    """Return the planes of `positions[n - 1]`, float32[planes, 81] (written over other words)."""
    words = features(GAME, positions, n, history, fill=7)
    pieces = GAME.coded_cells.table()[codes(GAME, words, history)].transpose(0, 2, 1)
    numbers = np.repeat(scalars(GAME, words, history)[:, None], 81, axis=1)
    return np.concatenate([pieces.reshape(-1, 81).astype(np.float32), numbers])


def random_game(sfen: str, plies: int, rng: np.random.Generator) -> Positions:
    """Return the positions of a random game of players who prefer to go back where they came from."""
    positions = np.zeros((plies + 1, GAME.state_words), dtype=np.uint64)
    positions[0] = GAME.notation.state_from_text(sfen)
    moves: list[str] = []
    for n in range(1, plies + 1):
        actions = legal(GAME, positions, n)
        if not actions:
            return positions[:n]
        choices = {GAME.notation.action_to_text(positions[n - 1], action): action for action in actions}
        back = moves[-2][2:4] + moves[-2][:2] if len(moves) > 1 and rng.random() < 0.7 else ""
        moves.append(back if back in choices else str(rng.choice(sorted(choices))))
        GAME.rules.play(positions[n - 1], choices[moves[-1]], positions[n])
    return positions


@pytest.mark.parametrize("history", [1, 3, 8])
@pytest.mark.parametrize("sfen", ["", *STARTS])
def test_packed_features_are_those_of_the_naive_encoder(sfen: str, history: int) -> None:
    positions = random_game(sfen, 30, np.random.default_rng(history))
    sfens = [GAME.notation.state_to_text(state) for state in positions]
    for n in range(1, len(positions) + 1):
        found, expected = planes_of(positions, n, history), plain_planes(sfens[:n], history)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_move_counts_beyond_the_scale_stay_at_one() -> None:
    state = GAME.notation.state_from_text("4k4/9/9/9/9/9/9/9/4K4 w - 9999")
    assert planes_of(state[None], 1, 1)[-2:, 0].tolist() == [1, 1]
