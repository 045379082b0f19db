"""The watch over evaluators: silence in each phase, and a front that stood still itself."""

import pytest

from server.evaluator_watch import LOADING, UP, EvaluatorWatch, Watched, WatchTimes

TIMES = WatchTimes(start=300.0, load=600.0, reload=120.0, silence=60.0, held_up=10.0)


@pytest.fixture
def watch() -> EvaluatorWatch:
    return EvaluatorWatch(TIMES)


def ticks(watch: EvaluatorWatch, first: float, last: float) -> list[tuple[float, tuple[int, str]]]:
    """Return the kills at each second from `first` to `last`."""
    seconds = range(int(first), int(last) + 1)
    return [(float(now), said) for now in seconds for said in watch.tick(float(now))]


def test_one_that_never_becomes_ready_is_killed_again_and_again(watch: EvaluatorWatch) -> None:
    watch.started(0, 0.0)
    reason = "starting, and silent for 301 s"
    assert ticks(watch, 0, 700) == [(301.0, (0, reason)), (602.0, (0, reason))]
    watch.started(0, 700.0)
    assert ticks(watch, 701, 1000) == []


def test_one_that_loads_has_longer_than_one_that_works(watch: EvaluatorWatch) -> None:
    """Answers from before do not prolong the loading."""
    for first in (0, 1):
        watch.ready(first, 0.0)
        watch.loading(first, 0.0)
    assert ticks(watch, 0, 500) == []
    watch.alive(1, 500.0)
    assert ticks(watch, 501, 600) == []
    watch.loaded(0, 600.0)
    kills = [(601.0, (1, "loading weights, and silent for 601 s")), (661.0, (0, "up, and silent for 61 s"))]
    assert ticks(watch, 601, 661) == kills


def test_any_message_shows_that_a_working_one_is_there(watch: EvaluatorWatch) -> None:
    watch.ready(0, 0.0)
    for now in range(0, 1000, 60):
        assert ticks(watch, now, now) == []
        watch.alive(0, float(now))
        assert ticks(watch, now + 1, now + 59) == []


def test_a_process_that_is_gone_is_not_watched(watch: EvaluatorWatch) -> None:
    watch.started(0, 0.0)
    watch.ended(0)
    watch.alive(0, 1.0)
    assert ticks(watch, 0, 1000) == []


def test_a_front_that_stood_still_does_not_take_it_for_the_silence_of_others(watch: EvaluatorWatch) -> None:
    watch.ready(0, 0.0)
    assert ticks(watch, 0, 50) == []
    assert watch.tick(250.0) == []
    assert ticks(watch, 251, 261) == [(261.0, (0, "up, and silent for 61 s"))]


def test_silence_is_told_of_evaluators_that_work_or_load(watch: EvaluatorWatch) -> None:
    watch.started(0, 0.0)
    watch.ready(1, 0.0)
    watch.alive(1, 5.0)
    watch.loading(2, 10.0)
    silences = {1: (25.0, Watched(UP, 5.0, 60.0)), 2: (20.0, Watched(LOADING, 10.0, 600.0))}
    assert watch.silences(30.0) == silences


def test_an_evaluator_that_hangs_is_found_however_often_weights_are_published(watch: EvaluatorWatch) -> None:
    watch.ready(0, 0.0)
    kills = []
    for now in range(30, 1000, 30):
        watch.loading(0, float(now))
        kills += ticks(watch, now + 1, now + 29)
    assert kills[0] == (631.0, (0, "loading weights, and silent for 601 s"))


def test_one_that_hangs_has_less_time_for_more_weights_of_a_network_that_it_has(watch) -> None:
    """Its time counts from its last message: it hung before it was told to load."""
    watch.ready(0, 0.0)
    watch.loading(0, 0.0)
    watch.loaded(0, 100.0)
    watch.loading(0, 130.0, knows=True)
    assert watch.silences(140.0) == {0: (40.0, Watched(LOADING, 100.0, 120.0))}
    watch.loading(0, 160.0, knows=True)
    assert ticks(watch, 160, 221) == [(221.0, (0, "loading weights, and silent for 121 s"))]


def test_the_next_of_two_loads_has_its_own_time(watch: EvaluatorWatch) -> None:
    watch.ready(0, 0.0)
    watch.loading(0, 0.0)
    watch.loading(0, 300.0)
    watch.loaded(0, 500.0, more=True)
    assert watch.is_loading(0)
    assert ticks(watch, 501, 1100) == []
    watch.loaded(0, 1100.0)
    assert not watch.is_loading(0)
