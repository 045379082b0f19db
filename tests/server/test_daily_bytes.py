"""Stored bytes per day and key: a key that has used its bytes is told when to come again, and nothing is
lost."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.daily_bytes import ASK_AGAIN, DAY, SAVE_SECONDS, DailyBytes, DailyFile

NOON = 20_000.5 * DAY


def test_a_key_over_its_bytes_waits_for_the_next_day_and_others_do_not() -> None:
    daily = DailyBytes(most=1000)
    assert daily.refusal("a", 900, 0, NOON) is None
    daily.stored("a", 900, NOON)
    reason, seconds = daily.refusal("a", 101, 0, NOON) or ("", 0)
    assert reason.startswith(
        "over_quota: the key 'a' has had its 0.000953674 MiB of games a day; there is room"
    )
    assert seconds == ASK_AGAIN
    assert daily.refusal("a", 101, 0, NOON + DAY / 2 - 60) == (reason, 60)
    assert daily.refusal("a", 100, 0, NOON) is None
    assert daily.refusal("b", 1000, 0, NOON) is None
    assert daily.refusal("", 10**9, 10**9, NOON) is None
    assert daily.refusal("a", 101, 0, NOON + DAY / 2) is None
    assert daily.today(NOON + DAY / 2) == {}


def test_games_on_their_way_count_and_a_first_game_is_taken_however_long_it_is() -> None:
    daily = DailyBytes(most=1000)
    assert daily.refusal("a", 5000, 0, NOON) is None
    assert daily.refusal("a", 501, 500, NOON) is not None
    assert daily.refusal("a", 500, 500, NOON) is None
    assert DailyBytes().refusal("a", 10**12, 10**12, NOON) is None


def test_a_clock_that_is_set_back_begins_no_day() -> None:
    daily = DailyBytes(most=1000)
    daily.stored("a", 1000, NOON)
    assert daily.refusal("a", 1, 0, NOON - DAY) is not None
    assert daily.refusal("a", 1, 0, NOON) is not None
    assert daily.today(NOON - 3 * DAY) == {"a": 1000}


def test_a_clock_that_had_been_years_ahead_leaves_nobody_without_a_next_day() -> None:
    daily = DailyBytes(most=1000)
    daily.stored("a", 1000, NOON + 3650 * DAY)
    assert daily.refusal("a", 1, 0, NOON) is not None
    assert daily.refusal("a", 1, 0, NOON + DAY) is None


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 400), st.sampled_from([0, 1, DAY // 3])))
)
def test_nobody_has_more_stored_a_day_than_is_allowed(games: list[tuple[str, int, int]]) -> None:
    """No game is sent back while it fits."""
    daily, stored, now = DailyBytes(most=1000), dict[tuple[str, float], int](), NOON
    for key, size, seconds in games:
        now += seconds
        used = stored.get((key, now // DAY), 0)
        fits = used + size <= 1000
        assert (daily.refusal(key, size, 0, now) is None) == fits
        if fits:
            daily.stored(key, size, now)
            stored[key, now // DAY] = used + size
    assert daily.today(now) == {key: size for (key, day), size in stored.items() if day == now // DAY}


def test_the_day_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "stored_today.json"

    def begun() -> tuple[DailyBytes, DailyFile]:
        daily = DailyBytes(most=1000)
        file = DailyFile(path, daily)
        file.load()
        return daily, file

    daily, file = begun()
    assert file.due(0.0) is None, "nobody has a key"
    daily.stored("a", 600, NOON)
    file.write(file.due(0.0))
    daily.stored("a", 300, NOON)
    assert file.due(SAVE_SECONDS - 1.0) is None
    assert begun()[0].today(NOON) == {"a": 600}
    file.write(file.due(1.0, at_once=True))
    again, file = begun()
    assert again.refusal("a", 101, 0, NOON) is not None
    assert begun()[0].today(NOON + DAY) == {}
    again.today(NOON + DAY)
    file.write(file.due(100.0))
    assert path.read_text() == '{"day": 20001, "stored": {}}'


def test_a_damaged_file_is_no_reason_not_to_serve(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, daily = tmp_path / "stored_today.json", DailyBytes()
    for text in (
        "",
        "[]",
        '{"day": 1, "stored": [3]}',
        '{"day": 1, "stored": {"a": "x"}}',
        '{"day": Infinity, "stored": {}}',
    ):
        path.write_text(text)
        caplog.clear()
        DailyFile(path, daily).load()
        assert "begin at 0" in caplog.text
    daily.stored("a", 1, NOON)
    with caplog.at_level(logging.WARNING):
        file = DailyFile(tmp_path / "none" / "x.json", daily)
        for second in range(0, 30, 10):
            file.write(file.due(second))
    assert caplog.text.count("cannot be written") == 1
