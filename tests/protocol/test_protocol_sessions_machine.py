"""Clients, a server that restarts, and lost messages: whatever happens, all clients are joined in the end."""

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scaled_examples import scaled

from protocol.messages import PROTOCOL_VERSION, Hello, Ping, Pong, Welcome
from protocol.sessions import (
    ClientSession,
    Instruction,
    Lost,
    Session,
    SessionTable,
    hello_first,
)

PEERS = 3
HEARTBEAT, LEASE = 5.0, 20.0
peers = st.integers(0, PEERS - 1)


class Sessions(RuleBasedStateMachine):
    """Three clients, one server, and wires that keep the order but may lose messages."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.now = 0.0
        self.seed = seed
        self.begun: set[int] = set()
        self.to_server: list[list[Any]] = [[] for _ in range(PEERS)]
        self.to_client: list[list[Any]] = [[] for _ in range(PEERS)]
        self.joined = [False] * PEERS
        self.new_server()
        hello = Hello(PROTOCOL_VERSION, "worker")
        self.clients = [ClientSession(hello, 0.0, random.Random(seed + i)) for i in range(PEERS)]
        for peer, client in enumerate(self.clients):
            self.carry_out(peer, client.tick(0.0))

    def new_server(self) -> None:
        self.table = SessionTable(self.admit, lease=LEASE, rng=random.Random(self.seed + len(self.begun)))
        self.live: dict[int, Any] = {}

    def admit(self, session: Session, _now: float) -> Welcome:
        if session.number not in self.live:
            assert session.number not in self.begun
            self.begun.add(session.number)
            self.live[session.number] = session.peer
        return Welcome(session.number, "", "", "", {}, 1, 1, HEARTBEAT, LEASE)

    def end_sessions(self) -> None:
        for session in self.table.expire(self.now):
            del self.live[session.number]

    def carry_out(self, peer: int, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Hello | Ping):
                self.to_server[peer].append(instruction)
            else:
                assert isinstance(instruction, Welcome | Lost)
                assert self.joined[peer] is isinstance(instruction, Lost)
                self.joined[peer] = not self.joined[peer]

    @rule(peer=peers)
    def server_reads(self, peer: int) -> None:
        if not self.to_server[peer]:
            return
        message = self.to_server[peer].pop(0)
        if isinstance(message, Hello):
            self.to_client[peer].append(self.table.join(peer, message, self.now))
            self.end_sessions()
        elif (session := self.table.touch(peer, self.now)) is None:
            self.to_client[peer].append(hello_first())
        else:
            self.to_client[peer].append(Pong(0, session.number))

    @rule(peer=peers)
    def client_reads(self, peer: int) -> None:
        if self.to_client[peer]:
            message = self.to_client[peer].pop(0)
            self.carry_out(peer, self.clients[peer].on_message(message, self.now))

    @rule(peer=peers)
    def client_works(self, peer: int) -> None:
        if self.joined[peer]:
            self.to_server[peer].append(Ping())

    @rule(peer=peers)
    def wires_break(self, peer: int) -> None:
        self.to_server[peer].clear()
        self.to_client[peer].clear()

    @rule()
    def server_restarts(self) -> None:
        self.new_server()

    @rule(seconds=st.floats(0.0, 25.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.end_sessions()
        for peer, client in enumerate(self.clients):
            self.carry_out(peer, client.tick(self.now))
            assert client.due() > self.now

    @invariant()
    def a_peer_has_at_most_one_session(self) -> None:
        if hasattr(self, "live"):
            assert len(set(self.live.values())) == len(self.live) == len(self.table)

    @invariant()
    def clients_know_where_they_stand(self) -> None:
        for peer, client in enumerate(getattr(self, "clients", [])):
            assert self.joined[peer] is (client.welcome is not None)

    def teardown(self) -> None:
        """Once no message is lost any more, all clients join, and both ends agree on the session."""
        if not hasattr(self, "clients"):
            return
        for _ in range(80):
            self.time_passes(1.0)
            for peer in range(PEERS):
                while self.to_server[peer] or self.to_client[peer]:
                    self.server_reads(peer)
                    self.client_reads(peer)
        for peer, client in enumerate(self.clients):
            session = self.table.get(peer)
            assert session is not None
            assert client.welcome is not None
            assert session.number == client.welcome.session


Sessions.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
TestSessions = Sessions.TestCase
