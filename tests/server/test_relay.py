"""Games on their way to the trainer: every game gets an answer, whatever becomes of the trainer."""

from __future__ import annotations

from protocol.messages import GameAck, RelayGame
from server.relay import GIVE_UP, RELAY_AGAIN, Acknowledge, GameRelay, Relay

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


def test_without_a_trainer_a_game_is_to_be_kept_and_offered_again_later() -> None:
    (answer,) = GameRelay().put(A, "worker", UID, SHA, 0.0)
    assert isinstance(answer, Acknowledge)
    assert (answer.ack.status, answer.ack.retry_after > 1) == ("retry", True)


def test_acknowledgements_go_back_to_the_peer_that_sent_the_game() -> None:
    relay = relay_with_trainer()
    relay.put(A, "worker", UID, SHA, 0.0)
    relay.put(B, "client", UID, SHA, 0.0)
    stored, duplicate = GameAck(UID, "stored"), GameAck(UID, "duplicate")
    assert relay.trainer_acked([(B, duplicate), (A, stored)]) == [
        Acknowledge(B, duplicate),
        Acknowledge(A, stored),
    ]
    assert (relay.relayed, relay.acked, len(relay)) == (2, 2, 0)


def test_an_acknowledgement_that_nobody_waits_for_is_dropped() -> None:
    assert relay_with_trainer().trainer_acked([(A, GameAck(UID, "stored"))]) == []


def test_a_full_window_asks_for_patience() -> None:
    relay = relay_with_trainer(window=1)
    relay.put(A, "worker", UID, SHA, 0.0)
    assert statuses(relay.put(A, "worker", OTHER, SHA, 0.0)) == [(A, "retry")]
    relay.trainer_acked([(A, GameAck(UID, "stored"))])
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
