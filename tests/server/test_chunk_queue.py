"""Chunks of weights go out in turns, only to peers that read, and no request is lost."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import GetChunk
from server.weights import MOST_CHUNKS, ChunkQueue


def ask(number: int) -> GetChunk:
    return GetChunk(b"s" * 32, number)


def taken(queue: ChunkQueue) -> list[tuple[bytes, int]]:
    """Return peer and offset of all chunks that are sent now."""
    return [(peer, request.offset) for peer, request in iter(queue.take, None)]


def test_peers_take_turns() -> None:
    queue = ChunkQueue(lambda _: True)
    for peer in (b"a", b"b"):
        for number in range(2):
            queue.put(peer, ask(number))
    assert taken(queue) == [(b"a", 0), (b"b", 0), (b"a", 1), (b"b", 1)]


def test_who_does_not_read_waits_and_holds_up_nobody() -> None:
    unread = {b"a"}
    queue = ChunkQueue(lambda peer: peer not in unread)
    for peer in (b"a", b"b"):
        queue.put(peer, ask(0))
    assert taken(queue) == [(b"b", 0)]
    unread.clear()
    assert taken(queue) == [(b"a", 0)]


def test_too_many_of_one_peer_are_refused_and_others_are_not() -> None:
    queue = ChunkQueue(lambda _: True)
    assert [queue.put(b"a", ask(n)) for n in range(9)] == [True] * MOST_CHUNKS + [False]
    assert [queue.has(b"a", ask(n)) for n in (7, 8)] == [True, False]
    assert queue.put(b"b", ask(0))


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(["put", "take", "forget"]))))
def test_every_request_is_sent_once_or_forgotten_with_its_peer(events: list[tuple[bytes, str]]) -> None:
    queue = ChunkQueue(lambda _: True)
    waiting: list[tuple[bytes, int]] = []
    for number, (peer, event) in enumerate(events):
        if event == "put" and queue.put(peer, ask(number)):
            waiting.append((peer, number))
        elif event == "take" and (one := queue.take()) is not None:
            peer = one[0]
            assert (peer, one[1].offset) == next(request for request in waiting if request[0] == peer)
            waiting.remove((peer, one[1].offset))
        elif event == "forget":
            queue.forget(peer)
            waiting = [one for one in waiting if one[0] != peer]
    assert sorted(taken(queue)) == sorted(waiting)
