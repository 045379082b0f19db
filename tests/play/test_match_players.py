"""Players without a network: alpha-beta against a plain minimax, rollouts, greedy, solvers, tables."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import chess
import numpy as np
import pytest
from naive_dots import NaiveDots, gain

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.jit import bind
from azselfplay.games.knowledge import Heuristic
from azselfplay.games.playouts import playouts
from azselfplay.games.spec import NO_ROOT, Game, outcome_for_first_player
from azselfplay.games.stubs import bindings as rules_bindings
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play import kernel_players, match
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.kernel_players import alphabeta
from azselfplay.play.nets import LoadedNet
from azselfplay.play.openings import random_openings
from azselfplay.play.player import PlayerFailed
from azselfplay.play.players import make_player
from azselfplay.search.evaluator import UniformEvaluator

WIN, QUIESCENCE = 1_000_000, 8
PIECES = {chess.PAWN: 100, chess.KNIGHT: 320, chess.BISHOP: 330, chess.ROOK: 500, chess.QUEEN: 900}
WINDOW_WEIGHTS = [0, 1, 4, 16]

Evaluate = Callable[[Game, np.ndarray], int]
Noisy = Callable[[Game, np.ndarray, int], bool]


def minimax(
    game: Game, states: list[np.ndarray], ply: int, depth: int, evaluate: Evaluate, noisy: Noisy
) -> int:
    """Return the value of the last state, `ply` plies below the root. Below depth 0 only noisy moves are
    searched, or none at all."""
    actions, positions = np.zeros(game.max_legal, np.uint16), np.array(states)
    count = game.rules.legal_actions(positions, len(states), actions)
    reason = game.rules.end_reason(positions, len(states), count, len(states) - 1 - ply)
    if reason:
        return game.end_reasons[reason].value * (WIN - ply)
    legal = [int(action) for action in actions[:count]]
    best = None
    if depth <= 0:
        best = evaluate(game, states[-1])
        legal = [one for one in legal if noisy(game, states[-1], one)] if depth > -QUIESCENCE else []
    for action in legal:
        child = np.zeros_like(states[-1])
        game.rules.play(states[-1], action, child)
        value = minimax(game, [*states, child], ply + 1, depth - 1, evaluate, noisy)
        value = value if same_mover(game, states[-1], child) else -value
        best = value if best is None else max(best, value)
    assert best is not None
    return best


def same_mover(game: Game, state: np.ndarray, child: np.ndarray) -> bool:
    return int(game.rules.side_to_move(state)) == int(game.rules.side_to_move(child))


def chess_value(game: Game, state: np.ndarray) -> int:
    """Return material plus two centipawns for each attacked square, by python-chess."""
    board = chess.Board(game.notation.state_to_text(state))
    total = 0
    for square, piece in board.piece_map().items():
        worth = PIECES.get(piece.piece_type, 0)
        if piece.piece_type not in (chess.PAWN, chess.KING):
            worth += 2 * len(board.attacks(square))
        total += worth if piece.color == board.turn else -worth
    return total


def chess_noisy(game: Game, state: np.ndarray, action: int) -> bool:
    board = chess.Board(game.notation.state_to_text(state))
    move = chess.Move.from_uci(game.notation.action_to_text(state, action))
    return board.is_capture(move) or move.promotion is not None


def windows_value(game: Game, state: np.ndarray) -> int:
    """Return the value from counting windows on the board as it is written."""
    length = {"tic_tac_toe": 3, "connect_four": 4}[game.name]
    rows = game.notation.state_to_text(state).split("/")
    mine, his = "xo" if int(state[2]) % 2 == 0 else "ox"
    total = 0
    for row in range(game.rows):
        for col in range(game.cols):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + down * k, col + right * k) for k in range(length)]
                if all(0 <= r < game.rows and 0 <= c < game.cols for r, c in cells):
                    text = "".join(rows[r][c] for r, c in cells)
                    if his not in text:
                        total += WINDOW_WEIGHTS[text.count(mine)]
                    if mine not in text:
                        total -= WINDOW_WEIGHTS[text.count(his)]
    return total


def greedy_score(game: Game, states: list[np.ndarray], action: int) -> int:
    """Return what an action is worth to the player who looks no further than a win with the next move, in a
    game without a score."""
    child = np.zeros_like(states[-1])
    game.rules.play(states[-1], action, child)
    sign = 1 if same_mover(game, states[-1], child) else -1
    value, replies = end_of(game, [*states, child])
    if value is not None:
        return sign * value * WIN
    for reply in replies:
        last = np.zeros_like(child)
        game.rules.play(child, reply, last)
        # A reply that decides the game wins, even if the rules let the game go on.
        after, _ = end_of(game, [*states, child, last], root=len(states) + 1)
        if after is not None and (after if same_mover(game, child, last) else -after) > 0:
            return sign * WIN
    return 0


def end_of(game: Game, states: list[np.ndarray], root: int = NO_ROOT) -> tuple[int | None, list[int]]:
    """Return the value of the last state for its side to move (None while the game goes on) and its legal
    actions. `root` as in `Rules.end_reason`."""
    actions, positions = np.zeros(game.max_legal, np.uint16), np.array(states)
    count = game.rules.legal_actions(positions, len(states), actions)
    reason = game.rules.end_reason(positions, len(states), count, root)
    return game.end_reasons[reason].value if reason else None, actions[:count].tolist()


def nothing(game: Game, state: np.ndarray) -> int:
    return 0


def never(game: Game, state: np.ndarray, action: int) -> bool:
    return False


CHESS, DOTS = get_game("chess"), get_game("dots_and_boxes_2x2")

CHESS_POSITIONS = (
    ("", 2),
    ("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR w KQkq - 4 4", 1),
    ("8/P4k2/8/8/3pP3/8/5K2/8 b - e3 0 1", 2),
    ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", 2),
    ("r3k2r/p2n1p2/8/2pP4/8/5N2/P4PP1/R3K2R w KQkq c6 0 1", 1),
    ("7k/8/5K2/6Q1/8/8/8/8 b - - 97 1", 2),
)


def chosen(game: Game, spec: str, game_history: GameHistory, seed: int = 0) -> int:
    """Return the move of a player made from `spec`."""

    async def play() -> int:
        player = make_player(spec, game)
        seat = await player.sit_down(seed)
        try:
            return await seat.choose(game_history)
        finally:
            await seat.close()
            await player.close()

    return asyncio.run(play())


def assert_same_as_minimax(
    game_history: GameHistory, depth: int, evaluate: Callable[..., int], noisy: Callable[..., bool]
) -> None:
    game, legal = game_history.game, game_history.legal_actions()
    action, value = alphabeta(game_history, depth, legal)
    values = {}
    for one in legal:
        child = np.zeros_like(game_history.state)
        game.rules.play(game_history.state, one, child)
        value_after = minimax(game, [*game_history.states, child], 1, depth - 1, evaluate, noisy)
        values[int(one)] = value_after if same_mover(game, game_history.state, child) else -value_after
    assert value == max(values.values()) == values[action]


@pytest.mark.parametrize(("fen", "depth"), CHESS_POSITIONS)
def test_chess_alphabeta_finds_what_plain_minimax_finds(fen: str, depth: int) -> None:
    assert_same_as_minimax(GameHistory(CHESS, fen), depth, chess_value, chess_noisy)


@pytest.mark.parametrize(("name", "depth", "plies"), [("connect_four", 4, 8), ("tic_tac_toe", 9, 3)])
def test_small_games_alphabeta_finds_what_plain_minimax_finds(name: str, depth: int, plies: int) -> None:
    game = get_game(name)
    for opening in random_openings(game, 3, plies, seed=3):
        assert_same_as_minimax(opening.game_history(game), depth, windows_value, never)


@pytest.fixture
def untaught(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Let players know nothing of dots-and-boxes but its rules."""
    sets = {DOTS.name: rules_bindings(DOTS), "heuristic": kernel_players.bindings(Heuristic())}
    found = bind([kernel_players], sets)
    monkeypatch.setattr(kernel_players, "kernels_for", lambda _: found)
    return found


