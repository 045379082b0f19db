"""Each game is processed once, and every sender gets an answer."""

import msgspec
import pytest

from protocol.messages import MAX_HEADER, GameAck, RelayAck, RelayGame, decode, encode
from trainer.ingest import DISK_RETRY_AFTER, RETRY_AFTER, Done, IngestTable, Job

SHA, OTHER_SHA = bytes(32), bytes([1]) * 32


def uid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def game(number: int = 1, peer: bytes = b"a", sha256: bytes = SHA) -> RelayGame:
    return RelayGame(peer, uid(number), sha256, "clients")


def test_game_becomes_a_job_and_its_result_an_acknowledgement() -> None:
    ingest = IngestTable()
    assert ingest.on_game(game(), b"data") == Job(uid(1), SHA, "clients", b"data")
    assert ingest.on_done([Done(uid(1), "stored")]) == [RelayAck([(b"a", GameAck(uid(1), "stored"))])]


def test_acknowledgements_carry_the_threshold_of_resignation() -> None:
    """They do so where games may be resigned; elsewhere the field is left out."""
    ingest = IngestTable()
    ingest.on_game(game(), b"data")
    (message,) = ingest.on_done([Done(uid(1), "stored")], -0.875)
    assert message.acks[0][1].resign_value == -0.875
    assert b"resign_value" in encode(message)
    ingest.on_game(game(), b"data")
    assert b"resign_value" not in encode(ingest.on_done([Done(uid(1), "stored")])[0])


def test_resent_game_is_not_checked_twice() -> None:
    """A copy that comes while the first is being checked waits for the same result, which goes to its sender,
    too."""
    ingest = IngestTable()
    ingest.on_game(game(), b"data")
    assert ingest.on_game(game(), b"data") is None
    assert ingest.on_game(game(peer=b"b"), b"data") is None
    (message,) = ingest.on_done([Done(uid(1), "stored")])
    assert [peer for peer, _ in message.acks] == [b"a", b"b"]


def test_other_game_with_the_same_uid_waits_for_the_first() -> None:
    ingest = IngestTable()
    ingest.on_game(game(), b"data")
    answer = ingest.on_game(game(peer=b"b", sha256=OTHER_SHA), b"other")
    assert isinstance(answer, RelayAck)
    assert answer.acks[0][1].status == "retry"
    ingest.on_done([Done(uid(1), "stored")])
    assert isinstance(ingest.on_game(game(sha256=OTHER_SHA), b"other"), Job)


def test_full_table_sends_games_back() -> None:
    ingest = IngestTable(limit=1)
    ingest.on_game(game(1), b"")
    answer = ingest.on_game(game(2), b"")
    assert isinstance(answer, RelayAck)
    ack = answer.acks[0][1]
    assert ack.status == "retry"
    assert ack.retry_after > 0


def test_failed_commit_asks_to_wait_longer() -> None:
    ingest = IngestTable()
    ingest.on_game(game(), b"")
    (message,) = ingest.on_done([Done(uid(1), "retry", "disk")])
    assert message.acks[0][1].retry_after == DISK_RETRY_AFTER


def test_large_commits_are_acknowledged_in_several_messages() -> None:
    """No header is longer than the server reads, and each is as full as possible."""
    ingest = IngestTable()
    long = "\U0001f600" * 2000
    for number in range(4096):
        ingest.on_game(game(number, b"p" * 64), b"")
    done = [Done(uid(number), "rejected", long if number < 20 else "") for number in range(4096)]
    messages = ingest.on_done(done)
    sizes = [len(encode(message)) for message in messages]
    assert max(sizes) <= MAX_HEADER
    assert all(decode(encode(message)) == message for message in messages)
    assert [ack.uid for message in messages for _, ack in message.acks] == [one.uid for one in done]
    assert all(size > MAX_HEADER // 2 for size in sizes[:-1])


def test_a_game_that_cannot_be_read_is_sent_again_and_its_place_is_free() -> None:
    """This holds whatever else is wrong with its header, for instance a field's name that a flipped byte
    changed."""
    header = {"type": "relay_game", "peer": b"a" * 400, "uid": uid(1), "sha256": b"short", "source": 5}
    answer = IngestTable().on_unreadable(msgspec.msgpack.encode(header), "no such source")
    again = GameAck(uid(1), "retry", "internal: no such source", RETRY_AFTER)
    assert answer == RelayAck([(b"a" * 400, again)])


HEADER = {"type": "relay_game", "peer": b"a", "uid": uid(1), "sha256": SHA, "source": "clients"}


@pytest.mark.parametrize(
    "header",
    [
        msgspec.msgpack.encode({"type": "status"}),
        msgspec.msgpack.encode({"type": "relay_game", "peer": b"a", "uid": b"short"}),
        msgspec.msgpack.encode([1]),
        b"\xc1",
        msgspec.msgpack.encode(HEADER).replace(b"source", b"sour\xffe").replace(b"y_game", b"y_gam\xff"),
    ],
    ids=["another message", "no uid", "a list", "no message", "text that is no UTF-8"],
)
def test_nobody_is_answered_for_what_is_no_game(header: bytes) -> None:
    """tests/faults/fuzz.py found the last header, in which bytes were flipped in transit."""
    assert IngestTable().on_unreadable(header, "why") is None
