"""The pure parts of the UCI engine: lines, options, clocks, scores."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.play.orders import Options, Setup, SideClock, seconds_for_move
from azselfplay.play.thinker import cannot_be_overtaken
from azselfplay.play.uci_lines import (
    UCI,
    USI,
    BadCommand,
    Go,
    LastPosition,
    Position,
    SetOption,
    Word,
    parse,
    wdl_per_mille,
)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("uci\r", Word.HELLO),
        ("   ", None),
        ("setoption name Move Overhead value 50", SetOption("Move Overhead", "50")),
        ("setoption name WeightsFile value /a b/c", SetOption("WeightsFile", "/a b/c")),
        ("position startpos", Position("", ())),
        ("position fen 8/8 w - - 0 1 moves a1a2", Position("8/8 w - - 0 1", ("a1a2",))),
        ("go wtime -5 btime 9 winc 1", Go(wtime=0, btime=9, winc=1)),
        ("go searchmoves e2e4 d2d4 nodes 7 infinite", Go(("e2e4", "d2d4"), nodes=7, infinite=True)),
    ],
)
def test_lines_are_read_as_the_protocol_says(line, command):
    assert parse(line) == command


@pytest.mark.parametrize("line", ["joho", "position", "setoption x"])
def test_a_line_that_means_nothing_is_refused_with_a_reason(line):
    with pytest.raises(BadCommand, match=r"\w+"):
        parse(line)


@pytest.mark.parametrize(
    ("line", "go", "notes"),
    [
        ("go nodes", Go(), 2),
        ("go nodes abc", Go(), 2),
        ("go nodes -1", Go(), 2),
        (f"go nodes {10**20}", Go(), 2),
        ("go nodes 1.5", Go(), 2),
        ("go nodes infinite", Go(infinite=True), 1),
        ("go nodes abc wtime 900", Go(wtime=900), 1),
        ("go depth \u0663", Go(), 2),
        ("go depth 0", Go(), 1),
        ("go movestogo 3", Go(movestogo=3), 1),
        ("go perft 3", Go(), 2),
        ("go fast nodes 5 please", Go(nodes=5), 2),
        ("go ponder movetime soon", Go(ponder=True), 2),
        ("go movetime 1.5", Go(movetime=1), 0),
        ("go wtime -7.25 btime 60000.0", Go(wtime=0, btime=60000), 0),
        ("go nodes 5 nodes 7 infinite infinite", Go(nodes=7, infinite=True), 0),
        ("go searchmoves", Go(), 0),
    ],
)
def test_a_word_of_go_that_means_nothing_is_ignored_with_a_note(line, go, notes):
    found = parse(line)
    assert isinstance(found, Go)
    assert len(found.notes) == notes
    assert replace(found, notes=()) == go


@pytest.mark.parametrize("dialect", [UCI, USI], ids=["UCI", "USI"])
def test_every_option_is_announced_and_can_be_set_to_what_it_is(dialect):
    options = Options()
    lines = dialect.announced(options)
    assert [line.split(" type ")[0] for line in lines] == [
        f"option name {one.name}" for one in dialect.options
    ]
    for spec, line in zip(dialect.options, lines, strict=True):
        default = line.split(" default ")[1].split(" min ")[0].split(" var ")[0]
        assert dialect.changed(options, spec.name.upper(), default) == options


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("Hash", "0", "between"),
        ("Hash", "many", "number"),
        ("Ponder", "1", "true"),
        ("Backend", "tpu", "cuda"),
        ("Skill", "3", "unknown"),
        ("MultiPV", "9" * 50, "number"),
    ],
)
def test_options_out_of_range_are_refused(name, value, word):
    with pytest.raises(ValueError, match=word):
        UCI.changed(Options(), name, value)


SECONDS = st.floats(0, 1e4)


@given(SECONDS, st.floats(0, 100), st.integers(0, 200), st.floats(0, 100), st.floats(0, 10))
def test_thinking_never_takes_more_than_the_clock_less_the_overhead(
    remaining, increment, moves, byoyomi, overhead
):
    seconds = seconds_for_move(SideClock(remaining, increment, moves), overhead)
    assert 0 <= seconds <= max(0.0, remaining - overhead)
    seconds = seconds_for_move(SideClock(remaining, increment, moves, byoyomi), overhead)
    assert 0 <= seconds <= max(0.0, remaining - overhead) + max(0.0, byoyomi - overhead)


def test_a_game_played_by_the_clock_never_loses_on_time_and_uses_most_of_it():
    clock, overhead, lost = 10.0, 0.03, 0.02
    for _ in range(300):
        clock -= seconds_for_move(SideClock(clock, 0.1), overhead) + lost
        assert clock > 0
        clock += 0.1
    assert clock < 3


@pytest.mark.parametrize(
    ("visits", "simulations", "elapsed", "left", "is_enough"),
    [
        ([900, 10], 0, 0.0, 5.0, False),  # a kept tree, before the first batch
        ([900, 10], 8, 0.001, 5.0, False),  # its first batch shows no speed
        ([900, 10], 8, 4.9, 0.1, False),  # a few slow ones show none either
        ([900, 10], 400, 0.4, 5.0, False),  # only 7 % of the time has passed
        ([900, 10], 400, 1.0, 5.0, False),  # 2,000 more fit
        ([900, 10], 400, 4.0, 5.0, True),  # 500 more fit
        ([900, 400], 400, 4.0, 5.0, False),
        ([900, 400, 300], 800, 4.0, 0.0, True),
        ([400], 400, 4.0, 5.0, False),  # the other moves lose, but this one is not proven yet
        ([501], 500, 1.0, 0.0, True),
        ([], 500, 5.0, 5.0, False),
        ([250, 250], 500, 5.0, 0.0, False),
    ],
)
def test_a_search_ends_early_only_if_no_move_can_catch_up_at_the_speed_measured(
    visits, simulations, elapsed, left, is_enough
):
    assert cannot_be_overtaken(visits, simulations, elapsed, left) is is_enough


@given(st.floats(-1, 1), st.floats(0, 1))
def test_wdl_sums_to_a_thousand_and_has_the_value(value, draw):
    win, drawn, loss = wdl_per_mille(value, draw)
    assert win + drawn + loss == 1000
    assert min(win, drawn, loss) >= 0
    assert abs((win - loss) / 1000 - value) <= 0.0021


def test_a_position_that_extends_the_last_one_goes_on_and_a_bad_one_changes_nothing():
    last = LastPosition(get_game("chess"))
    last.set(Position("", ("e2e4",)))
    first = last.game_history
    last.set(Position("", ("e2e4", "e7e5")))
    assert last.game_history is first
    for bad in (Position("", ("e2e4", "e7e5", "e1e3")), Position("nonsense", ()), Position("", ("e2e5",))):
        with pytest.raises(ValueError, match=r"\w+"):
            last.set(bad)
    assert last.game_history.moves_text() == ["e2e4", "e7e5"]
    last.set(Position("", ("e2e4", "e7e5", "g1f3")))
    assert last.game_history.moves_text() == ["e2e4", "e7e5", "g1f3"]


def test_a_game_goes_on_after_a_draw_that_nobody_claims():
    last = LastPosition(get_game("chess"))
    last.set(Position("", ("g1f3", "g8f6", "f3g1", "f6g8") * 30))
    assert last.game_history.ply == 120
    assert len(last.game_history.legal_actions()) == 20


def test_a_device_that_is_no_choice_is_announced_as_one() -> None:
    options = Options(Setup(backend="cuda:1"))
    announced = UCI.announced(options)
    assert "option name Backend type combo default cuda:1 var cpu var cuda var cuda:1" in announced
    assert UCI.changed(options, "Backend", "cuda:1") == options, "a GUI may send it back"