def late_lines() -> list[tuple[GameHistory, int]]:
    """Return positions of random games in which players move twice, and the value of each for the side to
    move."""
    found = []
    for playout in playouts(DOTS.name):
        game_history, twin = GameHistory(DOTS), NaiveDots(2, 2)
        for action in playout.actions:
            game_history.play(action)
            twin.play(action)
            if 0 < len(twin.legal()) <= 7:
                lead = twin.lead(twin.mover) + gain(2, 2, frozenset(twin.drawn[-1]))
                found.append((replay(DOTS, "", game_history.moves_text()), int(np.sign(lead))))
    return found


def best_outcome(game_history: GameHistory) -> int:
    """Return the outcome for the first player under perfect play."""
    if game_history.end_reason() is not None:
        return game_history.outcome()
    value = np.sign(alphabeta(game_history, 8, game_history.legal_actions())[1])
    return outcome_for_first_player(int(value), game_history.side_to_move)


def test_alphabeta_knows_whose_move_it_is(untaught: SimpleNamespace) -> None:
    """Where players move twice, a search to the end finds the value of retrograde analysis, and a search of
    three plies finds what plain minimax finds."""
    for game_history, value in late_lines():
        assert np.sign(alphabeta(game_history, 8, game_history.legal_actions())[1]) == value
        assert_same_as_minimax(game_history, 3, nothing, never)


