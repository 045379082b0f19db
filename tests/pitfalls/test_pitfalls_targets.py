"""Mistakes between a finished game and what is learned from it: docs/pitfalls.md."""

from dataclasses import replace

import chess
import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, HashEvaluator, Leaf, played
from test_chess_perft import KNOWN
from test_chess_targets import hand_made

import client.self_play
from azselfplay.games import get_game
from azselfplay.games.game_history import replay
from azselfplay.games.spec import Game, outcome_for_first_player
from azselfplay.search.result import SearchResult
from azselfplay.search.settings import resolve
from protocol.records import POLICY_TARGET, GameRecord, from_bytes, to_bytes
from trainer.sampler import Sampler
from trainer.sampler_kernel import Samples
from trainer.verify import Verifier
from trainer.window import Window

CHESS, FOUR, TIC = (get_game(name) for name in ("chess", "connect_four", "tic_tac_toe"))
WIN, DRAW, LOSS = 0, 1, 2


class Stranger(HashEvaluator):
    """Gives arbitrary answers; its weights change with every `every`-th answer."""

    def __init__(self, every: int = 1000) -> None:
        super().__init__()
        self.version, self.every = 0, every

    def answer(self, leaf: Leaf) -> Answer:
        self.version = self.rows // self.every
        return super().answer(leaf)


def samples_of(game: Game, *records: GameRecord) -> Samples:
    """Return all positions of games that passed through every stage: bytes, verification, window, sampler."""
    window = Window(game, sum(record.plies for record in records), game.max_legal, 1.0)
    for record in records:
        window.add(from_bytes(to_bytes(record)))
    numbers = np.arange(window.positions)
    return Sampler(game, game.history).make(window, numbers, np.zeros_like(numbers))


def record_of(game: Game, moves: str, reason: str, outcome: int) -> GameRecord:
    """Return a game by hand, with one visit for each move played."""
    game_history = replay(game, "", moves.split())
    played = np.array(game_history.actions, np.uint16)
    ones = np.ones(len(played), np.uint16)
    return GameRecord(
        uid=bytes(16), game=game.name, start="", max_plies=game.max_plies, simulations=1,
        actions=played, visited=ones, visit_actions=played, visits=ones,
        root_values=np.zeros(len(played), np.float32), flags=np.full(len(played), POLICY_TARGET, np.uint8),
        versions=np.zeros(len(played), np.uint32), outcome=outcome, reason=reason,
    )  # fmt: skip


FULL_BOARD = "1 2 1 2 2 1 2 1 1 2 1 2 3 4 3 4 4 3 4 3 3 4 3 4 5 6 5 6 6 5 6 5 5 6 5 6 7 7 7 7 7 7"
GAMES = {
    "tic-tac-toe, first wins": (TIC, "1 4 2 5 3", "line", 1, [WIN, LOSS] * 2 + [WIN]),
    "tic-tac-toe, second wins": (TIC, "1 4 2 5 9 6", "line", -1, [LOSS, WIN] * 3),
    "tic-tac-toe, full": (TIC, "1 2 3 5 4 6 8 7 9", "board_full", 0, [DRAW] * 9),
    "tic-tac-toe, line with the last stone": (TIC, "1 2 3 4 6 8 5 7 9", "line", 1, [WIN, LOSS] * 4 + [WIN]),
    "connect four, first wins": (FOUR, "1 2 1 2 1 2 1", "four", 1, [WIN, LOSS] * 3 + [WIN]),
    "connect four, second wins": (FOUR, "1 2 1 2 3 2 7 2", "four", -1, [LOSS, WIN] * 4),
    "connect four, full": (FOUR, FULL_BOARD, "board_full", 0, [DRAW] * 42),
}


@pytest.mark.parametrize(("game", "moves", "reason", "outcome", "classes"), GAMES.values(), ids=GAMES)
def test_every_end_of_the_small_games_is_the_movers_at_every_ply(
    game: Game, moves: str, reason: str, outcome: int, classes: list[int]
) -> None:
    """There are odd and even lengths, and wins of both sides; chess's ends are in
    tests/trainer/test_chess_targets.py."""
    record = record_of(game, moves, reason, outcome)
    verifier = Verifier(game, self_play(simulations=1))
    assert verifier.check(record, 0) is None
    for false in {1, 0, -1} - {outcome}:
        assert verifier.check(replace(record, outcome=false), 0) is not None
    assert samples_of(game, record).classes.tolist() == classes


@pytest.mark.parametrize(
    ("game", "changes"),
    [
        (TIC, {}),
        (FOUR, {}),
        (FOUR, {"selection": "gumbel", "random_share": 1.0, "random_plies": 4}),
        (CHESS, {"max_plies": 9}),
    ],
    ids=["tic-tac-toe", "connect four", "connect four gumbel", "chess"],
)
def test_targets_are_what_the_live_search_found(game: Game, changes: dict[str, object], monkeypatch) -> None:
    """At every ply of games that are really played, the shares of the visits, the root value and the winner
    agree."""
    found: dict[int, SearchResult] = {}
    live = client.self_play.search

    async def watched(tree, pool):
        found[tree.ply] = await live(tree, pool)
        return found[tree.ply]

    monkeypatch.setattr(client.self_play, "search", watched)
    settings = resolve(varied(self_play(simulations=12), **changes), game)  # type: ignore[arg-type]
    for seed in range(2):
        found.clear()
        record = played(game, settings, Stranger(), np.random.default_rng(seed))
        assert Verifier(game, settings).check(record, 9) is None
        samples = samples_of(game, record)
        for ply in range(record.plies):
            here = samples.rows == ply
            result = found.get(ply)
            if result is None:
                assert not here.any()
                continue
            shares = dict(zip(samples.actions[here].tolist(), samples.shares[here].tolist(), strict=True))
            wanted = dict(zip(result.actions.tolist(), result.visits / result.visits.sum(), strict=True))
            assert {action: share for action, share in shares.items() if share} == pytest.approx(wanted)
            assert samples.root_values[ply] == pytest.approx(result.value)
            assert samples.classes[ply] == 1 - outcome_for_first_player(record.outcome, ply % 2)


@pytest.mark.parametrize("fen", [fen for fen, _ in KNOWN])
def test_a_target_on_any_legal_move_is_read_back_as_that_move(fen: str) -> None:
    """On known positions and their mirrors, all visits are on one move. After record, window and sampler, the
    action with the largest share is that move to python-chess, promotions and castling included."""
    for board in (chess.Board(fen), chess.Board(fen).mirror()):
        moves = [move.uci() for move in board.legal_moves]
        start = board.fen(en_passant="legal")
        state = CHESS.notation.state_from_text(start)
        samples = samples_of(CHESS, *(hand_made(start, [move], "ply_cap", 0, 1) for move in moves))
        for row, move in enumerate(moves):
            here = samples.rows == row
            assert here.sum() == len(moves)
            best = samples.actions[here][np.argmax(samples.shares[here])]
            assert CHESS.notation.action_to_text(state, int(best)) == move


def test_each_move_of_a_record_names_the_weights_that_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights change in the middle of a game, and the record has the version of each move."""
    evaluator, seen = Stranger(every=20), []
    choose = client.self_play.choose_action

    def watched(*arguments):
        seen.append(evaluator.version)
        return choose(*arguments)

    monkeypatch.setattr(client.self_play, "choose_action", watched)
    settings = resolve(self_play(simulations=12), FOUR)
    record = played(FOUR, settings, evaluator, np.random.default_rng(1))
    assert record.versions.tolist() == seen
    assert len(set(seen)) > 3
