"""Credits bound what is in flight, for each session and for all together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.credits import Credits


def test_leaves_within_the_grant_are_taken() -> None:
    """Up to the grant exactly, and again after answers came."""
    book = Credits(total=100)
    assert book.grant(1, 10) == 10
    assert book.take(1, 10)
    book.release(1, 4)
    assert book.take(1, 4)
    assert book.in_flight(1) == 10


def test_over_credit_is_refused_and_counted() -> None:
    """Nothing is taken of a request that is too large."""
    book = Credits(total=100)
    book.grant(1, 10)
    assert not book.take(1, 11)
    assert book.violations[1] == 1
    assert book.in_flight(1) == 0


def test_a_session_without_grant_gets_nothing() -> None:
    """Neither leaves nor memory of violations for sessions that are not there."""
    book = Credits(total=100)
    assert not book.take(9, 1)
    assert not book.violations


def test_the_last_session_gets_what_is_left() -> None:
    """Grants never add up to more than the total; below the minimum there is none."""
    book = Credits(total=100, minimum=8)
    assert [book.grant(session, 48) for session in (1, 2, 3)] == [48, 48, 0]
    book.forget(1)
    assert book.grant(3, 96) == 52


def test_a_second_hello_keeps_the_account() -> None:
    """Leaves in flight are not forgotten when HELLO is sent again."""
    book = Credits(total=100)
    book.grant(1, 10)
    book.take(1, 7)
    assert book.grant(1, 50) == 10
    assert book.in_flight(1) == 7


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["grant", "take", "release", "forget"]), st.integers(0, 4), st.integers(-2, 40)
        )
    )
)
def test_no_sequence_of_events_breaks_the_bounds(events: list[tuple[str, int, int]]) -> None:
    """In flight is never negative nor above the grants, and grants never exceed the total."""
    book = Credits(total=64)
    for event, session, number in events:
        if event == "forget":
            book.forget(session)
        else:
            getattr(book, event)(session, max(number, 0) if event == "release" else number)
        assert 0 <= book.total_in_flight <= book.granted <= book.total