def test_rollouts_and_greedy_know_whose_move_it_is(untaught: SimpleNamespace) -> None:
    """With few edges left, rollouts reach the end of the game; greedy looks one move ahead, as its twin
    does."""
    for game_history, value in late_lines():
        legal = game_history.legal_actions().tolist()
        if len(legal) <= 4:
            side = game_history.side_to_move
            game_history.play(chosen(DOTS, "rollouts:4000", game_history))
            assert value == outcome_for_first_player(best_outcome(game_history), side)
            game_history = replay(DOTS, "", game_history.moves_text()[:-1])
        states = np.zeros((game_history.ply + 3, DOTS.state_words), np.uint64)
        actions, scores = np.zeros(DOTS.max_legal, np.uint16), np.zeros(DOTS.max_legal, np.int64)
        states[: game_history.ply + 1] = game_history.states
        count = untaught.greedy_scores(
            states, game_history.ply + 1, actions, actions.copy(), actions.copy(), scores
        )
        assert scores[:count].tolist() == [
            greedy_score(DOTS, list(game_history.states), one) for one in legal
        ]


def test_greedy_takes_the_queen_and_mates_when_it_can() -> None:
    hanging = GameHistory(CHESS, "4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1")
    mate = GameHistory(CHESS, "6k1/5ppp/8/8/8/8/1q3PPP/R2Q2K1 w - - 0 1")
    assert CHESS.notation.action_to_text(hanging.state, chosen(CHESS, "greedy", hanging)) == "e4d5"
    mates = {CHESS.notation.action_to_text(mate.state, chosen(CHESS, "greedy", mate))}
    assert mates <= {"a1a8", "d1d8"}


@pytest.mark.parametrize("spec", ["greedy", "rollouts:500"])
def test_a_win_at_once_is_played_else_the_other_sides_is_blocked(spec: str) -> None:
    game = get_game("connect_four")
    for moves in ("1 2 1 2 1 2", "1 2 1 2 1"):
        assert chosen(game, spec, replay(game, "", moves.split())) == 0


