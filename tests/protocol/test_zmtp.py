"""The listening end of ZMTP: whole messages come out however the bytes are cut, and little of anything else
is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_zmtp import COMMAND, GREETING, LONG, MORE, command, frame, ready

from protocol import zmtp
from protocol.messages import MAX_HELLO
from protocol.zmtp import MAX_COMMANDS, Broken, Incoming, Limits

LIMITS = Limits(frame=5000, message=6000, frames=5)
bodies = st.binary(max_size=20) | st.integers(0, 5000).map(bytes)
messages = st.lists(bodies, min_size=1, max_size=5).filter(lambda frames: sum(map(len, frames)) <= 6000)


def greeted(*, joined: bool = True, limits: Limits = LIMITS) -> Incoming:
    incoming = Incoming(limits)
    assert list(incoming.feed(GREETING + ready(identity=b"\0\1\2\3\4"))) == []
    incoming.joined = joined
    return incoming


def as_bytes(frames: list[bytes]) -> bytes:
    return b"".join(bytes(part) for part in Incoming(LIMITS).wire(frames))


def read(incoming: Incoming, data: bytes, cuts: list[int]) -> list[list[bytes]]:
    """Feed `data` in pieces; return the messages."""
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [[bytes(part) for part in parts] for piece in pieces for parts in incoming.feed(piece)]


@given(st.lists(messages, max_size=4), st.lists(st.integers(0, 30_000), max_size=12))
def test_messages_come_out_whole_wherever_the_bytes_were_cut(
    sent: list[list[bytes]], cuts: list[int]
) -> None:
    incoming = greeted()
    assert read(incoming, b"".join(map(as_bytes, sent)), cuts) == sent
    assert incoming.held == 0


@given(st.lists(st.integers(0, 200), max_size=12))
def test_the_handshake_may_be_cut_too(cuts: list[int]) -> None:
    incoming = Incoming(LIMITS)
    assert read(incoming, GREETING + ready(), cuts) == []
    assert (incoming.ready, incoming.answers_pings) == (True, True)


@given(messages, st.lists(st.integers(0, 30_000), max_size=12))
def test_without_a_session_only_the_beginning_of_frame_0_is_kept(sent: list[bytes], cuts: list[int]) -> None:
    incoming = greeted(joined=False)
    (message,) = read(incoming, as_bytes(sent), cuts)
    assert message == [sent[0][: MAX_HELLO + 1]]


@pytest.mark.parametrize(
    "data",
    [
        frame(bytes(LIMITS.frame + 1))[:9],
        frame(b"", MORE) * (LIMITS.frames + 1),
        frame(bytes(3000), MORE) * 2 + frame(bytes(1), MORE),
        command("SUBSCRIBE", bytes(2000)),
        frame(b"\x04PING\0\0", COMMAND | MORE),
        command("ERROR", b"\x02no"),
        command("SUBSCRIBE", b"x") * (MAX_COMMANDS + 1),
        bytes([LONG]) + b"\xff" * 8,
    ],
    ids=["long frame", "many frames", "long message", "long command", "more", "error", "flood", "huge"],
)
@pytest.mark.parametrize("joined", [False, True])
def test_what_is_beyond_the_limits_breaks_the_connection(data: bytes, joined: bool) -> None:
    incoming = greeted(joined=joined)
    with pytest.raises(Broken):
        list(incoming.feed(data))
    assert incoming.held <= LIMITS.message


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n" + bytes(64),
        GREETING.replace(b"NULL", b"PLAI"),
        GREETING + frame(b"message"),
        GREETING + ready("SUB"),
        GREETING + command("READY", b"\x0bSocket-Type\xff\xff\xff\xff"),
    ],
    ids=["http", "plain", "no ready", "sub", "lie"],
)
def test_only_a_dealer_that_speaks_zmtp_3_is_let_in(data: bytes) -> None:
    with pytest.raises(Broken):
        list(Incoming(LIMITS).feed(data))


def test_a_ping_is_answered_with_its_context() -> None:
    incoming = greeted()
    assert list(incoming.feed(command("PING", b"\0\x0acontext"))) == []
    assert incoming.take_replies() == command("PONG", b"context")
    assert incoming.held == 0


def test_an_older_peer_is_not_pinged() -> None:
    incoming = Incoming(LIMITS)
    list(incoming.feed(GREETING[:11] + b"\0" + GREETING[12:] + ready()))
    assert (incoming.ready, incoming.answers_pings) == (True, False)


def test_what_the_door_says_is_what_a_zmtp_peer_says() -> None:
    """Two independent writers produce the same bytes."""
    assert zmtp.GREETING == GREETING
    assert ready("ROUTER", b"") == zmtp.READY
    assert command("PING", b"\0\0") == zmtp.PING
