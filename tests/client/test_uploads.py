"""Uploads: nothing leaves the spool before a final acknowledgement, and everything is offered until then."""

import pytest
from client_records import uid
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scaled_examples import scaled

from client.uploader import MOST_IN_FLIGHT, MOST_WAITING, Put, Uploads
from protocol.credits import LEAST_GAME_BYTES, SESSION_BYTES
from protocol.messages import GameAck


def joined_with(games: int, **options: float) -> Uploads:
    uploads = Uploads(**options)  # type: ignore[arg-type]
    uploads.joined(0.0)
    for number in range(games):
        uploads.add(uid(number), 1000, 0.0)
    return uploads


def test_a_trainer_is_behind_when_many_games_wait_for_it() -> None:
    """Without a trainer nobody is behind: games are kept until one comes."""
    uploads = joined_with(MOST_IN_FLIGHT + MOST_WAITING)
    assert not uploads.trainer_is_behind
    uploads.add(uid(9999), 1000, 0.0)
    assert uploads.trainer_is_behind
    uploads.acknowledged(GameAck(uid(0), "retry", "no_trainer: wait", 5.0), 1.0)
    assert not uploads.trainer_is_behind
    uploads.acknowledged(GameAck(uid(1), "retry", "trainer_busy: wait", 1.0), 1.0)
    assert uploads.trainer_is_behind
    uploads.lost()
    assert not uploads.trainer_is_behind
    uploads.joined(2.0, trainer_present=False)
    assert not uploads.trainer_is_behind


@pytest.mark.parametrize("status", ["stored", "duplicate", "rejected", "conflict"])
def test_a_final_answer_to_a_game_is_carried_out_and_ends_its_upload(status: str) -> None:
    uploads, ack = joined_with(1), GameAck(uid(0), status, "illegal_action: ply 3")
    assert uploads.acknowledged(ack, 1.0) == [ack]
    assert uploads.tick(1e6) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_game_that_was_lost_or_damaged_on_its_way_is_offered_again(damaged: bool) -> None:
    """The client sent it with the right hash, so `bad_hash` means that the network damaged it."""
    uploads = joined_with(1)
    if damaged:
        assert uploads.acknowledged(GameAck(uid(0), "rejected", "bad_hash: other bytes"), 1.0) == []
    assert (uploads.next_wake(), uploads.tick(29.9)) == (30.0, [])
    assert uploads.tick(30.0) == [Put(uid(0))]
    assert uploads.acknowledged(GameAck(uid(0), "stored"), 31.0) == [GameAck(uid(0), "stored")]


def test_an_unacknowledged_game_is_offered_again_after_the_timeout() -> None:
    """The acknowledgement, or the game itself, was lost. If it is only slow, copies would make it slower."""
    uploads, due = joined_with(1), 0.0
    for wait in (30.0, 60.0, 90.0, 90.0):
        due += wait
        assert uploads.next_wake() == due
        assert uploads.tick(due - 0.1) == []
        assert uploads.tick(due) == [Put(uid(0))]


def test_a_stall_doubles_the_timeout_once_until_an_answer_comes_in_time() -> None:
    """Games of one stall are late together. A late game's answer may be that to its first copy."""
    uploads = joined_with(0)
    for number in range(4):
        uploads.add(uid(number), 1000, float(number))
    assert uploads.tick(30.0) == [Put(uid(0))]
    assert uploads.tick(60.0) == []
    uploads.acknowledged(GameAck(uid(0), "stored"), 60.0)
    assert uploads.next_wake() == 61.0
    uploads.add(uid(4), 1000, 60.0)
    uploads.acknowledged(GameAck(uid(4), "stored"), 60.5)
    assert uploads.next_wake() == 31.0


def test_the_window_is_full_by_bytes_but_one_game_always_fits() -> None:
    uploads = joined_with(0)
    assert uploads.add(uid(0), SESSION_BYTES + 1, 0.0) == [Put(uid(0))]
    assert uploads.add(uid(1), 1000, 0.0) == []
    stored = [GameAck(uid(0), "stored"), Put(uid(1))]
    assert uploads.acknowledged(GameAck(uid(0), "stored"), 1.0) == stored
    assert uploads.add(uid(2), SESSION_BYTES - LEAST_GAME_BYTES, 1.0) == [Put(uid(2))]
    assert uploads.add(uid(3), 1, 1.0) == []


def test_a_game_that_was_offered_twice_and_not_sent_is_offered_once_more() -> None:
    """A second session began before the first offer was carried out."""
    uploads = joined_with(1)
    uploads.joined(0.5)
    uploads.unsent([uid(0), uid(0)], 1.0)
    assert uploads.tick(2.0) == [Put(uid(0))]


def test_rejoining_offers_what_was_in_flight_first() -> None:
    """A new session does not know what was sent in the old one."""
    uploads = joined_with(3, window=2 * LEAST_GAME_BYTES)
    uploads.lost()
    assert uploads.tick(100.0) == []
    assert uploads.joined(101.0) == [Put(uid(0)), Put(uid(1))]