@pytest.mark.parametrize("spec", ["rollouts:50", "alphabeta:2", "greedy", "random"])
@pytest.mark.parametrize(
    ("name", "moves"),
    [("chess", "g1f3 g8f6 f3g1 f6g8"), ("dots_and_boxes_1x3", "a1a2 a2b2 b1b2 a1b1 b1c1 c1c2 b2c2")],
    ids=["repeated once", "decided"],
)
def test_a_move_is_found_where_a_search_would_count_the_game_as_over(
    spec: str, name: str, moves: str
) -> None:
    game = get_game(name)
    game_history = replay(game, "", moves.split())
    assert chosen(game, spec, game_history) in game_history.legal_actions()


def test_tablebase_mates_in_one_and_fails_where_there_is_no_table() -> None:
    mate = GameHistory(CHESS, "7k/8/6K1/8/8/8/8/R7 w - - 0 1")
    assert CHESS.notation.action_to_text(mate.state, chosen(CHESS, "tablebase", mate)) == "a1a8"
    with pytest.raises(PlayerFailed, match="no endgame table"):
        chosen(CHESS, "tablebase", GameHistory(CHESS))


@pytest.mark.parametrize(
    ("spec", "game", "says"),
    [
        ("foo", "chess", "'foo' is not a player"),
        ("alphabeta:x", "chess", "whole number from 1"),
        ("alphabeta:", "chess", "whole number from 1"),
        ("untrained@0", "chess", "whole number from 1"),
        ("solver", "chess", "no solver for chess"),
        ("tablebase", "connect_four", "no tables for connect_four"),
        ("random@100", "chess", "write random alone"),
        ("random:x", "chess", "write random alone"),
        ("blend:greedy", "tic_tac_toe", "blend:SPEC:PERCENT"),
        ("blend:greedy:0", "tic_tac_toe", "blend:SPEC:PERCENT"),
        ("blend:50", "tic_tac_toe", "blend:SPEC:PERCENT"),
        ("uci:it's", "chess", "close the quotation marks"),
        ("gtp:gnugo", "chess", "engines of chess speak uci"),
        ("uci:cat", "tic_tac_toe", "tic_tac_toe has no engines"),
        ("gtp:cat?nodes=100", "go_5x5", "neither nodes nor depth"),
        ("usi:cat?nodes=many", "shogi", "whole numbers from 1"),
        *(
            ("uci:cat?" + one, "chess", "too small")
            for one in ("nodes=0", "timeout=-1", "movetime=-5", "timeout=nan")
        ),
        ("net:no-such-file@10", "chess", "no network 'no-such-file'"),
    ],
)
def test_a_spec_that_cannot_play_is_refused_before_any_game(spec: str, game: str, says: str) -> None:
    with pytest.raises(Fatal, match=says) as refused:
        make_player(spec, get_game(game))
    assert refused.value.code == (Exit.BAD_DATA if spec.startswith("net:") else Exit.CONFIG)


def test_the_search_of_a_network_is_compiled_before_its_first_game(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed = []
    monkeypatch.setattr("azselfplay.play.builtin_players.warm", lambda *what: warmed.append(what))
    game = get_game("tic_tac_toe")
    net = LoadedNet(game, game.history, "hash", 0, UniformEvaluator(), 1)
    for simulations in (0, 8):
        asyncio.run(NetPlayer("one", net, simulations).prepare())
    assert warmed == [("tic_tac_toe", "puct", None)]


@pytest.mark.parametrize(
    ("spec", "file"), [("net:a@b/c@20/puct", "a@b/c"), ("policy:a@b/c", "a@b/c"), ("net:a", "a")]
)
def test_the_game_of_a_match_is_that_of_the_file_that_plays(
    spec: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path may contain an @; the policy has no number after it."""
    asked: list[str] = []
    monkeypatch.setattr(match, "weights_named", lambda name, _: asked.append(name))
    assert match.game_of_match(match.MatchConfig(), (spec, "random")).name == "chess"
    assert asked == [file]
