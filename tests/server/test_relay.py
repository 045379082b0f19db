"""Games on their way to the trainer: every game gets an answer, whatever happens to the trainer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scaled_examples import scaled

from protocol.errors import Code
from protocol.messages import GameAck, RelayGame
from server.claims import CLAIM_SECONDS, Claims
from server.relay import (
    GIVE_UP,
    MOST_BYTES,
    MOST_UNANSWERED,
    REFUSED_OF_PLACE,
    RELAY_AGAIN,
    RETRY_BUSY,
    WINDOW,
    WINDOW_BYTES,
    Acknowledge,
    GameRelay,
    Relay,
)

A, B = b"peer-a", b"peer-b"
UID, OTHER = b"u" * 16, b"v" * 16
SHA = b"s" * 32


def relay_with_trainer(window: int = 256) -> GameRelay:
    relay = GameRelay(window)
    assert relay.trainer_joined() == []
    return relay


def statuses(instructions: list) -> list[tuple[bytes, str]]:
    return [(i.peer, i.ack.status) for i in instructions]


def test_a_game_goes_to_the_trainer_with_where_it_came_from_and_who_played_it() -> None:
    relay = relay_with_trainer()
    assert relay.put(A, "worker", UID, SHA, 0.0) == [Relay(RelayGame(A, UID, SHA, "workers"))]
    assert relay.put(B, "client", OTHER, SHA, 0.0) == [Relay(RelayGame(B, OTHER, SHA, "clients"))]


def test_other_bytes_under_a_uid_that_the_trainer_has_wait_for_its_answer() -> None:
    """They would be passed on again and again without counting for the quotas."""
    relay = relay_with_trainer()
    relay.put(A, "client", UID, SHA, 0.0, size=1000)
    for sha256, size in ((b"t" * 32, 1000), (SHA, 10**6)):
        for now in (1.0, RELAY_AGAIN + 1.0):
            assert statuses(relay.put(A, "client", UID, sha256, now, size=size)) == [(A, "retry")]
    assert relay.put(A, "client", UID, SHA, RELAY_AGAIN + 1.0, size=1000) == [
        Relay(RelayGame(A, UID, SHA, "clients"))
    ]


def test_without_a_trainer_a_game_is_to_be_kept_and_offered_again_later() -> None:
    (answer,) = GameRelay().put(A, "worker", UID, SHA, 0.0)
    assert isinstance(answer, Acknowledge)
    assert (answer.ack.status, answer.ack.retry_after > 1) == ("retry", True)


def test_peers_of_one_key_divide_one_share_and_the_other_keys_keep_theirs() -> None:
    """Ninety-nine sessions of one key offer all their games before two others come."""
    relay, crowd = relay_with_trainer(window=30), [b"crowd-%d" % number for number in range(99)]
    held: dict[str, list[tuple[bytes, bytes]]] = {"crowd": [], "b": [], "c": []}

    def offer(peer: bytes, owner: str, now: float) -> None:
        for number in range(MOST_UNANSWERED):
            uid = b"%016d" % number
            (answer, *_) = relay.put(peer, "client", uid, SHA, now, owner=owner) or [None]
            if isinstance(answer, Relay):
                held[owner].append((peer, uid))

    for round_ in range(40):
        now = RETRY_BUSY * round_
        for peer in crowd:
            offer(peer, "crowd", now)
        offer(b"b", "b", now)
        offer(b"c", "c", now)
        if round_ < 39:  # the trainer answers half of what it has, oldest first
            for games in held.values():
                done = [games.pop(0) for _ in range(len(games) // 2)]
                relay.trainer_acked([(peer, GameAck(uid, "stored")) for peer, uid in done], now)
    assert min(len(held["b"]), len(held["c"])) >= 0.95 * 30 / 3


def test_acknowledgements_go_back_to_the_peer_that_sent_the_game() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    relay.put(B, "client", UID, SHA, 0.0)
    stored, duplicate = GameAck(UID, "stored"), GameAck(UID, "duplicate")
    assert relay.trainer_acked([(B, duplicate), (A, stored)], 0.0) == [
        Acknowledge(B, duplicate),
        Acknowledge(A, stored),
    ]
    assert (relay.relayed, relay.acked, len(relay)) == (2, 2, 0)


def test_an_acknowledgement_that_nobody_waits_for_is_dropped() -> None:
    assert relay_with_trainer().trainer_acked([(A, GameAck(UID, "stored"))], 0.0) == []


def test_a_full_window_asks_for_patience() -> None:
    relay = relay_with_trainer(window=1)
    relay.put(A, "worker", UID, SHA, 0.0)
    assert statuses(relay.put(A, "worker", OTHER, SHA, 0.0)) == [(A, "retry")]
    relay.trainer_acked([(A, GameAck(UID, "stored"))], 0.0)
    assert isinstance(relay.put(A, "worker", OTHER, SHA, 0.0)[0], Relay)


def test_a_resent_game_is_handed_on_again_only_when_the_first_may_be_lost() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    assert relay.put(A, "worker", UID, SHA, RELAY_AGAIN - 1) == []
    assert isinstance(relay.put(A, "worker", UID, SHA, RELAY_AGAIN)[0], Relay)
    assert relay.relayed == 1


def test_when_the_trainer_goes_or_is_replaced_all_it_held_is_to_be_offered_again() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    relay.put(B, "client", OTHER, SHA, 0.0)
    assert statuses(relay.trainer_joined()) == [(A, "retry"), (B, "retry")]
    relay.put(A, "worker", UID, SHA, 0.0)
    assert statuses(relay.trainer_left()) == [(A, "retry")]
    assert statuses(relay.put(A, "worker", UID, SHA, 0.0)) == [(A, "retry")]


def test_a_game_that_cannot_be_delivered_is_to_be_offered_again() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    assert statuses(relay.undeliverable(A, UID)) == [(A, "retry")]
    assert (relay.relayed, len(relay)) == (0, 0)


def test_a_trainer_that_never_answers_does_not_hold_its_window_for_ever() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    assert relay.expire(GIVE_UP) == []
    assert statuses(relay.expire(GIVE_UP + 1)) == [(A, "retry")]


def test_the_trainer_never_holds_more_bytes_than_it_has_room_for() -> None:
    """This does not depend on the senders; every answer frees space for the next game."""
    relay, size = relay_with_trainer(), WINDOW_BYTES // 60
    peers = [number(at) for at in range(62)]
    answers = [relay.put(peer, "client", UID, SHA, 0.0, size=size)[0] for peer in peers]
    assert [isinstance(one, Relay) for one in answers] == [True] * 60 + [False] * 2
    relay.trainer_acked([(peers[0], GameAck(UID, "stored"))], 0.0)
    assert isinstance(relay.put(peers[61], "client", UID, SHA, 0.0, size=size)[0], Relay)


def number(of: int) -> bytes:
    return of.to_bytes(16, "big")


def busy(peer: bytes, uid: bytes) -> list:
    return [Acknowledge(peer, GameAck(uid, "retry", Code.TRAINER_BUSY, RETRY_BUSY))]


def test_a_session_holds_sixteen_places_and_no_more() -> None:
    relay = relay_with_trainer()
    for game in range(MOST_UNANSWERED):
        assert isinstance(relay.put(A, "client", number(game), SHA, 0.0)[0], Relay)
    reason = f"{Code.BUSY}: 16 games of this session are unanswered already"
    assert relay.put(A, "client", UID, SHA, 0.0) == [
        Acknowledge(A, GameAck(UID, "retry", reason, RETRY_BUSY))
    ]
    relay.trainer_acked([(A, GameAck(number(3), "stored"))], 0.0)
    assert relay.put(A, "client", UID, SHA, 0.0) == [Relay(RelayGame(A, UID, SHA, "clients"))]


def test_a_session_holds_two_megabytes_or_one_game() -> None:
    relay = relay_with_trainer()
    sizes = (MOST_BYTES + 1, 1)  # two sessions: one large game, and none beside it
    answers = [relay.put(A, "client", number(uid), SHA, 0.0, "", size)[0] for uid, size in enumerate(sizes)]
    answers += [relay.put(B, "client", number(uid), SHA, 0.0, "", MOST_BYTES // 2)[0] for uid in range(3)]
    assert [isinstance(answer, Relay) for answer in answers] == [True, False, True, True, False]
    relay.trainer_acked([(A, GameAck(number(0), "stored"))], 0.0)
    assert isinstance(relay.put(A, "client", number(1), SHA, 0.0, "", 1)[0], Relay)


def test_a_thousand_sessions_that_ask_in_turn_get_a_place_each_until_the_window_is_full() -> None:
    relay = relay_with_trainer()
    given = []
    for asked in range(4):
        for client in range(1000):
            peer = number(client)
            if isinstance(relay.put(peer, "client", number(asked), SHA, 1.0)[0], Relay):
                given.append(peer)
    assert len(relay) == WINDOW
    assert len(given) == WINDOW
    assert max(given.count(peer) for peer in set(given)) <= MOST_UNANSWERED


def test_places_that_are_answered_go_to_who_holds_less_than_its_share() -> None:
    """Two sessions take half of the window each; a third is sent back, and gets freed places before they
    do."""
    relay = GameRelay(window=12, most_unanswered=12)
    relay.trainer_joined()
    for game in range(6):
        relay.put(A, "client", number(game), SHA, 0.0)
        relay.put(B, "client", number(game), SHA, 0.0)
    third = b"peer-c"
    assert relay.put(third, "client", UID, SHA, 1.0) == busy(third, UID)
    relay.trainer_acked([(A, GameAck(number(0), "stored"))], 0.0)
    assert relay.put(A, "client", OTHER, SHA, 1.5) == busy(A, OTHER)
    assert relay.put(third, "client", UID, SHA, 2.0) == [Relay(RelayGame(third, UID, SHA, "clients"))]


def test_a_session_that_does_not_come_back_is_not_waited_for() -> None:
    relay = GameRelay(window=2, most_unanswered=2)
    relay.trainer_joined()
    relay.put(A, "client", number(1), SHA, 0.0)
    relay.put(A, "client", number(2), SHA, 0.0)
    assert relay.put(B, "client", UID, SHA, 1.0) == busy(B, UID)
    relay.trainer_acked([(A, GameAck(number(1), "stored"))], 0.0)
    assert relay.put(A, "client", number(3), SHA, CLAIM_SECONDS) == busy(A, number(3))
    answer = relay.put(A, "client", number(3), SHA, 1.0 + CLAIM_SECONDS)
    assert answer == [Relay(RelayGame(A, number(3), SHA, "clients"))]


def test_an_address_whose_games_are_refused_is_sent_back_for_a_while_and_no_other() -> None:
    """Stored games cost nothing; a conflict costs as much as a refusal; a debt is paid off with time."""
    relay = relay_with_trainer()
    size = int(REFUSED_OF_PLACE.burst)

    def offer(uid: int, address: str, now: float, peer: bytes = A) -> list:
        return relay.put(peer, "client", number(uid), SHA, now, address, size)

    for uid, status in enumerate(("stored", "rejected", "conflict")):
        assert isinstance(offer(uid, "10.0.0.1", 0.0)[0], Relay)
        relay.trainer_acked([(A, GameAck(number(uid), status))], 0.0)
    (answer,) = offer(3, "10.0.0.1", 0.0, B)
    assert (answer.ack.status, answer.ack.retry_after) == ("retry", size / REFUSED_OF_PLACE.rate)
    assert answer.ack.reason.startswith(Code.BUSY)
    assert isinstance(offer(3, "10.0.0.2", 0.0)[0], Relay)
    assert isinstance(offer(3, "10.0.0.1", size / REFUSED_OF_PLACE.rate, B)[0], Relay)


def test_a_key_whose_games_are_refused_waits_wherever_it_comes_from_and_no_other_key_there_does() -> None:
    relay, size = relay_with_trainer(), int(REFUSED_OF_PLACE.burst)

    def offer(uid: int, address: str, owner: str) -> list:
        return relay.put(A, "client", number(uid), SHA, 0.0, address, size, owner)

    for uid in range(2):
        assert isinstance(offer(uid, "10.0.0.1", "cheat")[0], Relay)
        relay.trainer_acked([(A, GameAck(number(uid), "rejected"))], 0.0)
    for address in ("10.0.0.1", "10.0.0.2"):
        assert isinstance(offer(2, address, "cheat")[0], Acknowledge)
    assert isinstance(offer(3, "10.0.0.1", "honest")[0], Relay)
    relay.trainer_acked([(A, GameAck(number(3), "stored"))], 0.0)
    assert isinstance(offer(4, "10.0.0.1", "")[0], Relay), "of somebody who needs no key"


def test_own_workers_are_never_sent_back_for_games_that_were_refused() -> None:
    relay = relay_with_trainer()
    for uid in range(100):
        assert isinstance(relay.put(A, "worker", number(uid), SHA, 0.0, "", 2**20)[0], Relay)
        relay.trainer_acked([(A, GameAck(number(uid), "rejected"))], 0.0)


class SlowClaims:
    """The rule of `Claims`, counted from scratch each time."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._held: list[tuple[bytes, str]] = []
        self._sent_back: dict[tuple[bytes, str], float] = {}

    def take(self, peer: bytes, owner: str, now: float) -> bool:
        mine = (peer, owner)
        waiting = {who for who, at in self._sent_back.items() if now - at < CLAIM_SECONDS}
        claims = waiting | set(self._held) | {mine}
        of_owner = max(1, self._window // len({whose for _, whose in claims}))
        of_peer = max(1, of_owner // sum(whose == owner for _, whose in claims))
        has_room = (
            len(self._held) < self._window and sum(whose == owner for _, whose in self._held) < of_owner
        )
        self._sent_back.pop(mine, None)
        if has_room and self._held.count(mine) < of_peer:
            self._held.append(mine)
            return True
        self._sent_back[mine] = now
        return False

    def give_back(self, peer: bytes) -> None:
        self._held.remove(next(one for one in self._held if one[0] == peer))


EVENTS = st.lists(st.tuples(st.sampled_from(range(9)), st.booleans(), st.sampled_from([0.0, 1.0, 4.0])))


@given(EVENTS)
def test_counted_claims_give_places_as_the_slow_twin_does(events: list[tuple[int, bool, float]]) -> None:
    """Nine peers belong to four owners; an owner without claims is forgotten."""
    claims, twin, now = Claims(7), SlowClaims(7), 0.0
    for number, gives_back, seconds in events:
        peer, owner, now = b"p%d" % number, f"owner-{number % 4}", now + seconds
        if gives_back and claims.held(peer):
            claims.give_back(peer)
            twin.give_back(peer)
        else:
            assert claims.take(peer, owner, now) == twin.take(peer, owner, now)
    for number in range(9):
        while claims.held(b"p%d" % number):
            claims.give_back(b"p%d" % number)
    assert claims.take(b"last", "last", now + CLAIM_SECONDS)
    assert (dict(claims._owner), dict(claims._peers_of)) == ({b"last": "last"}, {"last": 1})


class Crowd(RuleBasedStateMachine):
    """Clients that ask in any way, and a trainer that answers in any way, compared with a slow twin."""

    WINDOW, MOST = 8, 3

    def __init__(self) -> None:
        super().__init__()
        self.relay = GameRelay(self.WINDOW, self.MOST)
        self.relay.trainer_joined()
        self.now = 0.0
        self.games = 0
        self.held: list[tuple[bytes, bytes]] = []
        self.sent_back: dict[bytes, float] = {}

    def holds(self, peer: bytes) -> int:
        return sum(holder == peer for holder, _ in self.held)

    def share(self, asking: bytes) -> int:
        back = {peer for peer, since in self.sent_back.items() if self.now - since < CLAIM_SECONDS}
        return max(1, self.WINDOW // len({asking} | back | {peer for peer, _ in self.held}))

    @rule(peer=st.sampled_from([b"p%d" % n for n in range(11)]))
    def put(self, peer: bytes) -> None:
        self.games += 1
        uid, holds, share = number(self.games), self.holds(peer), self.share(peer)
        (answer,) = self.relay.put(peer, "client", uid, SHA, self.now)
        if isinstance(answer, Relay):
            assert holds < min(self.MOST, share)
            assert len(self.held) < self.WINDOW
            self.held.append((peer, uid))
            self.sent_back.pop(peer, None)
            return
        claims = {holder for holder, _ in self.held} | {peer}
        others_keep_to_it = all(self.holds(other) <= share for other in claims)
        if share * len(claims) <= self.WINDOW and others_keep_to_it:
            assert holds >= min(self.MOST, share), "below its share, and yet sent back"
        if holds < self.MOST:
            self.sent_back[peer] = self.now

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def trainer_answers(self, data: st.DataObject) -> None:
        peer, uid = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        ack = GameAck(uid, "stored")
        assert self.relay.trainer_acked([(peer, ack)], 0.0) == [Acknowledge(peer, ack)]

    @precondition(lambda self: self.held)
    @rule()
    def trainer_is_gone(self) -> None:
        assert {i.ack.uid for i in self.relay.trainer_left()} == {uid for _, uid in self.held}
        self.relay.trainer_joined()
        self.held, self.sent_back = [], {}

    @rule(seconds=st.sampled_from([0.5, CLAIM_SECONDS, GIVE_UP + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        late = {(i.peer, i.ack.uid) for i in self.relay.expire(self.now)}
        self.held = [game for game in self.held if game not in late]

    @invariant()
    def nobody_has_more_than_it_may(self) -> None:
        assert len(self.relay) == len(self.held) <= self.WINDOW
        assert all(self.holds(peer) <= self.MOST for peer, _ in self.held)


Crowd.TestCase.settings = settings(max_examples=scaled(100), stateful_step_count=60, deadline=None)
TestCrowd = Crowd.TestCase
