"""Credits bound what is in flight, for each session and for all of them together."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.credits import CHANGE_SECONDS, Credits


def test_a_session_without_grant_gets_nothing() -> None:
    book = Credits(total=100, sessions=5)
    assert not book.take(9, 1)
    assert book.in_flight(9) == 0


def test_the_minimum_is_kept_for_every_session_that_may_come() -> None:
    book = Credits(total=100, minimum=8, sessions=4)
    assert [book.grant(session, 48) for session in (1, 2, 3, 4, 5)] == [48, 36, 8, 8, 0]
    book.forget(1)
    assert book.grant(5, 96) == 48


def test_minimums_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match="5 sessions of 21 leaves"):
        Credits(total=100, minimum=21, sessions=5)


def test_a_second_hello_keeps_the_account() -> None:
    book = Credits(total=100, sessions=5)
    book.grant(1, 10)
    book.take(1, 7)
    assert book.grant(1, 50) == 10
    assert book.in_flight(1) == 7


def test_a_lower_grant_is_held_against_nobody_who_cannot_know_of_it_yet() -> None:
    """What was sent under the old grant is accepted for a while, and leaves in flight stay in flight."""
    book = Credits(total=100, sessions=2)
    book.grant(1, 50)
    book.take(1, 30)
    book.revise({1: 20}, now=1.0)
    assert book.limit(1) == 20
    assert book.take(1, 20)
    book.revise({1: 20}, now=1.0 + CHANGE_SECONDS)
    assert (book.granted, book.take(1, 1)) == (50, False)
    book.release(1, 45)
    book.revise({1: 20}, now=2.0 + CHANGE_SECONDS)
    assert (book.granted, book.take(1, 15), book.take(1, 1)) == (20, True, False)


def test_what_one_session_gives_back_another_gets() -> None:
    book = Credits(total=100, sessions=2)
    assert [book.grant(1, 80), book.grant(2, 80)] == [80, 20]
    for now, limits in ((0.0, [50, 20]), (1.0, [50, 20]), (CHANGE_SECONDS, [50, 50])):
        book.revise({1: 50, 2: 50}, now)
        assert [book.limit(1), book.limit(2)] == limits


def test_a_fair_grant_may_be_had_by_all() -> None:
    """It also leaves the minimum for those who may still come."""
    book = Credits(total=100, minimum=8, sessions=5)
    assert [book.fair(sessions) for sessions in (1, 2, 5)] == [68, 38, 20]
    assert [book.grant(session, book.fair(2)) for session in range(5)] == [38, 38, 8, 8, 8]


class AnyEvents(RuleBasedStateMachine):
    """Sessions begin, end, and send whatever they like."""

    TOTAL, LEAST, SESSIONS = 64, 4, 5
    numbers = st.integers(0, 6)

    def __init__(self) -> None:
        super().__init__()
        self.book = Credits(self.TOTAL, minimum=self.LEAST, sessions=self.SESSIONS)
        self.now = 0.0
        self.present: set[int] = set()

    @rule(session=numbers, wanted=st.integers(0, 80))
    def grant(self, session: int, wanted: int) -> None:
        has_place = session in self.present or len(self.present) < self.SESSIONS
        limit = self.book.grant(session, wanted)
        assert (limit >= self.LEAST) == has_place
        self.present |= {session} if has_place else set()

    @rule(session=numbers, leaves=st.integers(1, 40))
    def take(self, session: int, leaves: int) -> None:
        free = self.book.limit(session) - self.book.in_flight(session)
        taken = self.book.take(session, leaves)
        assert taken or leaves > free or session not in self.present

    @rule(session=numbers, leaves=st.integers(0, 40))
    def release(self, session: int, leaves: int) -> None:
        self.book.release(session, leaves)

    @rule(session=numbers)
    def forget(self, session: int) -> None:
        self.book.forget(session)
        self.present.discard(session)

    @rule(
        wanted=st.dictionaries(numbers, st.integers(0, 80)),
        seconds=st.sampled_from([0.0, 1.0, CHANGE_SECONDS]),
    )
    def revise(self, wanted: dict[int, int], seconds: float) -> None:
        self.now += seconds
        self.book.revise(wanted, self.now)

    @invariant()
    def the_bounds_hold(self) -> None:
        """Nobody has less than the minimum, and all others could still come at once."""
        assert all(self.book.limit(session) >= self.LEAST for session in self.present)
        assert 0 <= sum(map(self.book.in_flight, self.present)) <= self.book.granted
        assert self.book.granted + self.LEAST * (self.SESSIONS - len(self.present)) <= self.TOTAL


AnyEvents.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyEvents = AnyEvents.TestCase
