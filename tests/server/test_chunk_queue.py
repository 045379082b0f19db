"""Chunks of weights go out at limited rates per place and in all, in turns, and none is lost."""

from hypothesis import given
from hypothesis import strategies as st

from azselfplay.link.pacing import PaceLimits
from protocol.messages import CHUNK, GetChunk
from server.weights import LEAST_PRICE, MOST_CHUNKS, MOST_OF_PLACE, ChunkQueue

NEAR, FAR = "10.0.0.1", "10.0.0.2"
SLOW = PaceLimits(rate=LEAST_PRICE, burst=LEAST_PRICE)
"""One smallest chunk a second, and one at once."""
FAST = PaceLimits(rate=1.0, burst=1e12)
FAST_ENOUGH = PaceLimits(rate=1e12, burst=1e12)


def queue_at(pace: PaceLimits) -> ChunkQueue:
    """Return a queue for peers that read everything at once."""
    return ChunkQueue(lambda _: True, pace)


def ask(number: int) -> GetChunk:
    return GetChunk(b"s" * 32, number)


def taken(queue: ChunkQueue, now: float, size: int = 0) -> list[tuple[bytes, int]]:
    """Return peer and offset of all chunks that are sent at `now`."""
    out = []
    while (one := queue.take(now)) is not None:
        peer, place, request = one
        queue.sent(place, size, now)
        out.append((peer, request.offset))
    return out


def test_what_is_beyond_the_pace_of_its_address_waits_and_is_sent() -> None:
    queue = queue_at(SLOW)
    for number in range(4):
        assert queue.put(b"a", NEAR, ask(number))
    assert taken(queue, 0.0) == [(b"a", 0), (b"a", 1)]
    assert queue.wait(0.25) == 0.75
    assert taken(queue, 0.9) == []
    assert taken(queue, 1.0) == [(b"a", 2)]
    assert taken(queue, 60.0) == [(b"a", 3)]
    assert queue.wait(60.0) is None


def test_one_address_does_not_hold_up_another_nor_this_machine() -> None:
    queue = queue_at(SLOW)
    for peer, place in ((b"a", NEAR), (b"b", FAR), (b"own", "")):
        for number in range(3):
            queue.put(peer, place, ask(number))
    sent = taken(queue, 0.0)
    assert sent[:3] == [(b"a", 0), (b"b", 0), (b"own", 0)]
    assert [sum(peer == who for who, _ in sent) for peer in (b"a", b"b", b"own")] == [2, 2, 3]


def test_all_places_together_have_a_pace_and_divide_it() -> None:
    """They take turns, this machine's own place included; what exceeds the rate waits and is sent later."""
    queue = ChunkQueue(lambda _: True, FAST, to_all=SLOW)
    for peer, place in ((b"a", "key lab-3"), (b"b", NEAR), (b"own", "")):
        for number in range(2):
            queue.put(peer, place, ask(number))
    sent = [taken(queue, second) for second in (100.0, 100.5, 101.0, 102.0, 103.0, 104.0)]
    assert sent == [[(b"a", 0), (b"b", 0)], [], [(b"own", 0)], [(b"a", 1)], [(b"b", 1)], [(b"own", 1)]]
    assert queue.wait(104.0) is None
    queue.put(b"a", "key lab-3", ask(2))
    assert queue.wait(104.25) == 0.75


def test_while_the_pace_of_all_is_used_up_no_place_is_looked_at() -> None:
    looked: list[bytes] = []
    queue = ChunkQueue(lambda peer: not looked.append(peer), FAST, to_all=SLOW)
    for number in range(3):
        queue.put(b"a", NEAR, ask(number))
    assert len(taken(queue, 0.0)) == 2
    looked.clear()
    assert queue.wait(0.25) == 0.75
    assert looked == []


def test_who_is_refused_comes_back_when_what_waits_is_sent() -> None:
    """A crowd that came back every second would be refused all the time, which costs the front a core."""
    one, half = PaceLimits(CHUNK, CHUNK), PaceLimits(CHUNK / 2, CHUNK)
    for to_all, pauses in ((FAST_ENOUGH, (1.0, 8.0, 1.0, 1.0)), (half, (1.0, 16.0, 16.0, 16.0))):
        queue = ChunkQueue(lambda _: True, one, to_all)
        before = queue.retry_after(NEAR)
        for number in range(MOST_CHUNKS):
            queue.put(b"a", NEAR, ask(number))
        assert (before, *map(queue.retry_after, (NEAR, FAR, ""))) == pauses


def test_peers_at_one_address_take_turns() -> None:
    queue = queue_at(FAST)
    for peer in (b"a", b"b"):
        for number in range(2):
            queue.put(peer, NEAR, ask(number))
    assert taken(queue, 0.0) == [(b"a", 0), (b"b", 0), (b"a", 1), (b"b", 1)]


def test_who_does_not_read_waits_and_holds_up_nobody() -> None:
    unread = {b"a"}
    queue = ChunkQueue(lambda peer: peer not in unread, FAST)
    for peer in (b"a", b"b"):
        queue.put(peer, NEAR, ask(0))
    assert taken(queue, 0.0) == [(b"b", 0)]
    assert queue.wait(0.0) is None
    unread.clear()
    assert queue.wait(0.0) == 0.0
    assert taken(queue, 0.0) == [(b"a", 0)]


def test_too_many_of_one_peer_or_address_are_refused_and_others_are_not() -> None:
    queue = queue_at(FAST)
    assert [queue.put(b"a", NEAR, ask(n)) for n in range(9)] == [True] * MOST_CHUNKS + [False]
    assert [queue.has(b"a", NEAR, ask(n)) for n in (7, 8)] == [True, False]
    for number in range(MOST_OF_PLACE):
        queue.put(b"%d" % number, NEAR, ask(number))
    assert len(queue) == MOST_OF_PLACE
    assert not queue.put(b"late", NEAR, ask(0))
    assert queue.put(b"b", FAR, ask(0))


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(["put", "take", "forget"]))))
def test_every_request_is_sent_once_or_forgotten_with_its_peer(events: list[tuple[bytes, str]]) -> None:
    queue = queue_at(FAST)
    waiting: list[tuple[bytes, int]] = []
    for number, (peer, event) in enumerate(events):
        if event == "put" and queue.put(peer, NEAR if peer < b"c" else "", ask(number)):
            waiting.append((peer, number))
        elif event == "take" and (one := queue.take(0.0)) is not None:
            peer = one[0]
            assert (peer, one[2].offset) == next(request for request in waiting if request[0] == peer)
            waiting.remove((peer, one[2].offset))
        elif event == "forget":
            queue.forget(peer)
            waiting = [one for one in waiting if one[0] != peer]
        assert len(queue) == len(waiting)
        assert (queue.wait(0.0) is None) == (not waiting)
