"""Every player gets a share, together they fill the devices, and idle players take nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.batching.queue import LEAST_GAMES, MOST_GAMES
from protocol.credits import CHANGE_SECONDS, LEAST_GRANT, Credits
from server.leaves import MAX_QUEUED_ROWS
from server.shares import IDLE_REVISIONS, REVISE_SECONDS, SPARE_CREDITS, Share, Shares, effective_number

GPU = 5 * 512
"""Leaves that a GPU needs at once: three batches on it, one queued, one being searched."""


def new_shares(local_workers: int = 0, fixed_games: int = 0) -> Shares:
    return Shares(Credits(MAX_QUEUED_ROWS, minimum=LEAST_GRANT), local_workers, fixed_games)


@pytest.fixture
def shares() -> Shares:
    return new_shares()


def played(shares: Shares, sessions: range, needed: int, now: float) -> dict[int, Share]:
    """Let all of `sessions` play until nothing changes; return what each was told last."""
    told: dict[int, Share] = {}
    while True:
        for session in sessions:
            shares.answered(session, 1000)
        news = dict(shares.revise(needed, now))
        if not news and now > 10 * REVISE_SECONDS:
            return told
        told |= news
        now += REVISE_SECONDS


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_thousand_workers_get_a_share_each(gpus: int) -> None:
    shares, needed = new_shares(), gpus * GPU
    first = [shares.join(session, needed) for session in range(1000)]
    assert all(share is not None and share.credits >= LEAST_GRANT for share in first)
    assert max(share.games for share in first if share) <= MOST_GAMES
    told = played(shares, range(1000), needed, 0.0)
    games = max(LEAST_GAMES, needed // 1000)
    now_told = [told.get(session, first[session]) for session in range(1000)]
    assert all(abs(share.games - games) <= games // 4 for share in now_told if share)
    assert all(share.credits >= share.games + SPARE_CREDITS // 2 for share in now_told if share)


def test_players_of_one_key_divide_its_share(shares: Shares) -> None:
    alone = shares.join(0, 1024, "one")
    crowd = [shares.join(session, 1024, "many") for session in range(1, 5)]
    assert alone is not None
    assert alone.games == 1024
    assert [share.games for share in crowd if share] == [1024 // (2 * count) for count in range(1, 5)]


def test_local_workers_count_beside_the_players() -> None:
    """They never join, because their evaluators serve them directly."""
    shares = new_shares(local_workers=4)
    joined = [shares.join(session, GPU) for session in range(2)]
    assert joined == [Share(games + SPARE_CREDITS, games) for games in (GPU // 5, GPU // 6)]


def test_hello_said_twice_is_answered_alike(shares: Shares) -> None:
    first = shares.join(1, GPU)
    shares.join(2, GPU)
    assert shares.join(1, GPU) == first


def test_a_number_of_games_that_the_user_set_is_told_to_all() -> None:
    shares = new_shares(fixed_games=77)
    assert [shares.join(session, GPU) for session in range(2)] == [Share(77 + SPARE_CREDITS, 77)] * 2
    assert played(shares, range(2), GPU, 0.0) == {}


def test_shares_grow_when_players_leave_and_shrink_when_they_come(shares: Shares) -> None:
    """A share grows by at most the factor 2 in one revision. A smaller share is sent at once, and the freed
    credits are given to others."""
    assert shares.join(1, 1024) == Share(1024 + SPARE_CREDITS, 1024)
    assert shares.join(2, 1024) == Share(512 + SPARE_CREDITS, 512)
    shares.answered(1, 100)
    shares.answered(2, 100)
    assert shares.revise(1024, 0.0) == [(1, Share(512 + SPARE_CREDITS, 512))]
    assert shares.revise(1024, REVISE_SECONDS - 1) == []
    shares.leave(1)
    shares.answered(2, 100)
    assert shares.revise(1024, REVISE_SECONDS) == [(2, Share(1024 + SPARE_CREDITS, 1024))]


def test_a_crowd_that_does_not_play_takes_nothing_from_those_who_do(shares: Shares) -> None:
    """The two players share what the device needs, as if they were alone."""
    alone = [Share(games + SPARE_CREDITS, games) for games in (MOST_GAMES, 1280)]
    assert [shares.join(session, GPU) for session in range(2)] == alone
    assert all(shares.join(session, GPU) for session in range(2, 1002))
    told = played(shares, range(2), GPU, 0.0)
    assert [told.get(session) for session in range(2)] == [Share(1280 + SPARE_CREDITS, 1280), None]


def test_who_comes_into_such_a_crowd_begins_small_and_grows_to_its_share(shares: Shares) -> None:
    """Its share doubles each time, because others may be about to begin, too."""
    assert all(shares.join(session, GPU) for session in range(1000))
    assert shares.join(1000, GPU) == Share(LEAST_GAMES + SPARE_CREDITS, LEAST_GAMES)
    games = []
    for revision in range(9):
        shares.answered(1000, 100)
        news = dict(shares.revise(GPU, revision * REVISE_SECONDS))
        games.append(news[1000].games if 1000 in news else None)
    assert games == [32, 64, 128, 256, 512, 1024, 2048, None, None]


def test_credits_of_who_does_nothing_for_minutes_are_free_for_others() -> None:
    """A newcomer has the minimum while so many are idle, and its share once they have been idle for long
    enough."""
    shares = Shares(Credits(20_000, minimum=LEAST_GRANT, sessions=100))
    assert all(shares.join(session, 8 * GPU) for session in range(99))
    told = shares.join(99, 8 * GPU)
    assert told == Share(LEAST_GRANT, LEAST_GRANT)
    for revision in range(IDLE_REVISIONS + 10):
        shares.answered(99, 100)
        told = dict(shares.revise(8 * GPU, revision * REVISE_SECONDS)).get(99, told)
    assert told == Share(MOST_GAMES + SPARE_CREDITS, MOST_GAMES)


def test_nobody_is_held_to_less_than_it_was_told(shares: Shares) -> None:
    """Changes too small to be worth a message are not made."""
    for session in range(5):
        shares.join(session, GPU)
    told = {session: share for session in range(5) if (share := shares.join(session, GPU))}
    for revision in range(20):
        for session in range(5 - revision % 2):
            shares.answered(session, 100 + 10 * session)
        told |= dict(shares.revise(GPU + 40 * revision, revision * REVISE_SECONDS))
        assert all(share.credits <= shares.credits.limit(session) for session, share in told.items())


def test_who_asks_for_little_counts_for_little() -> None:
    """A thousand ask for one leaf each, where two ask for ten thousand each."""
    assert effective_number([10_000.0] * 2 + [1.0] * 1000) < 2.3


def test_a_player_that_could_not_be_told_is_told_again(shares: Shares) -> None:
    shares.join(1, 1024)
    shares.join(2, 1024)
    shares.answered(1, 1)
    shares.answered(2, 1)
    news = [(1, Share(512 + SPARE_CREDITS, 512))]
    assert shares.revise(1024, 0.0) == news
    shares.mark_unsent(1)
    shares.answered(1, 1)
    shares.answered(2, 1)
    assert shares.revise(1024, REVISE_SECONDS) == news


def test_while_nobody_plays_nothing_changes(shares: Shares) -> None:
    """The evaluators may be loading weights."""
    shares.join(1, GPU)
    assert shares.revise(8 * GPU, CHANGE_SECONDS) == []


@given(st.integers(1, 300), st.integers(1, 10**6), st.integers(0, 1000))
def test_equal_players_count_as_many_as_they_are(players: int, leaves: int, idle: int) -> None:
    """This holds for any number of idle players."""
    assert effective_number([float(leaves)] * players + [0.0] * idle) == pytest.approx(players)


@given(st.lists(st.floats(0, 1e9), max_size=50))
def test_unequal_players_count_less_than_they_are(used: list[float]) -> None:
    """The number is at least one if anybody plays."""
    number = effective_number(used)
    squares = sum(leaves * leaves for leaves in used)
    assert (0.999 <= number <= len(used) * 1.001) if squares > 0 else number == 0
