"""`azplay play`: the game between a person and the network, as events and as a real session."""

import subprocess
import sys
from pathlib import Path

import pytest

from azselfplay.games import get_game
from azselfplay.host.exits import Exit
from azselfplay.play.orders import Found, Line, Order, Prepare, Progress, Report, Say, Setup, Start
from azselfplay.play.terminal import PlayEngine
from net.create import create

ROOT = Path(__file__).resolve().parents[2]
SETUP = Setup(game="tic_tac_toe")
TIC = get_game("tic_tac_toe")


def said(orders: list[Order]) -> str:
    return "\n".join(order.text for order in orders if isinstance(order, Say))


def searches(orders: list[Order]) -> list[Start]:
    return [order for order in orders if isinstance(order, Start)]


def ready(person: int = 0, game: str = "tic_tac_toe") -> PlayEngine:
    engine = PlayEngine(get_game(game), SETUP, simulations=5, person=person)
    assert isinstance(engine.begin("a network")[1], Prepare)
    engine.prepared(SETUP, 0.0)
    return engine


def answer(engine: PlayEngine, move: str, value: float = 0.5) -> list[Order]:
    """Tell the engine that the network has chosen `move` in the present position."""
    action = TIC.notation.action_from_text(engine._game_history.state, move)
    engine.reported(Report((Line((move,), 4, value, 0.5),), Progress(0.1, 5, 1, 1)))
    return engine.searched(Found((move, "9"), action, value), 0.0)


@pytest.mark.parametrize(("person", "side"), [(0, "White"), (1, "Black")])
def test_the_sides_are_called_as_the_game_calls_them(person: int, side: str) -> None:
    engine = PlayEngine(get_game("chess"), SETUP, simulations=5, person=person)
    assert f"you are {side}, against a network" in said(engine.begin("a network"))


def test_a_move_is_answered_by_a_search_with_the_wanted_simulations() -> None:
    engine = ready()
    (start,) = searches(engine.feed("5", 0.0))
    assert (start.request.actions, start.request.simulations) == ((4,), 5)
    text = said(answer(engine, "1"))
    assert "The network plays: 1" in text
    assert "its own chances 75 %" in text
    assert "Your move" in text


def test_a_move_that_only_earlier_positions_forbid_is_refused_with_the_reason() -> None:
    """In Go, such a move retakes a ko."""
    engine = ready(game="go_5x5")
    for move in ("B1", "C1", "A2", "D2", "B3", "C3", "C2", "B2"):
        engine._game_history.play_text(move)
    assert "repeats an earlier position" in said(engine.feed("C2", 0.0))
    assert len(engine._game_history.actions) == 8


def test_lines_wait_while_the_network_loads_and_thinks() -> None:
    engine = PlayEngine(TIC, SETUP, simulations=5)
    assert engine.feed("5", 0.0) == engine.feed("moves", 0.0) == []
    assert not engine.takes_input
    assert searches(engine.prepared(SETUP, 0.0))
    assert "2 3 4 6 7 8 9" in said(answer(engine, "1"))
    assert engine.takes_input


def test_undo_takes_back_the_answer_too() -> None:
    engine = ready()
    engine.feed("5", 0.0)
    answer(engine, "1")
    engine.feed("undo", 0.0)
    assert engine._game_history.actions == []
    assert "no move to take back" in said(engine.feed("undo", 0.0))


def test_a_hint_shows_what_the_network_would_do_for_the_person_and_plays_nothing() -> None:
    engine = ready()
    (start,) = searches(engine.feed("hint", 0.0))
    assert start.request.lines > 1
    assert "5" in said(answer(engine, "5"))
    assert engine._game_history.actions == []


def test_the_end_of_a_game_is_told_from_the_persons_side() -> None:
    engine = ready()
    for mine, its in (("1", "4"), ("2", "5")):
        engine.feed(mine, 0.0)
        answer(engine, its)
    end = said(engine.feed("3", 0.0))
    assert "You win (line)" in end
    assert "x x x" in end
    assert "to move" not in end
    assert "game is over" in said(engine.feed("9", 0.0))
    assert "Your move" in said(engine.feed("undo", 0.0))
    assert "Your move" in said(engine.feed("new", 0.0))


def test_a_side_that_moves_twice_keeps_the_turn() -> None:
    engine = ready(game="dots_and_boxes_1x1")
    moves = [
        engine._game_history.game.notation.action_to_text(engine._game_history.state, int(action))
        for action in engine._game_history.legal_actions()
    ]
    assert len(moves) == 4
    assert searches(engine.feed(moves[0], 0.0))


SESSION = "moves\nhint\n5\nnonsense\nundo\nnodes 8\n5\nboard\nnew second\nquit\n"


def test_a_scripted_session_is_played_to_its_end() -> None:
    command = [sys.executable, "-m", "azselfplay.lab.azplay", "play", "--game", "tic_tac_toe"]
    command += ["--threads", "1", "--nodes", "16", "--hash", "16"]
    done = subprocess.run(command, cwd=ROOT, input=SESSION, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert done.stdout.startswith("tic_tac_toe: you are X, against untrained tiny")
    assert done.stdout.count("The network plays: ") == 3


PREPARES_FOR_EVER = """
import asyncio, threading
from azselfplay.play.driver import in_thread, leave_if_preparing
async def main():
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    def prepare():
        loop.call_soon_threadsafe(begun.set)
        threading.Event().wait()
    task = asyncio.create_task(in_thread(prepare))
    await begun.wait()
    task.cancel()
leave_if_preparing(3)
asyncio.run(main())
leave_if_preparing(0)
print("the interpreter is taken down")
"""


def test_an_end_while_a_network_is_prepared_leaves_at_once_with_one_line() -> None:
    """The compiler aborts if the interpreter shuts down while its thread still runs."""
    done = subprocess.run([sys.executable, "-c", PREPARES_FOR_EVER], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "ended while the search was being prepared\n"


INTERRUPTED = """
import os, signal, sys, threading
from azselfplay.lab import azplay
from azselfplay.play import analysis
from azselfplay.search import warm
def prepare(*_):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
warm.warm = analysis.Analyst.warm_up = prepare
sys.exit(azplay.main())
"""


@pytest.mark.parametrize(("what", "code"), [("analyse", 0), ("annotate", 130), ("truth", 130)])
def test_ctrl_c_does_not_wait_for_a_search_that_is_compiled(tmp_path: Path, what: str, code: int) -> None:
    games, weights, out = tmp_path / "games.pgn", str(tmp_path / "net.safetensors"), tmp_path / "out"
    games.write_text("1. e4 *\n")
    create("chess" if what == "annotate" else "tic_tac_toe", 0, "1x8", 1, Path(weights))
    words = [str(games), weights, "--out", str(out)] if what == "annotate" else [weights]
    command = [sys.executable, "-c", INTERRUPTED, what, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == code, done.stderr
    assert "finishing" in done.stderr
    assert not out.exists()
