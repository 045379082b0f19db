"""The GTP engine's state machine: its answers and orders, line by line, without a search behind it."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sgfmill import sgf

from azselfplay.games.go import GoRules
from azselfplay.play import thinker
from azselfplay.play.gtp import USUAL_SIMULATIONS, GtpEngine
from azselfplay.play.gtp_board import GoBoard
from azselfplay.play.gtp_commands import Desk
from azselfplay.play.orders import (
    Found,
    Line,
    Options,
    Prepare,
    Progress,
    Quit,
    Report,
    Request,
    Say,
    Setup,
    Start,
    StopSearch,
)

SETUP = Setup(game="go_5x5")


def engine_of(size: int | None = None, **options: object) -> GtpEngine:
    return GtpEngine(Desk(GoBoard(GoRules(5)), size), "test", Options(SETUP, **options))


def ready_engine(**options: object) -> GtpEngine:
    engine = engine_of(**options)
    assert engine.feed("clear_board", 0.0) == [Say("=\n"), Prepare(SETUP)]
    assert engine.prepared(SETUP, 0.0) == []
    return engine


@pytest.fixture
def engine() -> GtpEngine:
    return ready_engine()


def said(engine: GtpEngine, *lines: str) -> str:
    """Return the answer to the last of the lines, each of which is answered at once."""
    for line in lines:
        (order,) = engine.feed(line, 0.0)
        assert isinstance(order, Say)
        assert order.text.endswith("\n")
        assert "\n\n" not in order.text, "an empty line ends the answer"
    return order.text.rstrip()


def start_of(engine: GtpEngine, line: str, now: float = 0.0) -> Request:
    *_, start = engine.feed(line, now)
    assert isinstance(start, Start)
    return start.request


def test_an_answer_repeats_the_number_of_its_command_and_comments_are_no_commands():
    engine = engine_of()
    assert said(engine, "12 protocol_version") == "=12 2"
    assert said(engine, " \x01name\t# who") == "= azselfplay"
    assert engine.feed("# only this", 0.0) == engine.feed("  ", 0.0) == []
    assert said(engine, "known_command genmove") == "= true"
    assert said(engine, "known_command dance") == "= false"
    names = said(engine, "list_commands").removeprefix("= ").split("\n")
    assert {"play", "genmove", "lz-analyze", "loadsgf", "quit"} <= {*names}
    assert all(said(engine, f"known_command {name}") == "= true" for name in names)


def test_a_move_waits_for_the_network_and_is_played_on_the_board():
    engine = engine_of()
    assert engine.feed("1 genmove b", 0.0) == [Prepare(SETUP)]
    assert engine.feed("2 showboard", 0.0) == []
    assert not engine.takes_input
    (start,) = engine.prepared(SETUP, 7.0)
    assert (start.request.simulations, start.request.seconds) == (USUAL_SIMULATIONS, None)
    move, board = engine.searched(Found(("C3", "C2"), 12), 8.0)
    assert move.text == "=1 C3\n"
    assert board.text.startswith("=2 \n")
    assert "x" in board.text
    assert engine.takes_input
    assert said(engine, "undo") == "="
    assert said(engine, "undo").startswith("? cannot undo")


def test_colours_play_in_any_order_and_each_move_is_taken_back_alone():
    engine = engine_of()
    said(engine, "play b C3", "play b D3", "play w pass", "play white e1")
    board = engine.desk.board
    assert board.stones() == (["C3", "D3"], ["E1"])
    for stones in ((["C3", "D3"], []), (["C3", "D3"], []), (["C3"], []), ([], [])):
        assert said(engine, "undo") == "="
        assert board.stones() == stones


def test_a_pass_out_of_turn_does_not_end_the_game(engine):
    said(engine, "play b pass", "play b C3", "play b D3")
    assert not engine.desk.board.is_over
    assert said(engine, "play w pass", "play b pass", "genmove w") == "= pass"


def test_after_its_last_ply_the_engine_passes_and_says_why(engine: GtpEngine) -> None:
    points = [f"{column}{row}" for row in range(1, 6) for column in "ABCDE"][:-1]
    for point in points[:-1]:
        said(engine, f"play b {point}", "play w pass")
    # White captures all, so that the board is not as before.
    said(engine, f"play b {points[-1]}", "play w E5", "play b A1", "play w pass")
    assert engine.desk.board.game_history.ply == 50
    assert said(engine, "genmove b") == "= pass"
    assert "50 moves have been played" in said(engine, "lz-analyze w 10")


def test_at_its_longest_a_game_is_refused_more_moves(engine: GtpEngine, monkeypatch) -> None:
    said(engine, "play b A1", "play w B1")
    start_of(engine, "genmove b")
    monkeypatch.setattr(thinker, "MOST_MOVES", 2)
    assert engine.searched(Found(("C1",), 2), 1.0) == [Say("? illegal move: black cannot play C1\n")]
    assert said(engine, "play w C1") == "? a game has at most 2 moves here"
    assert said(engine, "undo") == "="


def test_a_ko_may_not_be_retaken_and_an_illegal_move_changes_nothing():
    engine = engine_of()
    said(
        engine, *(f"play {move}" for move in ("b B3", "b C2", "b C4", "w D2", "w D4", "w E3", "w C3", "b D3"))
    )
    assert said(engine, "play w C3").startswith("? illegal move")
    assert said(engine, "play b D3").startswith("? illegal move")
    assert said(engine, "play w A1", "play b A5", "play w C3") == "="


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("boardsize 20", "? unacceptable size"),
        ("boardsize 1", "? unacceptable size"),
        ("boardsize five", "? syntax error"),
        ("boardsize", "? syntax error"),
        ("komi 7.3", "? a komi of 7.3"),
        ("komi nan", "? syntax error"),
        ("komi 1e9", "? a komi of"),
        ("play b I3", "? invalid vertex"),
        ("play b C6", "? invalid vertex"),
        ("play b", "? syntax error"),
        ("play green C3", "? syntax error"),
        ("play b \u0663\u0663", "? invalid vertex"),
        ("genmove", "? syntax error"),
        ("genmove b now", "? syntax error"),
        ("lz-analyze b 10 dance 1", "? syntax error"),
        ("lz-analyze allow b A9 1", "? invalid vertex"),
        ("kata-analyze avoid", "? syntax error"),
        ("fixed_handicap 2", "? invalid number of stones"),
        ("set_free_handicap A1", "? bad vertex list"),
        ("set_free_handicap A1 A1", "? bad vertex list"),
        ("set_free_handicap A1 pass", "? bad vertex list"),
        ("time_settings 1 2", "? syntax error"),
        ("time_left b x 0", "? syntax error"),
        ("kata-set-rules chess", "? unknown rules"),
        ('kata-set-rules {"scoring":"TERRITORY"}', "? the rule 'scoring'"),
        ("kata-set-rules {", "? syntax error"),
        ("kata-set-rule ko SPIGHT", "? the rule 'ko'"),
        ("final_status_list sleepy", "? syntax error"),
        ("loadsgf /nonexistent/file.sgf", "? cannot load file"),
        ("undo", "? cannot undo"),
        ("99999999999999999999 name", "? unknown command"),
        ("7", "?7 syntax error"),
        ("line-of-more-than-65536-bytes", "? unknown command"),
        ("\u202e\U0001f600 " + "x" * 5000, "? unknown command"),
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_gets_an_error_and_changes_nothing(engine, line, answer):
    before = engine.desk.board.rules, engine.desk.board.stones(), list(engine.desk.clocks)
    assert said(engine, line).startswith(answer)
    assert (engine.desk.board.rules, engine.desk.board.stones(), engine.desk.clocks) == before
    assert start_of(engine, "genmove b").simulations == USUAL_SIMULATIONS


def test_a_network_of_one_size_refuses_other_boards_and_plays_other_komi():
    engine = engine_of(size=5)
    assert said(engine, "boardsize 9").startswith("? unacceptable size: the network plays 5 x 5 only")
    assert said(engine, "boardsize 5", "komi 24.5", "get_komi") == "= 24.5"
    assert engine.feed("genmove b", 0.0) == [Prepare(Setup(game="go_5x5_komi24.5"))]


def test_rules_that_change_are_prepared_again_and_the_stones_stay(engine):
    said(engine, "play b C3", "kata-set-rules new-zealand", "kata-set-rule suicide false")
    assert said(engine, "kata-get-rules").startswith('= {"ko":"SITUATIONAL","suicide":false,"scoring":"AREA"')
    said(engine, 'kata-set-rules {"ko":"SIMPLE","suicide":true,"whiteHandicapBonus":"0"}')
    assert engine.desk.board.rules == GoRules(5, superko="simple")
    said(engine, "kata-set-rule ko POSITIONAL")
    said(engine, "komi 0.5")
    assert engine.desk.board.stones() == (["C3"], [])
    wanted = Setup(game="go_5x5_komi0.5")
    assert engine.feed("genmove w", 0.0) == [Prepare(wanted)]
    (answer,) = engine.preparation_failed("no\nmemory", 0.0)
    assert answer == Say("? no memory\n")
    assert engine.feed("genmove w", 0.0) == [Prepare(wanted)]
    (start,) = engine.prepared(wanted, 0.0)
    assert len(start.request.actions) == 1


def test_handicap_stones_stand_where_the_specification_says_and_white_begins():
    engine = engine_of()
    assert said(engine, "boardsize 9", "fixed_handicap 5") == "= C3 G7 C7 G3 E5"
    assert engine.desk.board.to_move == 1
    assert said(engine, "fixed_handicap 2") == "? board not empty"
    assert said(engine, "undo").startswith("? cannot undo")
    assert said(engine, "boardsize 19", "place_free_handicap 40") == "= D4 Q16 D16 Q4 D10 Q10 K4 K16 K10"
    assert said(engine, "boardsize 5", "set_free_handicap A1 B2 C3", "final_score") == "= B+17.5"


def test_the_score_is_that_of_the_board_as_it_stands():
    engine = engine_of()
    assert said(engine, "final_score") == "= W+7.5"
    assert said(engine, "play b C3", "final_score") == "= B+17.5"
    assert said(engine, "komi 25", "final_score") == "= 0"
    assert said(engine, "play w A1", "final_status_list alive").split() == ["=", "C3", "A1"]
    assert said(engine, "final_status_list dead") == "="
    assert len(said(engine, "final_status_list dame").split()) == 1 + 23
    said(engine, "play b A2", "play b B1")  # takes the white stone
    assert len(said(engine, "final_status_list black_territory").split()) == 1 + 22
    assert said(engine, "final_status_list white_territory") == "="


OWNED = [1.0] * 10 + [0.0] * 5 + [-1.0] * 10
"""5 x 5: Black owns the two lowest rows, White the two highest."""


def test_a_network_that_knows_who_will_own_the_points_says_which_stones_are_dead():
    """It is asked about the position before any passes, and answers for the side to move there: White."""
    engine = GtpEngine(Desk(GoBoard(GoRules(5)), asks_network=True), "test", Options(SETUP))
    moves = ["b B2", "w D4", "b E5", "w D1", "b C3", "w pass"]
    said(engine, *(f"play {move}" for move in moves))
    assert engine.feed("final_score", 0.0) == [Prepare(SETUP)]
    (start,) = engine.prepared(SETUP, 0.0)
    assert (start.request.ownership, len(start.request.actions)) == (True, 5)
    found = Found(("C4",), ownership=tuple(-one for one in OWNED))
    assert engine.searched(found, 0.0) == [Say("= W+6.5\n")]
    answers = {"dead": "E5\nD1", "alive": "C3 B2\nD4", "white_territory": "", "seki": ""}
    for status, answer in answers.items():
        assert isinstance(engine.feed(f"final_status_list {status}", 0.0)[-1], Start)
        (told,) = engine.searched(found, 0.0)
        assert told.text.rstrip() == f"= {answer}".rstrip()
    engine.feed("final_status_list sleepy", 0.0)
    assert engine.searched(found, 0.0)[0].text.startswith("? syntax error")


def test_a_stone_is_as_dead_as_its_chain():
    board = GoBoard(GoRules(3))
    board.set_up(("A1", "A2", "C3"), ("C1",), 0)
    ownership = [-1.0, 0.0, 0.51, -0.2, 0.0, 0.0, 0.0, 0.0, -0.5]
    assert board.dead(ownership) == (["A1", "A2"], ["C1"])
    assert board.dead(()) == ([], [])


def test_ownership_is_told_by_rows_from_the_upper_left_after_everything_else(engine):
    assert start_of(engine, "kata-analyze b 50 ownership true rootInfo true").ownership
    line = Line(("C3",), 9, 0.5, 0.25)
    (told,) = engine.reported(Report((line,), Progress(0.0, 9, 1, 1), ownership=tuple(OWNED)))
    assert told.text.split(" ownership ")[1].split() == ["-1.0000"] * 10 + ["0.0000"] * 5 + ["1.0000"] * 10
    (told,) = engine.reported(Report((line,), Progress(0.0, 9, 1, 1)))
    assert "ownership" not in told.text


def test_a_clock_limits_the_search_and_goes_on_without_time_left(engine):
    said(engine, "time_settings 60 10 5")
    request = start_of(engine, "genmove b", 100.0)
    assert request.simulations == 0
    assert request.may_move_early
    assert 3.5 < request.seconds < 4.0
    engine.searched(Found(("C3",), 12), 170.0)
    assert engine.desk.clocks[0].remaining == pytest.approx(0.0)
    said(engine, "time_left w 8 4")
    assert start_of(engine, "genmove w", 200.0).seconds < 2.0
    engine.searched(Found(("C2",), 7), 201.0)
    assert (engine.desk.clocks[1].remaining, engine.desk.clocks[1].stones) == (7.0, 3)
    for begins in ("clear_board", "boardsize 5"):
        said(engine, begins)
        assert [clock.remaining for clock in engine.desk.clocks] == [60.0, 60.0], "another game has begun"
    said(engine, "time_settings 0 1 0")
    assert start_of(engine, "genmove b").seconds is None


@pytest.mark.parametrize(("stones", "saves"), [(0, True), (2, True), (1, False)])
def test_time_is_saved_unless_a_new_period_begins_with_the_next_move(engine, stones, saves):
    said(engine, "time_settings 60 10 5", f"time_left b 9 {stones}")
    assert start_of(engine, "genmove b").may_move_early is saves


SGF = "(;GM[1]SZ[5]KM[0.5]AB[cc][dd]AW[aa];W[ee];B[];W[ab](;B[ba])(;B[ca]))"


def test_a_game_is_loaded_up_to_the_move_before_the_one_named(tmp_path):
    file, engine = tmp_path / "game.sgf", engine_of(size=5)
    file.write_text(SGF)
    assert said(engine, f"loadsgf {file}", "get_komi") == "= 0.5"
    assert [{*one} for one in engine.desk.board.stones()] == [{"C3", "D2", "B5"}, {"A5", "A4", "E1"}]
    assert said(engine, f"loadsgf {file} 2") == "="
    assert {*engine.desk.board.stones()[1]} == {"A5", "E1"}
    assert engine.desk.board.to_move == 0
    assert said(engine, "undo") == "="
    assert {*engine.desk.board.stones()[1]} == {"A5"}


@pytest.mark.parametrize(
    "text", ["(;SZ[9])", "(;SZ[5]KM[3.3])", "(;SZ[5];B[aa];W[aa])", "(;SZ[5]RU[Japanese])", "(" * 5000]
)
def test_a_file_that_cannot_be_used_changes_nothing(tmp_path, text):
    file, engine = tmp_path / "game.sgf", engine_of(size=5)
    file.write_text(text)
    said(engine, "play b C3")
    assert said(engine, f"loadsgf {file}").startswith("?")
    assert said(engine, f"loadsgf {tmp_path}").startswith("? cannot load file")
    assert engine.desk.board.stones() == (["C3"], [])


def test_the_game_is_printed_and_sgfmill_reads_it_back(tmp_path):
    file, engine = tmp_path / "a game.sgf", engine_of(size=5)
    said(engine, "komi 0.5", "set_free_handicap B2 D4", "play w C3", "play w C4", "play b pass")
    text = said(engine, "7 printsgf").removeprefix("=7 ")
    assert said(engine, f'printsgf "{file}"') == "="
    assert file.read_text().strip() == text
    found = sgf.Sgf_game.from_string(text)
    assert (found.get_size(), found.get_komi()) == (5, 0.5)
    assert found.get_root().get_setup_stones() == ({(1, 1), (3, 3)}, set(), set())
    moves = [node.get_move() for node in found.get_main_sequence()[1:]]
    assert moves == [("w", (2, 2)), ("b", None), ("w", (3, 2)), ("b", None)]
    board, again = engine.desk.board, engine_of(size=5)
    said(again, f"loadsgf {file}")
    assert again.desk.board.rules == board.rules
    assert again.desk.board.game_history.state.tolist() == board.game_history.state.tolist()
    for path in ("/dev/null", tmp_path, tmp_path / "no" / "a.sgf", f"{'a' * 300}.sgf"):
        assert said(engine, f"printsgf {path}").startswith("? cannot write file: ")


REPORT = Report((Line(("C3", "C2"), 30, 0.5, 0.25), Line(("pass",), 10, -0.5, 0.05)), Progress(1.0, 40, 2, 4))


def test_a_stream_of_analysis_tells_moves_until_anything_comes(engine):
    begun, start = engine.feed("3 lz-analyze b 100", 0.0)
    assert begun == Say("=3")
    assert (start.request.simulations, start.request.report_seconds) == (0, 1.0)
    assert not start.request.stop_when_proven
    (line,) = engine.reported(REPORT)
    assert line.text == (
        "info move C3 visits 30 winrate 7500 prior 2500 order 0 pv C3 C2 "
        "info move pass visits 10 winrate 2500 prior 500 order 1 pv pass"
    )
    assert engine.feed("4 name", 0.0) == [StopSearch()]
    assert engine.searched(Found(("C3",), 12), 0.0) == [Say(""), Say("=4 azselfplay\n")]
    assert engine.desk.board.is_empty


def test_a_move_with_analysis_is_played_when_it_is_found_whatever_comes_before(engine):
    begun, _ = engine.feed("genmove_analyze b 50", 0.0)
    assert begun == Say("=")
    assert engine.feed("showboard", 0.0) == []
    move, board = engine.searched(Found(("C3",), 12), 0.0)
    assert move == Say("play C3\n")
    assert "x" in board.text
    start_of(engine, "kata-genmove_analyze w 50")
    assert engine.searched(Found(("C2",), 7), 0.0) == [Say("play C2\n")]
    assert engine.desk.board.stones() == (["C3"], ["C2"])


def test_analysis_looks_only_at_the_moves_that_are_allowed(engine):
    assert start_of(engine, "lz-analyze b 10 allow b A1,B1 3").allowed == (0, 1)
    engine.feed("stop", 0.0)
    engine.searched(Found(("A1",), 0), 0.0)
    assert len(start_of(engine, "lz-analyze w avoid w pass,A1 1 avoid b B1 1").allowed) == 24


def test_a_lost_game_is_given_up_where_that_is_wanted_and_no_stone_is_played():
    engine = ready_engine(resign_percent=5)
    start_of(engine, "genmove b")
    assert engine.searched(Found(("C3",), 12, value=-0.95), 0.0) == [Say("= resign\n")]
    start_of(engine, "reg_genmove b")
    assert engine.searched(Found(("C3",), 12, value=-0.5), 0.0) == [Say("= C3\n")]
    assert engine.desk.board.is_empty


def test_quit_waits_for_the_answers_before_it_and_ends_a_stream():
    engine = ready_engine()
    start_of(engine, "genmove b")
    assert engine.feed("quit", 0.0) == []
    assert engine.searched(Found(("C3",), 12), 0.0) == [Say("= C3\n"), Say("=\n"), Quit()]
    engine = ready_engine()
    start_of(engine, "lz-analyze")
    assert engine.feed("quit", 0.0) == [StopSearch()]
    assert engine.searched(Found(("C3",), 12), 0.0) == [Say(""), Say("=\n"), Quit()]
    assert engine.feed("name", 0.0) == []


LINES = [
    *("genmove b", "genmove w", "lz-analyze 10", "kata-genmove_analyze b", "play b A1", "undo", "komi 0.5"),
    *("boardsize 3", "boardsize 5", "clear_board", "final_score", "stop", "", "dance", "reg_genmove w"),
    *("time_settings 9 9 9", "time_left b 1 1", "set_free_handicap A1 B2", "kata-set-rules new-zealand"),
]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*LINES, "(searched)", "(prepared)", "(failed)"]), max_size=30))
def test_whatever_comes_every_command_gets_one_answer_in_order(events):
    engine = engine_of()
    running, preparing, sent, text = deque(), deque(), 0, ""
    for event in [*events, *["stop", "(prepared)", "(searched)"] * 40, "quit", "(prepared)", "(searched)"]:
        orders = []
        if event == "(searched)" and running:
            running.popleft()
            action = int(engine.desk.board.turned_to(engine._task.colour)[1][0])  # any legal move
            move = engine.desk.board.game_history.game.notation.action_to_text(None, action)
            orders = engine.searched(Found((move,), action), 2.0)
        elif event == "(prepared)" and preparing:
            assert not running, "a search keeps its tree"
            orders = engine.prepared(preparing.popleft(), 1.0)
        elif event == "(failed)" and preparing:
            preparing.popleft()
            orders = engine.preparation_failed("bad", 1.0)
        elif not event.startswith("("):
            sent += event != ""
            orders = engine.feed(f"{sent} {event}" if event else "", 1.0)
        for order in orders:
            if isinstance(order, Start):
                assert not running
                running.append(order)
            elif isinstance(order, Prepare):
                assert not preparing
                preparing.append(order.setup)
            elif isinstance(order, Say):
                text += order.text + "\n"
    answers = [part for part in text.split("\n\n") if part.strip()]
    heads = [part.lstrip("\n").split()[0][1:] for part in answers]
    assert heads == [str(number) for number in range(1, sent + 1)]