def test_retry_pauses_all_uploads_for_as_long_as_the_server_says() -> None:
    """`retry` means that there is no trainer: one refusal is enough to hold the others back."""
    uploads = joined_with(3, window=2 * LEAST_GAME_BYTES)
    assert uploads.acknowledged(GameAck(uid(0), "retry", retry_after=5.0), 1.0) == []
    assert uploads.acknowledged(GameAck(uid(1), "retry", retry_after=5.0), 1.0) == []
    assert uploads.next_wake() == 6.0
    assert uploads.tick(5.9) == []
    assert uploads.tick(6.0) == [Put(uid(2))]


def test_without_a_trainer_one_game_at_a_time_asks_whether_there_is_one_now() -> None:
    """The first final answer opens the window again, by one game per answer."""
    uploads = joined_with(6, window=4 * LEAST_GAME_BYTES)
    for number in range(4):
        uploads.acknowledged(GameAck(uid(number), "retry", "no_trainer", 5.0), 1.0)
    assert uploads.tick(6.0) == [Put(uid(4))]
    assert uploads.acknowledged(GameAck(uid(4), "retry", "no_trainer", 5.0), 6.1) == []
    assert uploads.tick(11.1) == [Put(uid(5))]
    stored = GameAck(uid(5), "stored")
    assert uploads.acknowledged(stored, 11.2) == [stored, Put(uid(0)), Put(uid(1))]
    refused = GameAck(uid(0), "rejected", "why")
    assert uploads.acknowledged(refused, 11.3) == [refused, Put(uid(2)), Put(uid(3))]


def test_a_session_that_begins_without_a_trainer_begins_with_one_game() -> None:
    """WELCOME says whether there is a trainer."""
    uploads = joined_with(3)
    uploads.lost()
    assert uploads.joined(1.0, trainer_present=False) == [Put(uid(0))]
    uploads.lost()
    assert uploads.joined(2.0, trainer_present=True) == [Put(uid(0)), Put(uid(1)), Put(uid(2))]


def test_a_server_that_takes_some_of_the_games_is_sent_about_as_many_at_a_time() -> None:
    """The server was full when the second of four games came, so it is offered three at a time until one of
    them is stored."""
    uploads = joined_with(6, window=4 * LEAST_GAME_BYTES)
    uploads.acknowledged(GameAck(uid(1), "retry", "trainer_busy", 1.0), 1.0)
    assert uploads.tick(2.0) == []
    stored = GameAck(uid(0), "stored")
    assert uploads.acknowledged(stored, 2.5) == [stored, Put(uid(4)), Put(uid(5))]


class LossyServer(RuleBasedStateMachine):
    """Puts and acknowledgements are lost, doubled and reordered; sessions begin and end."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads = Uploads(window=3 * LEAST_GAME_BYTES)
        self.now = 0.0
        self.spool: set[bytes] = set()
        self.stored: set[bytes] = set()
        self.added = 0

    def obey(self, instructions: list[Put | GameAck], lost: bool = False) -> None:
        for instruction in instructions:
            assert instruction.uid in self.spool
            if isinstance(instruction, Put):
                self.stored |= set() if lost else {instruction.uid}
            else:
                assert instruction.uid in self.stored
                self.spool.remove(instruction.uid)

    @rule(lost=st.booleans())
    def finish_game(self, lost: bool) -> None:
        self.added += 1
        self.spool.add(uid(self.added))
        self.obey(self.uploads.add(uid(self.added), 1000, self.now), lost)

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), status=st.sampled_from(["stored", "duplicate", "retry", "rejected"]))
    def acknowledge(self, data: st.DataObject, status: str) -> None:
        game = data.draw(st.sampled_from(sorted(self.stored)))
        self.obey(self.uploads.acknowledged(GameAck(game, status), self.now))

    @rule(seconds=st.sampled_from([0.5, 31.0]), lost=st.booleans())
    def wait(self, seconds: float, lost: bool) -> None:
        self.now += seconds
        self.obey(self.uploads.tick(self.now), lost)

    @rule(lost=st.booleans())
    def join(self, lost: bool) -> None:
        self.obey(self.uploads.joined(self.now), lost)

    @rule()
    def lose(self) -> None:
        self.uploads.lost()

    @invariant()
    def every_spooled_game_is_known_and_the_window_holds(self) -> None:
        assert len(self.uploads._waiting) + self.uploads.in_flight == len(self.spool)
        assert self.uploads.in_flight <= 3

    def teardown(self) -> None:
        """Once the server answers everything, the spool becomes empty."""
        self.obey(self.uploads.joined(self.now))
        while self.spool:
            for game in sorted(self.spool & self.stored):
                self.obey(self.uploads.acknowledged(GameAck(game, "stored"), self.now))


LossyServer.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
TestLossyServer = LossyServer.TestCase
