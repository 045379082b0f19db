"""Weights reach the server, whatever is lost in transit."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import (
    CHUNK,
    Chunk,
    GetWeights,
    PutWeights,
    Refused,
    WeightsInfo,
    WeightsWanted,
)
from trainer.publishing import (
    CHUNKS_AHEAD,
    PATIENCE,
    GivenUp,
    Instruction,
    Published,
    Publisher,
    Renumber,
    Send,
    Upload,
)


def upload(version: int = 1, size: int = 3) -> Upload:
    data = bytes([version]) * size
    return Upload(WeightsInfo(version, version * 10, hashlib.sha256(data).digest(), size, "g"), data)


def joined(*uploads: Upload) -> Publisher:
    publisher = Publisher()
    publisher.on_joined(0.0)
    for one in uploads:
        publisher.offer(one, 0.0)
    return publisher


def wanted(one: Upload, offset: int) -> WeightsWanted:
    return WeightsWanted(one.info.sha256, offset)


def test_weights_are_offered_sent_and_stored() -> None:
    """After an offer, chunks follow from the requested offset; it is complete once the server has all
    bytes."""
    one = upload(size=5)
    publisher = Publisher()
    assert publisher.offer(one, 0.0) == []
    assert publisher.on_joined(0.0) == [Send(PutWeights(one.info))]
    sends = publisher.on_wanted(wanted(one, 2), 0.0)
    assert sends == [Send(Chunk(one.info.sha256, 2), one.data[2:])]
    assert publisher.on_wanted(wanted(one, 5), 0.0) == [Published(one.info)]
    assert not publisher.busy


def test_only_a_window_of_chunks_is_under_way() -> None:
    """Each acknowledgement allows one more chunk."""
    one = upload(size=(CHUNKS_AHEAD + 5) * CHUNK)
    publisher = joined(one)
    assert len(publisher.on_wanted(wanted(one, 0), 0.0)) == CHUNKS_AHEAD
    assert len(publisher.on_wanted(wanted(one, CHUNK), 0.0)) == 1
    assert publisher.on_wanted(wanted(one, CHUNK), 0.0) == []


def test_lost_connection_starts_again_where_the_server_says() -> None:
    """After the trainer has joined again, the same weights are offered, and only the missing part is sent."""
    one = upload(size=2 * CHUNK)
    publisher = joined(one)
    publisher.on_wanted(wanted(one, 0), 0.0)
    publisher.on_lost()
    assert publisher.tick(1000.0) == []
    assert publisher.on_joined(1001.0) == [Send(PutWeights(one.info))]
    (send,) = publisher.on_wanted(wanted(one, CHUNK), 1001.0)
    assert isinstance(send, Send)
    assert send.message == Chunk(one.info.sha256, CHUNK)


def test_silence_leads_to_a_new_offer() -> None:
    """Without an answer the weights are offered again after a while, but not earlier."""
    one = upload()
    publisher = joined(one)
    assert publisher.tick(PATIENCE - 1) == []
    assert publisher.tick(PATIENCE) == [Send(PutWeights(one.info))]


def test_only_the_newest_waits() -> None:
    """While weights are in transit, only the newest of the later ones waits, and follows."""
    first, second, third = upload(1), upload(2), upload(3)
    publisher = joined(first, second, third)
    done = publisher.on_wanted(wanted(first, first.info.size), 0.0)
    assert done == [Published(first.info), Send(PutWeights(third.info))]


def test_taken_version_is_renumbered() -> None:
    """A refusal by a server with a higher version leads to a still higher one."""
    one = upload(4)
    publisher = joined(one)
    refusal = Refused("weights_refused", "version 4 is not after 9")
    assert publisher.on_refused(refusal, 0.0) == [Send(GetWeights())]
    assert publisher.on_info(upload(9).info, 0.0) == [Renumber(9)]
    assert publisher.offer(upload(10), 1.0) == [Send(PutWeights(upload(10).info))]


def test_bad_weights_are_given_up() -> None:
    """A refusal for another reason ends these weights with that reason; the next are offered."""
    one, two = upload(4), upload(5)
    publisher = joined(one, two)
    publisher.on_refused(Refused("weights_refused", "not finite"), 0.0)
    given_up, send = publisher.on_info(upload(3).info, 0.0)
    assert given_up == GivenUp(one.info, "weights_refused: not finite")
    assert send == Send(PutWeights(two.info))


def test_busy_server_is_asked_later() -> None:
    """A refusal with retry_after is not final: the offer is made again at that time."""
    one = upload()
    publisher = joined(one)
    assert publisher.on_refused(Refused("busy", "", retry_after=3.0), 0.0) == []
    assert publisher.tick(2.0) == []
    assert publisher.tick(3.0) == [Send(PutWeights(one.info))]


@given(
    size=st.integers(1, 20 * CHUNK),
    losses=st.lists(st.sampled_from(["message", "connection"]), max_size=8),
    seed=st.randoms(use_true_random=False),
)
def test_any_losses_end_in_the_same_bytes(size: int, losses: list[str], seed: object) -> None:
    """A server that keeps contiguous bytes gets exactly the file, whatever messages are lost."""
    one = upload(7, size)
    publisher = joined()
    queue: list[Instruction] = publisher.offer(one, 0.0)
    stored, now = bytearray(), 0.0
    for _ in range(1000):
        if not queue:
            now += PATIENCE
            queue = publisher.tick(now)
        instruction = queue.pop(0)
        if isinstance(instruction, Published):
            break
        if losses and seed.random() < 0.3:  # type: ignore[attr-defined]
            if losses.pop() == "connection":
                publisher.on_lost()
                queue = publisher.on_joined(now)
            continue
        assert isinstance(instruction, Send)
        if isinstance(instruction.message, Chunk) and instruction.frame is not None:
            if instruction.message.offset != len(stored):
                continue
            stored += instruction.frame
        queue += publisher.on_wanted(wanted(one, len(stored)), now)
    assert bytes(stored) == one.data
    assert not publisher.busy
