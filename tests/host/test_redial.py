"""Scripts with exact times: when a server is dialled again."""

import math

from azselfplay.link.connection import AFTER_AN_END, FIRST_REDIAL, LONGEST_REDIAL, Redial


def test_it_dials_after_a_silence_and_then_ever_less_often() -> None:
    redial = Redial()
    assert redial.due() == math.inf
    redial.waits(5.0)
    redial.waits(8.0)
    assert redial.due() == 5.0 + FIRST_REDIAL
    assert [redial.take(5.0 + FIRST_REDIAL - 0.1), redial.take(5.0 + FIRST_REDIAL)] == [False, True]
    assert redial.due() == 5.0 + 3 * FIRST_REDIAL
    times = []
    while len(times) < 9:
        times.append(redial.due())
        assert redial.take(times[-1])
    assert times[-1] - times[-2] == LONGEST_REDIAL


def test_a_message_ends_the_silence() -> None:
    """The next silence counts from its own beginning, and the waits are short again."""
    redial = Redial()
    redial.waits(0.0)
    assert redial.take(FIRST_REDIAL)
    redial.received()
    assert (redial.due(), redial.take(1e9)) == (math.inf, False)
    redial.waits(100.0)
    assert redial.due() == 100.0 + FIRST_REDIAL


def test_the_end_of_a_connection_is_followed_by_a_dial_soon_and_then_by_the_usual_waits() -> None:
    redial = Redial()
    redial.ended(10.0, 1.5)
    assert [redial.take(10.2), redial.take(10.3)] == [False, True]
    assert redial.due() == 10.3 + FIRST_REDIAL


def test_a_server_that_ends_each_connection_is_dialled_ever_less_often_until_there_is_a_session() -> None:
    redial = Redial()
    waits = []
    for _ in range(9):
        redial.received()  # a GOODBYE
        redial.ended(0.0, 2.0)
        waits.append(redial.due())
    assert waits[:3] == [2 * AFTER_AN_END, 4 * AFTER_AN_END, 8 * AFTER_AN_END]
    assert waits[-1] == FIRST_REDIAL
    redial.joined()
    redial.ended(0.0, 2.0)
    assert redial.due() == 2 * AFTER_AN_END
