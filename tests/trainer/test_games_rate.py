"""Games an hour are those of the last minutes, and they tell when the disk will be full."""

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from azselfplay.host.metrics import Rate
from azselfplay.store.sqlite import Totals
from trainer.figures import RATE_APART, RATE_SECONDS, Figures, hours_until_full


@given(steps=st.lists(st.tuples(st.floats(0.0, 400.0), st.integers(0, 1000)), max_size=60))
def test_it_looks_back_no_further_than_needed(steps: list[tuple[float, int]]) -> None:
    """With a count every `RATE_APART` seconds it looks back `RATE_SECONDS` or a little more, in bounded
    memory."""
    now, games, rate = 0.0, 0, Rate(RATE_SECONDS, RATE_APART, 0, 0.0)
    for step, more in steps:
        now, games = now + step, games + more
        rate.note(games, now)
    assert len(rate._seen) <= RATE_SECONDS / RATE_APART + 2
    assert all(now - at < RATE_SECONDS for at, _ in list(rate._seen)[1:])


def test_a_run_that_becomes_faster_soon_shows_it() -> None:
    """A game a second for an hour, then two; the wait for the first game does not count."""
    rate, games = Rate(RATE_SECONDS, RATE_APART, 0, 0.0), 0
    for second in range(1000, 4600):
        games += 1
        rate.note(games, second)
    assert rate.per_second(games, 4599) == 1
    for second in range(4600, 4600 + int(RATE_SECONDS + RATE_APART)):
        games += 2
        rate.note(games, second)
    assert rate.per_second(games, second) == 2


def test_the_hours_until_the_disk_is_full_follow_from_the_size_of_the_games(tmp_path, monkeypatch) -> None:
    folder = SimpleNamespace(path=tmp_path, games=tmp_path / "games.db")
    folder.games.write_bytes(bytes(7000))
    run = SimpleNamespace(folder=folder, store=SimpleNamespace(totals=Totals(), with_records=10))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=700_000))
    assert hours_until_full(run, 100.0, keep_games=0) == 10.0
    assert hours_until_full(run, 100.0, keep_games=1011) == 10.0
    assert hours_until_full(run, 100.0, keep_games=1010) is None
    assert hours_until_full(run, 100.0, keep_games=5) is None
    assert hours_until_full(run, 0.0, keep_games=0) is None
    # Ten thousand games without their records take no room.
    run.store.totals = Totals(Counter(workers=10_010))
    assert hours_until_full(run, 100.0, keep_games=0) == 10.0
    # Imported games are kept besides those.
    run.store.totals = Totals(imported=3)
    assert hours_until_full(run, 100.0, keep_games=1008) == 10.0
    assert hours_until_full(run, 100.0, keep_games=1007) is None


def test_training_is_compared_with_the_games_of_the_last_hour() -> None:
    """A trainer that was fast enough for a week is told within the hour, and so is the end of it. An hour
    without games does not count."""
    figures, samples, allowed, now = Figures(0.0), 10**9, 10**9, 0.0

    def after(seconds: int, made: int, wanted: int = 10) -> float | None:
        """Let games allow `wanted` samples a second, while `made` are made."""
        nonlocal samples, allowed, now
        for _ in range(0, seconds, 60):
            samples, allowed, now = samples + 60 * made, allowed + 60 * wanted, now + 60
            turn = SimpleNamespace(samples=samples, allowed=allowed, more=True, figures=None)
            figures.on_turn(turn, now)  # type: ignore[arg-type]
            found = figures.training_share(now)
        return found

    assert after(540, 5) is None
    assert after(3600, 5) == 0.5
    assert after(3660, 10) == 1.0
    assert after(600, 50, wanted=0) is not None
    assert after(3600, 0, wanted=0) is None
    assert after(540, 5) is None
    assert after(60, 15) == 0.6
    figures.turn.more = False  # type: ignore[union-attr,misc]
    assert figures.training_share(now) is None, "training waits for games"
