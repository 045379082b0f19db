"""Joining, keeping alive, losing a session and joining again, as scripts with exact times."""

import math
import random

import pytest

from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Bye, Goodbye, Hello, Ping, Pong, Welcome
from protocol.sessions import (
    HELLO_FIRST,
    HELLO_LONGEST,
    ClientSession,
    Lost,
    Session,
    SessionTable,
)

HELLO = Hello(PROTOCOL_VERSION, "worker")
HEARTBEAT, LEASE = 5.0, 60.0


def welcome(session: int = 1, heartbeat: float = HEARTBEAT, lease: float = LEASE) -> Welcome:
    return Welcome(
        session=session,
        software="",
        run="",
        game="tic_tac_toe",
        self_play={},
        credits=64,
        games_in_flight=8,
        heartbeat=heartbeat,
        lease=lease,
    )


def client(seed: int = 0) -> ClientSession:
    return ClientSession(HELLO, 0.0, random.Random(seed))


@pytest.fixture
def session() -> ClientSession:
    """Return a client's session that has joined."""
    session = client()
    session.tick(0.0)
    session.on_message(welcome(), 0.0)
    return session


def table(limit: int = 100) -> SessionTable:
    def admit(session: Session, now: float) -> Welcome | Goodbye:
        if session.role == "watcher":
            return Goodbye(Code.ROLE_NOT_ALLOWED, "no watchers here")
        return welcome(session.number)

    return SessionTable(admit, lease=LEASE, rng=random.Random(0), limit=limit)


# ---- the client's end ----


def test_hello_is_said_again_until_there_is_an_answer() -> None:
    session, waits, now = client(), [], 0.0
    assert session.tick(now) == [HELLO]
    assert session.tick(now) == []
    for _ in range(60):
        due = session.due()
        assert session.tick(due - 1e-6) == []
        assert session.tick(due) == [HELLO]
        waits.append(due - now)
        now = due
    assert min(waits) >= HELLO_FIRST
    assert 10 < max(waits) <= HELLO_LONGEST + 1e-6


def test_clients_do_not_come_back_together() -> None:
    one, other = client(1), client(2)
    one.tick(0.0)
    other.tick(0.0)
    assert one.due() != other.due()


def test_a_welcome_to_another_session_is_a_new_beginning(session: ClientSession) -> None:
    """Unanswered requests must be sent again, so the owner is told."""
    lost, joined = session.on_message(welcome(session=2), 1.0)
    assert isinstance(lost, Lost)
    assert joined == welcome(session=2)


def test_a_peer_pings_once_a_heartbeat_whatever_it_hears(session: ClientSession) -> None:
    """So it hears from a server that has nothing to send, and learns the server's session."""
    pings = []
    for second in range(1, 201):
        for instruction in session.tick(float(second)):
            assert instruction == Ping()
            pings.append(second)
        session.on_message(Pong(session=welcome().session), float(second))
    assert pings == list(range(5, 201, 5))
    assert session.welcome is not None


def test_a_pong_of_another_session_makes_the_client_join_anew(session: ClientSession) -> None:
    """The client has the WELCOME from before a restart of the server; the one after it was lost."""
    (lost,) = session.on_message(Pong(session=2), 1.0)
    assert isinstance(lost, Lost)
    (hello,) = session.tick(session.due())
    assert isinstance(hello, Hello)
    assert hello.join == 1, "so that the server ends the session that the client does not know"


def test_a_silent_server_is_pinged_once_a_heartbeat_until_it_is_given_up(session: ClientSession) -> None:
    """It is not pinged at every tick, although nothing is received."""
    instructions = []
    for second in range(1, 61):
        instructions += session.tick(float(second))
    assert instructions[:-1] == [Ping()] * 11
    assert isinstance(instructions[-1], Lost)


def test_any_message_renews_the_lease(session: ClientSession) -> None:
    session.on_message(welcome(), 50.0)
    assert session.tick(109.0) == [Ping()]
    (lost,) = session.tick(110.0)
    assert isinstance(lost, Lost)
    assert "60.0 s" in lost.reason
    assert session.welcome is None


def test_a_busy_server_is_asked_again_after_the_time_it_named() -> None:
    session = client()
    session.tick(0.0)
    assert session.on_message(Goodbye(Code.BUSY, "full", retry_after=10.0), 1.0) == []
    assert 11.0 <= session.due() <= 16.0


def test_a_stopping_server_ends_the_session_but_not_the_client(session: ClientSession) -> None:
    """GOODBYE then names a time to come back."""
    assert session.on_message(Goodbye(Code.STOPPING, "stopping", retry_after=5.0), 1.0) == [Lost("stopping")]
    assert session.welcome is None
    assert session.tick(session.due()) != []


def test_a_final_goodbye_is_final() -> None:
    session, goodbye = client(), Goodbye(Code.PROTOCOL_TOO_OLD, "upgrade the client")
    session.tick(0.0)
    assert session.on_message(goodbye, 1.0) == [goodbye]
    assert session.on_message(welcome(), 2.0) == []
    assert session.tick(1e6) == []
    assert session.due() == math.inf


