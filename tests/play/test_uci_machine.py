"""The engine's state machine: its answers and orders, line by line, without a search behind it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.play.orders import (
    TOO_LONG,
    Found,
    Options,
    Prepare,
    Quit,
    Request,
    Say,
    SetDeadline,
    Setup,
    Start,
    StopSearch,
)
from azselfplay.play.strength import Strength, measured
from azselfplay.play.thinker import as_written
from azselfplay.play.uci import UciEngine
from azselfplay.play.uci_lines import UCI, USI

HOSTILE = [
    "", "\x00\xff\x00", "go go go", "go nodes 99999999999999999999", "go depth -3", "go searchmoves e2e5",
    "position fen", "position fen 8/8/8/8/8/8/8/8 w - - 0 1", "position startpos moves e2e4 e2e4", "position",
    "position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 moves 0000", "stop", "ponderhit",
    "setoption name Hash value 99999999999", "setoption name Nonsense value 1", "setoption name", "setoption",
    "setoption value name", "info string hello\ninfo", "bestmove e2e4", "x" * 5000, "\u202e\u0000\U0001f600",
]  # fmt: skip


def new_engine(game: str = "chess", **more: object) -> UciEngine:
    return UciEngine(get_game(game), "test", Options(), **more)


def ready_engine(game: str = "chess", **more: object) -> UciEngine:
    engine = new_engine(game, **more)
    assert engine.feed("isready", 0.0) == [Prepare(Setup())]
    assert engine.prepared(Setup(), 0.0) == [Say("readyok")]
    return engine


@pytest.fixture
def engine() -> UciEngine:
    return ready_engine()


def start_of(engine: UciEngine, line: str, now: float = 5.0) -> Request:
    (start,) = engine.feed(line, now)
    assert isinstance(start, Start)
    return start.request


def test_readyok_and_a_search_wait_for_the_network():
    engine = new_engine()
    assert engine.feed("isready", 0.0) == [Prepare(Setup())]
    assert engine.feed("isready", 0.0) == engine.feed("go nodes 5", 1.0) == []
    ready = engine.prepared(Setup(), 0.0)
    assert ready[:2] == [Say("readyok")] * 2
    assert isinstance(ready[2], Start)
    assert engine.feed("isready", 2.0) == [Say("readyok")]


def test_limits_of_go_become_limits_of_the_search(engine):
    engine.feed("position startpos moves e2e4", 0.0)
    request = start_of(engine, "go btime 60000 wtime 1 binc 1000 searchmoves e7e5")
    assert request.seconds == pytest.approx(0.8 + (60 - 0.03 - 29 * 0.03) / 30)
    assert (len(request.actions), len(request.allowed), request.may_move_early) == (1, 1, True)
    assert not request.from_start
    assert engine.searched(Found(("e7e5",)), 0.0) == [Say("bestmove e7e5")]
    request = start_of(engine, "go movetime 100")
    assert (request.seconds, request.may_move_early) == (pytest.approx(0.07), False)
    assert request.from_start, "a network that is loaded first takes none of this time: no clock runs"
    engine.searched(Found(("e7e5",)), 0.0)
    assert start_of(engine, "go nodes 12").simulations == 12


def test_a_strength_is_announced_and_limits_the_simulations_of_games_only() -> None:
    rated = Strength((1, 2, 4), (100.4, 300.0, 500.6))
    engine = ready_engine(strength=rated)
    said = [order.text for order in engine.feed("uci", 0.0)]
    assert "option name UCI_Elo type spin default 500 min 101 max 500" in said
    engine.feed("setoption name UCI_Elo value 400", 0.0)
    assert start_of(engine, "go nodes 100").simulations == 100
    engine.searched(Found(("e2e4",)), 0.0)
    engine.feed("setoption name UCI_LimitStrength value true", 0.0)
    assert start_of(engine, "go wtime 60000 btime 60000").simulations == 3  # half of a doubling above 2
    engine.searched(Found(("e2e4",)), 0.0)
    assert start_of(engine, "go infinite").simulations == 0
    engine.feed("stop", 6.0)
    engine.searched(Found(("e2e4",)), 6.0)
    assert start_of(engine, "go ponder wtime 60000 btime 60000").simulations == 3


def test_uci_is_answered_before_anything_is_loaded_without_ratings_with_no_option_of_strength(
    tmp_path: Path,
) -> None:
    assert measured(tmp_path / "w.safetensors", "", get_game("chess")) is None
    said = [order.text for order in new_engine().feed("uci", 0.0)]
    assert (said[0], said[-1]) == ("id name test", "uciok")
    assert not any("UCI_Elo" in line for line in said)


def test_castling_of_chess960_is_written_as_the_gui_asks() -> None:
    """An engine for chess has no such option."""
    game, engine = get_game("chess960"), ready_engine("chess960")
    assert Say("option name UCI_Chess960 type check default false") in engine.feed("uci", 0.0)
    state = game.notation.state_from_text("4k3/8/8/8/8/8/8/4K2R w H - 0 1")
    action = game.notation.action_from_text(state, "e1h1")
    for value, text in (("false", "e1g1"), ("true", "e1h1")):
        engine.feed(f"setoption name UCI_Chess960 value {value}", 0.0)
        written = as_written(game, start_of(engine, "go nodes 5"))
        assert written.notation.action_to_text(state, action) == text
        engine.searched(Found(("e2e4",)), 0.0)
    [refused] = ready_engine().feed("setoption name UCI_Chess960 value true", 0.0)
    assert refused.text.startswith("info string unknown option 'UCI_Chess960'; known:")


def test_what_was_rated_no_higher_than_fewer_simulations_is_chance() -> None:
    assert Strength.of([(1, 0.0), (2, 90.0), (4, 80.0), (8, 200.0)]) == ((1, 2, 8), (0.0, 90.0, 200.0))
    assert Strength.of([(1, 50.0), (2, 40.0)]) is None


def test_one_legal_move_is_not_thought_about(engine):
    engine.feed("position fen 7k/8/8/8/8/8/6q1/7K w - - 0 1", 0.0)
    assert start_of(engine, "go wtime 60000 btime 60000").simulations == 1
    engine.searched(Found(("h1g2",)), 0.0)
    assert start_of(engine, "go ponder wtime 60000 btime 60000").simulations == 0


def test_an_infinite_search_that_ends_by_itself_answers_only_after_stop(engine):
    start_of(engine, "go infinite")
    assert engine.searched(Found(("e2e4",)), 0.0) == []
    assert engine.feed("isready", 0.0) == [Say("readyok")]
    assert engine.feed("stop", 0.0) == [Say("bestmove e2e4")]
    start_of(engine, "go infinite")
    assert engine.feed("stop", 0.0) == [StopSearch()]
    assert engine.searched(Found(("d2d4",)), 0.0) == [Say("bestmove d2d4")]


def test_a_search_for_a_mate_ends_by_itself(engine):
    assert start_of(engine, "go mate 3").stop_when_proven
    assert engine.searched(Found(("e2e4",)), 0.0) == [Say("bestmove e2e4")]


def test_a_go_behind_another_one_waits_for_its_end_and_ends_it_if_it_has_no_limit(engine):
    start_of(engine, "go nodes 9")
    (note,) = engine.feed("go infinite", 0.0)
    assert note.text.startswith("info string a search is running already")
    said, start = engine.searched(Found(("e2e4",)), 0.0)
    assert (said, start.request.simulations) == (Say("bestmove e2e4"), 0)
    note, stop = engine.feed("go nodes 8", 0.0)
    assert stop == StopSearch()
    said, start = engine.searched(Found(("d2d4",)), 0.0)
    assert (said, start.request.simulations) == (Say("bestmove d2d4"), 8)


def test_stop_position_and_go_without_pauses_search_the_newest_position_and_answer_each_go(engine):
    start_of(engine, "go infinite")
    moves = ["d2d4", "d7d5", "c2c4", "e7e6"]
    for count in range(1, 5):
        engine.feed("stop", 0.0)
        engine.feed(f"position startpos moves {' '.join(moves[:count])}", 0.0)
        assert engine.feed("go infinite", 0.0) == []
    for count in range(1, 5):
        said, start = engine.searched(Found((f"a{count}a1",)), 0.0)
        assert said == Say(f"bestmove a{count}a1")
        assert (len(start.request.actions), start.request.simulations) == (count, int(count < 4))
    assert engine.searched(Found(("e2e4",)), 0.0) == []
    assert engine.feed("stop", 0.0) == [Say("bestmove e2e4")]


@pytest.mark.parametrize(
    "line",
    [
        "position",
        "position startpos e2e4",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position startpos moves e2e4 e2e4",
        TOO_LONG,
    ],
)
@pytest.mark.parametrize("is_loaded", [True, False])
def test_after_a_position_that_was_refused_go_gives_the_null_answer_until_there_is_another(line, is_loaded):
    engine = ready_engine() if is_loaded else new_engine()
    engine.feed("position startpos moves e2e4", 0.0)
    (refused,) = engine.feed(line, 0.0)
    reason, answer = engine.feed("go nodes 5", 0.0)
    assert refused.text.removeprefix("info string ") in reason.text
    assert answer == Say("bestmove (none)")
    assert len(engine.feed("go infinite", 0.0)) == 1, "only the reason, until stop"
    assert engine.feed("stop", 0.0) == [Say("bestmove (none)")]
    engine.feed("position startpos", 0.0)
    (order,) = engine.feed("go nodes 5", 0.0)
    assert isinstance(order, Start if is_loaded else Prepare)


def test_a_null_answer_waits_for_the_readyok_before_it():
    engine = new_engine()
    assert engine.feed("isready", 0.0) == [Prepare(Setup())]
    engine.feed("position nowhere", 0.0)
    assert engine.feed("go nodes 5", 0.0) == []
    ready, _, null = engine.prepared(Setup(), 0.0)
    assert (ready, null) == (Say("readyok"), Say("bestmove (none)"))


def test_searchmoves_that_are_not_legal_are_left_out_and_none_at_all_give_the_null_answer(engine):
    note, start = engine.feed("go nodes 5 searchmoves e2e4 e2e5 perft", 0.0)[1:]
    assert "'perft' is not legal" in note.text
    assert len(start.request.allowed) == 1
    engine.searched(Found(("e2e4",)), 0.0)
    assert engine.feed("go nodes 5 searchmoves e2e5", 0.0)[-1] == Say("bestmove (none)")


@pytest.mark.parametrize(
    "line", ["nodes abc", "perft 3", "depth 0", f"nodes {10**20}", "movetime", "mate -1"]
)
def test_a_go_whose_limit_cannot_be_used_makes_one_simulation_or_the_usual_number(line):
    engine = ready_engine()
    *notes, start = engine.feed(f"go {line}", 0.0)
    assert all(note.text.startswith("info string ") for note in notes)
    assert notes
    assert start.request.simulations == 1
    engine = ready_engine(most_nodes=800)
    assert engine.feed(f"go {line}", 0.0)[-1].request.simulations == 800


def test_pondering_takes_the_clock_from_the_ponderhit_on(engine):
    request = start_of(engine, "go ponder wtime 3030 btime 3030 movestogo 1")
    assert request.is_pondering
    (deadline,) = engine.feed("ponderhit", 100.0)
    assert deadline == SetDeadline(pytest.approx(102.7))
    assert engine.searched(Found(("e2e4",)), 0.0) == [Say("bestmove e2e4")]
    request = start_of(engine, "go ponder wtime 60000 btime 60000")
    assert (request.stop_when_proven, request.may_move_early) == (True, True)
    assert engine.searched(Found(("e2e4",)), 0.0) == []
    assert engine.feed("ponderhit", 0.0) == [Say("bestmove e2e4")], "the saved time is for later moves"
    start_of(engine, "go ponder nodes 5")
    assert engine.searched(Found(("e2e4",)), 0.0) == []
    assert engine.feed("ponderhit", 0.0) == [Say("bestmove e2e4")]


def test_other_weights_are_loaded_before_the_next_search_and_bad_ones_leave_the_old(engine):
    engine.feed("setoption name WeightsFile value nowhere", 0.0)
    assert engine.feed("go nodes 1", 0.0) == [Prepare(Setup("nowhere"))]
    note, start = engine.preparation_failed("no such file", 0.0)
    assert "no such file" in note.text
    assert isinstance(start, Start)
    assert engine.options.setup == Setup()


def test_quit_quits_and_a_new_game_forgets_the_tree(engine):
    engine.feed("ucinewgame", 0.0)
    assert start_of(engine, "go nodes 1").new_game
    engine.searched(Found(("e2e4",)), 0.0)
    assert engine.feed("quit", 0.0) == [Quit()]


def test_quit_ends_at_once_when_nothing_is_owed_and_cuts_an_endless_search_short():
    assert new_engine().feed("quit", 0.0) == [Quit()]
    engine = new_engine()
    engine.feed("go infinite", 0.0)
    assert engine.feed("quit", 0.0) == engine.feed("go nodes 9", 0.0) == []
    (start,) = engine.prepared(Setup(), 0.0)
    assert (start.request.simulations, start.request.seconds) == (1, None)
    engine = ready_engine()
    start_of(engine, "go nodes 800")
    assert engine.feed("quit", 0.0) == [StopSearch()]
    assert engine.searched(Found(("e2e4",)), 0.0) == [Say("bestmove e2e4"), Quit()]


@pytest.mark.parametrize("line", [line for line in HOSTILE if not line.startswith(("go", "position"))])
def test_a_hostile_line_is_answered_with_a_note_or_silence_and_changes_nothing(engine, line):
    said = engine.feed(line, 0.0)
    assert all(action.text.startswith("info string ") and "\n" not in action.text for action in said)
    assert start_of(engine, "go nodes 1") == Request(
        "", (), 5.0, simulations=1, stop_when_proven=True, may_move_early=True
    )


LINES = [
    *("stop", "ponderhit", "go nodes 4", "go infinite", "go ponder wtime 9", "isready", "ucinewgame", "uci"),
    *("position startpos moves e2e4", "setoption name Hash value 8", "setoption name Hash value 9"),
    *("go perft 3", "go movetime 1.5", "go searchmoves a1a9 e2e4 nodes", "go ponder depth 0"),
    "position startpos",
    *HOSTILE,
]


@pytest.mark.parametrize(("protocol", "game"), [(UCI, "chess"), (USI, "shogi")])
@given(
    events=st.lists(st.sampled_from([*LINES, "(searched)", "(prepared)", "(failed)"]), max_size=40),
    quits=st.booleans(),
)
def test_whatever_comes_every_go_gets_one_bestmove_and_every_isready_one_readyok(
    events, quits, protocol, game
):
    engine = new_engine(game, dialect=protocol)
    gos = said = asked = ready = 0
    searching, preparing, last = False, [], None
    for event in [*events, "quit" if quits else "stop", *["(prepared)", "stop", "(searched)"] * 44]:
        actions = []
        if event == "(searched)" and searching:
            searching = False
            actions = engine.searched(Found(("e2e4",)), 0.0)
        elif event == "(prepared)" and preparing:
            actions = engine.prepared(preparing.pop(), 0.0)
        elif event == "(failed)" and preparing:
            preparing.pop()
            actions = engine.preparation_failed("bad", 0.0)
        elif not event.startswith("("):
            asked += event == "isready"
            gos += event.split()[:1] == ["go"]
            actions = engine.feed(event, 1.0)
        for action in actions:
            assert last != Quit(), "nothing comes after it"
            last = action
            if isinstance(action, Start):
                assert not searching
                assert not preparing, "a search keeps its tree"
                searching = True
            elif isinstance(action, Prepare):
                assert not preparing
                preparing.append(action.setup)
            elif isinstance(action, Say):
                said += action.text.startswith("bestmove")
                ready += action.text == "readyok"
    assert (said, ready) == (gos, asked)
    assert (last == Quit()) is quits
