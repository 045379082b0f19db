"""Where USI differs from UCI: the state machine, line by line, without a search behind it."""

import pytest
from test_uci_machine import start_of

from azselfplay.games import get_game
from azselfplay.play.orders import (
    Found,
    Line,
    Options,
    Order,
    Prepare,
    Progress,
    Report,
    Say,
    Setup,
    StopSearch,
)
from azselfplay.play.uci import UciEngine
from azselfplay.play.uci_lines import USI, Go, Position, Word, parse

SETUP = Setup(game="shogi")


def engine_of(**options: object) -> UciEngine:
    return UciEngine(get_game("shogi"), "test", Options(SETUP, **options), dialect=USI)


def ready_engine(**options: object) -> UciEngine:
    engine = engine_of(**options)
    assert engine.feed("isready", 0.0) == [Prepare(SETUP)]
    assert engine.prepared(SETUP, 0.0) == [Say("readyok")]
    return engine


def texts(orders: list[Order]) -> list[str]:
    return [order.text for order in orders]


def test_usi_is_answered_with_options_without_blanks_in_their_names():
    lines = texts(engine_of().feed("usi", 0.0))
    assert (lines[0], lines[-1]) == ("id name test", "usiok")
    options = [line for line in lines if line.startswith("option")]
    assert all(line.split()[3] == "type" for line in options)
    assert any(line.startswith("option name USI_Ponder type check") for line in options)
    (note,) = texts(engine_of().feed("uci", 0.0))
    assert note == "info string unknown command 'uci'"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("usinewgame", Word.NEW_GAME),
        ("gameover lose", Word.GAME_OVER),
        ("go mate infinite", Word.NO_MATE),
        ("position sfen 9/9 b - 1 moves 7g7f", Position("9/9 b - 1", ("7g7f",))),
        ("go btime 1 wtime 2 byoyomi 3 ponder", Go(btime=1, wtime=2, byoyomi=3, ponder=True)),
    ],
)
def test_lines_are_read_as_the_protocol_says(line, command):
    assert parse(line, USI) == command


def test_black_moves_first_and_its_clock_is_btime():
    engine = ready_engine()
    assert start_of(engine, "go btime 0 wtime 600000 byoyomi 1030").seconds == pytest.approx(1.0)
    engine.searched(Found(("7g7f",)), 0.0)
    engine.feed("position startpos moves 7g7f", 0.0)
    assert start_of(engine, "go btime 600000 wtime 0 byoyomi 2030").seconds == pytest.approx(2.0)
    engine.searched(Found(("3c3d",)), 0.0)
    assert start_of(engine, "go btime 0 wtime 60000 binc 0 winc 1000").seconds > 2


def test_seconds_of_byoyomi_are_used_up_because_no_later_move_gets_them():
    engine = ready_engine()
    assert not start_of(engine, "go btime 0 wtime 0 byoyomi 1030").may_move_early
    engine.searched(Found(("7g7f",)), 0.0)
    assert start_of(engine, "go btime 60000 wtime 0 byoyomi 1030").may_move_early


def test_a_position_is_given_as_sfen_and_drawn():
    engine = ready_engine()
    sfen = "8l/1l+R2P3/p2pBG1pp/kps1p4/Nn1P2G2/P1P1P2PP/1PS6/1KSG3+r1/LN2+p3L w Sbgn3p 124"
    engine.feed(f"position sfen {sfen}", 0.0)
    assert texts(engine.feed("d", 0.0))[-1] == f"Sfen: {sfen}"
    (note,) = texts(engine.feed("position sfen 9/9/9 b - 1", 0.0))
    assert note.startswith("info string ")


def test_the_end_of_a_game_is_said_as_resign_or_win():
    engine = ready_engine(resign_percent=5)
    for found, line in (
        (Found((), value=-1.0), "bestmove resign"),
        (Found((), value=1.0, claim="declaration"), "bestmove win"),
        (Found(("7g7f", "3c3d"), value=-0.5), "bestmove 7g7f ponder 3c3d"),
        (Found(("7g7f", "3c3d"), value=-0.95), "bestmove resign"),
    ):
        assert start_of(engine, "go nodes 9").claims == {"declaration"}
        assert engine.searched(found, 0.0) == [Say(line)]


def test_the_null_answer_is_neither_a_move_nor_resigning_nor_a_claim():
    engine = ready_engine(resign_percent=50)
    engine.feed("position sfen 9/9/9 b - 1", 0.0)
    reason, answer = texts(engine.feed("go btime 0 wtime 0 byoyomi 1000", 0.0))
    assert "9 ranks" in reason
    assert answer == "bestmove none"
    engine.feed("position startpos", 0.0)
    assert texts(engine.feed("go nodes 5 searchmoves 7g7e", 0.0))[-1] == "bestmove none"


def test_mates_are_counted_in_plies():
    engine = ready_engine()
    report = Report(
        (Line(("1a1b",), 9, 1.0, 0.5, 3), Line(("1a2a",), 9, -1.0, 0.5, -4)), Progress(1.0, 9, 2, 3)
    )
    first, second = texts(engine.reported(report))
    assert "multipv 1 score mate 3 nodes 9" in first
    assert "multipv 2 score mate -4 nodes 9" in second


def test_a_search_for_mates_is_not_implemented_and_the_end_of_a_game_stops_a_search():
    engine = ready_engine()
    assert engine.feed("go mate 5000", 0.0) == [Say("checkmate notimplemented")]
    assert engine.feed("gameover win", 0.0) == []
    start_of(engine, "go ponder btime 0 wtime 0 byoyomi 1000")
    assert engine.feed("gameover draw", 0.0) == [StopSearch()]
    assert engine.searched(Found(("7g7f",)), 0.0) == [Say("bestmove 7g7f")]