def test_leaving_says_bye_only_to_a_server_that_knows_us(session: ClientSession) -> None:
    assert session.leave() == [Bye()]
    assert session.leave() == []
    assert session.tick(1e6) == []
    assert session.due() == math.inf
    assert client().leave() == []


# ---- the server's end ----


def test_the_same_hello_again_keeps_the_session() -> None:
    """HELLO may come twice: the WELCOME was still on its way, or lost."""
    sessions = table()
    first, again = sessions.join(b"a", HELLO, 0.0), sessions.join(b"a", HELLO, 1.0)
    assert isinstance(first, Welcome)
    assert first == again
    assert len(sessions) == 1


def test_a_new_beginning_ends_the_session_before_it() -> None:
    """`expire` returns the old session at once, so that its leaves are dropped."""
    sessions = table()
    old = sessions.join(b"a", HELLO, 0.0)
    new = sessions.join(b"a", Hello(PROTOCOL_VERSION, "worker", join=1), 1.0)
    assert isinstance(old, Welcome)
    assert isinstance(new, Welcome)
    (ended,) = sessions.expire(1.0)
    assert (ended.number, ended.ended, ended.is_silent) == (old.session, "it said hello anew", False)
    assert [session.number for session in sessions.all()] == [new.session]
    assert sessions.expire(1.0) == []


def test_sessions_end_after_their_lease_unless_touched() -> None:
    sessions = table()
    for peer in (b"a", b"b"):
        sessions.join(peer, HELLO, 0.0)
    assert sessions.touch(b"a", 30.0) is not None
    assert sessions.expire(LEASE - 1) == []
    (ended,) = sessions.expire(LEASE)
    assert (ended.peer, ended.ended, ended.is_silent) == (b"b", "nothing heard from it for 60 s", True)
    assert sessions.touch(b"b", LEASE) is None


def test_a_full_table_asks_to_come_back() -> None:
    sessions = table(limit=2)
    for peer in (b"a", b"b"):
        sessions.join(peer, HELLO, 0.0)
    answer = sessions.join(b"c", HELLO, 0.0)
    assert isinstance(answer, Goodbye)
    assert (answer.code, answer.retry_after > 0) == (Code.BUSY, True)
    assert isinstance(sessions.join(b"a", HELLO, 0.0), Welcome)
    assert sessions.expire(0.0) == [], "without keys nobody loses its place to another"


def test_sessions_are_counted_by_role_however_they_end() -> None:
    sessions = table()
    trainer = Hello(PROTOCOL_VERSION, "trainer")
    for peer in (b"a", b"b", b"c"):
        sessions.join(peer, trainer, 0.0)
        sessions.join(peer, trainer, 0.0)
    assert (sessions.count("trainer"), sessions.count("worker")) == (3, 0)
    sessions.join(b"a", Hello(PROTOCOL_VERSION, "worker"), 1.0)
    sessions.leave(b"b")
    sessions.leave(b"b")
    assert (sessions.count("trainer"), sessions.count("worker")) == (1, 1)
    sessions.expire(1e9)
    assert (sessions.count("trainer"), sessions.count("worker")) == (0, 0)


@pytest.mark.parametrize(
    ("protocol", "code", "advice"),
    [
        (PROTOCOL_VERSION + 1, Code.PROTOCOL_TOO_NEW, "upgrade the server"),
        (PROTOCOL_VERSION - 1, Code.PROTOCOL_TOO_OLD, "upgrade the client"),
    ],
)
def test_another_protocol_is_told_which_side_to_upgrade(protocol: int, code: Code, advice: str) -> None:
    answer = table().join(b"a", Hello(protocol, "client"), 0.0)
    assert isinstance(answer, Goodbye)
    assert (answer.code, answer.retry_after) == (code, 0.0)
    assert f"speaks protocol {protocol}, the server {PROTOCOL_VERSION}: {advice}" in answer.reason


def test_a_key_that_has_taken_all_places_makes_room_for_others_and_for_itself_none() -> None:
    """Its newest session ends if it has at least two more than the newcomer's key."""
    sessions = table(limit=6)

    def joins(peer: int, owner: str) -> bool:
        answer = sessions.join(peer, HELLO, float(peer), owner)
        assert isinstance(answer, Welcome) or answer.code == Code.BUSY
        return isinstance(answer, Welcome)

    assert [joins(peer, "crowd") for peer in range(7)] == [True] * 6 + [False]
    assert joins(10, "honest")
    assert joins(11, "")  # one of azserver's own sessions, which need no key
    assert [(one.peer, one.owner) for one in sessions.expire(11.0)] == [(5, "crowd"), (4, "crowd")]
    assert joins(12, "honest")
    assert joins(13, "other")
    assert not joins(14, "honest"), "two of six each"
    assert not joins(15, "crowd")
    assert sorted(one.owner for one in sessions.all()) == ["", "crowd", "crowd", "honest", "honest", "other"]
