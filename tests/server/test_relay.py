"""Games on their way to the trainer: every game gets an answer, whatever happens to the trainer."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scaled_examples import scaled

from protocol.credits import BYTES_OF_KEY, LEAST_GAME_BYTES, SESSION_BYTES
from protocol.errors import Code
from protocol.messages import GameAck, RelayGame
from server.relay import GIVE_UP, LONGEST_RETRY, RELAY_AGAIN, RETRY_BUSY, Acknowledge, GameRelay, Turns

A, B = b"peer-a", b"peer-b"
UID, OTHER = b"u" * 16, b"v" * 16
SHA = b"s" * 32


OF_SESSION, OF_KEY = SESSION_BYTES // LEAST_GAME_BYTES, BYTES_OF_KEY // LEAST_GAME_BYTES
"""Small games that a session and a key may have unanswered."""


@pytest.fixture
def relay() -> GameRelay:
    """Return a relay with a trainer."""
    relay = GameRelay()
    assert relay.trainer_joined() == []
    return relay


def statuses(instructions: list) -> list[tuple[bytes, str]]:
    return [(i.peer, i.ack.status) for i in instructions]


def test_a_game_goes_to_the_trainer_with_where_it_came_from_and_who_played_it(relay: GameRelay) -> None:
    assert relay.put(A, "worker", UID, SHA, 0.0) == [RelayGame(A, UID, SHA, "workers")]
    assert relay.put(B, "client", OTHER, SHA, 0.0) == [RelayGame(B, OTHER, SHA, "clients")]


def test_other_bytes_under_a_uid_that_the_trainer_has_wait_for_its_answer(relay: GameRelay) -> None:
    """Otherwise they would be passed on again and again without counting for the quotas."""
    relay.put(A, "client", UID, SHA, 0.0, size=1000)
    for sha256, size in ((b"t" * 32, 1000), (SHA, 10**6)):
        for now in (1.0, RELAY_AGAIN + 1.0):
            assert statuses(relay.put(A, "client", UID, sha256, now, size=size)) == [(A, "retry")]
    again = relay.put(A, "client", UID, SHA, RELAY_AGAIN + 1.0, size=1000)
    assert again == [RelayGame(A, UID, SHA, "clients")]


def test_without_a_trainer_a_game_is_to_be_kept_and_offered_again_later() -> None:
    (answer,) = GameRelay().put(A, "worker", UID, SHA, 0.0)
    assert isinstance(answer, Acknowledge)
    assert (answer.ack.status, answer.ack.retry_after > 1) == ("retry", True)


def test_a_key_with_ninety_nine_sessions_leaves_room_in_the_window_for_the_others(relay: GameRelay) -> None:
    """It offers as many games as it may from each session, and then two others come."""

    def taken(peer: bytes, owner: str) -> int:
        puts = (relay.put(peer, "client", number(uid), SHA, 0.0, owner=owner) for uid in range(OF_SESSION))
        return sum(isinstance(answer, RelayGame) for answer, *_ in puts)

    assert sum(taken(b"crowd-%d" % session, "crowd") for session in range(99)) == OF_KEY
    assert (taken(A, "a"), taken(B, "b")) == (OF_SESSION, OF_SESSION)


def test_answers_after_a_second_and_a_half_allow_for_the_pace_of_alphazero(relay: GameRelay) -> None:
    """Of 1,360 games a second, of 26 kB each, from sixty sessions, none is sent back."""
    games = range(int(1.5 * 1360))
    puts = [relay.put(number(game % 60), "client", number(game), SHA, 0.0, size=26_000) for game in games]
    assert all(isinstance(answer, RelayGame) for answer, *_ in puts)


def test_what_the_trainer_does_not_store_is_told_with_its_size_for_it_is_charged(relay: GameRelay) -> None:
    statuses = ("stored", "retry", "rejected", "conflict")
    for uid in range(len(statuses)):
        relay.put(A, "client", number(uid), SHA, 0.0, size=1000)
    answers = relay.trainer_acked([(A, GameAck(number(uid), status)) for uid, status in enumerate(statuses)])
    assert [one.wasted for one in answers if isinstance(one, Acknowledge)] == [0, 0, 1000, 1000]


def test_acknowledgements_go_back_to_the_peer_that_sent_the_game(relay: GameRelay) -> None:
    relay.put(A, "worker", UID, SHA, 0.0)
    relay.put(B, "client", UID, SHA, 0.0)
    stored, duplicate = GameAck(UID, "stored"), GameAck(UID, "duplicate")
    told = relay.trainer_acked([(B, duplicate), (A, stored)])
    assert told == [Acknowledge(B, duplicate), Acknowledge(A, stored)]
    assert (relay.relayed, relay.acked, len(relay)) == (2, 2, 0)


def test_an_acknowledgement_that_nobody_waits_for_is_dropped(relay: GameRelay) -> None:
    assert relay.trainer_acked([(A, GameAck(UID, "stored"))]) == []


def test_a_resent_game_is_handed_on_again_only_when_the_first_may_be_lost(relay: GameRelay) -> None:
    relay.put(A, "worker", UID, SHA, 0.0)
    assert relay.put(A, "worker", UID, SHA, RELAY_AGAIN - 1) == []
    assert isinstance(relay.put(A, "worker", UID, SHA, RELAY_AGAIN)[0], RelayGame)
    assert relay.relayed == 1


def test_a_game_that_cannot_be_delivered_is_to_be_offered_again(relay: GameRelay) -> None:
    relay.put(A, "worker", UID, SHA, 0.0)
    assert statuses(relay.undeliverable(A, UID)) == [(A, "retry")]
    assert (relay.relayed, len(relay)) == (0, 0)


def test_five_thousand_players_offer_little_more_than_the_trainer_takes() -> None:
    """Each has a game that is sent back until the trainer, which takes four hundred a second, has room."""
    turns, due, taken, offered = Turns(0.0), dict.fromkeys(map(number, range(5000)), 0.0), 0, []
    for now in range(120):
        come = [peer for peer, at in due.items() if at <= now]
        offered.append(len(come))
        taken += len(come[:400])
        turns.tick(taken, now)
        due |= dict.fromkeys(come[:400], now + 1.0)  # with the next game
        due |= {peer: now + turns.wait(peer, now, 1.0) for peer in come[400:]}
    assert max(offered[10:]) < 3 * 400
    assert taken / 120 > 0.9 * 400


def test_few_players_wait_as_long_as_they_are_told_and_none_longer_than_a_minute() -> None:
    turns = Turns(0.0)
    assert {turns.wait(number(at), 0.0, 1.0) for at in range(10)} == {1.0}
    assert 0.9 * LONGEST_RETRY < max(turns.wait(number(at), 0.0, 1.0) for at in range(5000)) <= LONGEST_RETRY


def test_a_player_that_does_not_wait_puts_off_nobody_else() -> None:
    turns = Turns(0.0)
    assert {turns.wait(A, 0.0, 1.0) for _ in range(1000)} == {1.0}
    assert turns.wait(B, 0.0, 1.0) == 1.0


def number(of: int) -> bytes:
    return of.to_bytes(16, "big")


def test_a_session_holds_two_megabytes_or_one_game(relay: GameRelay) -> None:
    sizes = (SESSION_BYTES + 1, 1)  # two sessions: one large game, and none beside it
    answers = [relay.put(A, "client", number(uid), SHA, 0.0, size)[0] for uid, size in enumerate(sizes)]
    answers += [relay.put(B, "client", number(uid), SHA, 0.0, SESSION_BYTES // 2)[0] for uid in range(3)]
    assert [isinstance(answer, RelayGame) for answer in answers] == [True, False, True, True, False]
    reason = f"{Code.BUSY}: {SESSION_BYTES} bytes of this session's games are unanswered already"
    assert answers[-1] == Acknowledge(B, GameAck(number(2), "retry", reason, RETRY_BUSY))
    relay.trainer_acked([(A, GameAck(number(0), "stored"))])
    assert isinstance(relay.put(A, "client", number(1), SHA, 0.0, 1)[0], RelayGame)


OWNERS = {b"p%d" % number: "key" if number < 9 else "" for number in range(11)}


class Crowd(RuleBasedStateMachine):
    """Clients that ask in any way, and a trainer that answers in any way, compared with a slow twin."""

    SIZE, OF_SESSION, OF_KEY, OF_ALL = SESSION_BYTES // 2, 2, 16, 18
    """Bytes of each game, and how many a session, a key and all of them may have unanswered."""

    def __init__(self) -> None:
        super().__init__()
        self.relay = GameRelay(self.OF_ALL * self.SIZE)
        self.relay.trainer_joined()
        self.now = 0.0
        self.games = 0
        self.held: list[tuple[bytes, bytes]] = []

    def holds(self, peer: bytes) -> int:
        return sum(holder == peer for holder, _ in self.held)

    def of_key(self, owner: str) -> int:
        return sum(OWNERS[peer] == owner for peer, _ in self.held)

    @rule(peer=st.sampled_from([b"p%d" % n for n in range(11)]))
    def put(self, peer: bytes) -> None:
        self.games += 1
        uid, owner = number(self.games), OWNERS[peer]
        (answer,) = self.relay.put(peer, "client", uid, SHA, self.now, self.SIZE, owner)
        has_room = len(self.held) < self.OF_ALL and self.holds(peer) < self.OF_SESSION
        assert isinstance(answer, RelayGame) == (has_room and (not owner or self.of_key(owner) < self.OF_KEY))
        if isinstance(answer, RelayGame):
            self.held.append((peer, uid))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def trainer_answers(self, data: st.DataObject) -> None:
        peer, uid = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        ack = GameAck(uid, "stored")
        assert self.relay.trainer_acked([(peer, ack)]) == [Acknowledge(peer, ack)]

    @precondition(lambda self: self.held)
    @rule(leaves=st.booleans())
    def trainer_is_gone(self, leaves: bool) -> None:
        """It leaves, or another takes its place."""
        gone = self.relay.trainer_left() if leaves else self.relay.trainer_joined()
        assert {(i.peer, i.ack.uid, i.ack.status) for i in gone} == {(*game, "retry") for game in self.held}
        if leaves:
            assert statuses(self.relay.put(A, "client", UID, SHA, self.now)) == [(A, "retry")]
            self.relay.trainer_joined()
        self.held = []

    @rule(seconds=st.sampled_from([0.5, GIVE_UP + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        late = {(i.peer, i.ack.uid) for i in self.relay.expire(self.now)}
        self.held = [game for game in self.held if game not in late]

    @invariant()
    def nobody_has_more_than_it_may(self) -> None:
        assert len(self.relay) == len(self.held) <= self.OF_ALL
        assert all(self.holds(peer) <= self.OF_SESSION for peer, _ in self.held)


Crowd.TestCase.settings = settings(max_examples=scaled(100), stateful_step_count=60, deadline=None)
TestCrowd = Crowd.TestCase
