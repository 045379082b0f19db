"""The parts of the GTP engine, and which games a network can play."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.games.go import GoRules
from azselfplay.host.exits import Fatal
from azselfplay.play.gtp_board import GoBoard, handicap_points
from azselfplay.play.gtp_commands import Desk, GtpClock, clock_of
from azselfplay.play.gtp_lines import GtpError, Wanted, kata_line
from azselfplay.play.nets import check_fits, load_net
from azselfplay.play.orders import Line, Report, seconds_for_move
from net.create import create

OVERHEAD, LOST = 0.1, 0.05
"""Seconds: the overhead that the engine assumes for a move beside thinking, and the real overhead."""


def time_left(clock: GtpClock) -> float:
    """Return the seconds of thinking after which the next move would lose on time."""
    return clock.remaining + (0.0 if clock.stones else clock.period if clock.period_stones else 0.0)


@given(st.integers(0, 600), st.integers(1, 60), st.integers(1, 25))
def test_a_game_played_by_its_own_clock_is_never_lost_on_time(main, period, stones):
    clock = clock_of(main, 4.0 * period, stones)
    assert clock is not None
    for _ in range(100):
        seconds = seconds_for_move(clock.for_move(), OVERHEAD) + LOST
        assert seconds <= time_left(clock) or clock.for_move().remaining < OVERHEAD
        clock = clock.after(seconds)


def test_periods_begin_when_the_main_time_ends_and_after_their_stones():
    clock = clock_of(10.0, 30.0, 3)
    assert clock == GtpClock(10.0, 30.0, 3)
    assert clock.after(4.0) == GtpClock(6.0, 30.0, 3)
    late = clock.after(15.0)
    assert late == GtpClock(25.0, 30.0, 3, 2)
    assert late.after(5.0).after(5.0) == GtpClock(30.0, 30.0, 3, 3)
    assert clock_of(0.0, 30.0, 0) is None


@pytest.mark.parametrize("main", [0.0, 5.0, 60.0])
def test_no_period_of_japanese_byo_yomi_is_lost_in_a_hundred_moves(main: float) -> None:
    desk = Desk(GoBoard(GoRules()))
    desk.answer("kgs-time_settings", ("byoyomi", f"{main:g}", "10", "3"))
    clock, spent = desk.clocks[0], 0.0
    for _ in range(100):
        seconds = seconds_for_move(clock.for_move(), 0.05) + 0.04  # the way to the controller
        assert seconds > 1 or main > 0
        clock, spent = clock.after(seconds), spent + seconds
        assert clock.stones in (0, 3)
    assert spent > main + 500
    assert clock.after(25.0).stones == 1


def test_the_systems_of_kgs_are_those_of_time_settings_or_japanese() -> None:
    desk = Desk(GoBoard(GoRules()))
    for words, clock in (
        ("none", None),
        ("absolute 60", GtpClock(60.0)),
        ("canadian 60 30 5", GtpClock(60.0, 30.0, 5)),
        ("byoyomi 0 30 5", GtpClock(30.0, 30.0, 5, 5, is_japanese=True)),
        ("byoyomi 600 30 0", GtpClock(600.0)),
    ):
        assert desk.answer("kgs-time_settings", tuple(words.split())) == ""
        assert desk.clocks == [clock, clock]
    for wrong in ("", "absolute", "byoyomi 10", "fischer 1 2", "none 5"):
        with pytest.raises(GtpError, match="syntax error"):
            desk.answer("kgs-time_settings", tuple(wrong.split()))


def test_the_root_s_figures_are_of_all_moves_however_few_are_shown() -> None:
    report = Report((Line(("A1",), 3, 1.0, 0.5), Line(("B1",), 1, 0.0, 0.5)))
    text = kata_line(report, Wanted(most=1, root_info=True))
    assert text.endswith("order 0 pv A1 rootInfo visits 4 utility 0.750000 winrate 0.875000")


@given(st.integers(7, 19), st.integers(2, 9))
def test_handicap_points_differ_and_stand_alike_seen_from_both_sides(size, count):
    try:
        points = handicap_points(size, count)
    except GtpError:
        assert count > 4
        assert size % 2 == 0 or size == 7
        return
    assert len({*points}) == len(points) == count
    columns = sorted("ABCDEFGHJKLMNOPQRST".index(point[0]) for point in points)
    if count != 3:
        assert columns == sorted(size - 1 - column for column in columns)


def test_a_network_plays_its_board_with_other_komi_but_no_other_board(tmp_path: Path):
    file = tmp_path / "net.safetensors"
    create("go_5x5", 0, "1x8", 0, file)
    net = load_net(file, threads=1)
    try:
        check_fits(net, get_game("go_5x5_komi24.5_situational"))
        with pytest.raises(Fatal, match=r"plays go_5x5 only: its layers have weights for each cell of 5 x 5"):
            check_fits(net, get_game("go_7x7"))
        with pytest.raises(Fatal, match="is a network for go_5x5, not chess"):
            check_fits(net, get_game("chess"))
    finally:
        net.close()
