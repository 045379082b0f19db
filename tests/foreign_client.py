"""A client of azserver, written from docs/protocol.md alone. It needs only ZeroMQ, MessagePack and the
standard library."""

import hashlib
import math
import os
import random
import struct
import sys
import time
from dataclasses import dataclass, field

import msgpack
import zmq

PROTOCOL = 5
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
Message = tuple[dict, list[bytes]]


class Goodbye(Exception):
    """The server ended the session, or did not begin it."""

    def __init__(self, message: dict):
        super().__init__(f"{message['code']}: {message['reason']}")
        self.message = message


class Refused(Exception):
    """The server will not answer a request."""

    def __init__(self, message: dict):
        super().__init__(f"{message['code']}: {message['reason']}")
        self.message = message


class Channel:
    """One DEALER connection: it joins by itself, sends pings, and makes requests with a deadline."""

    def __init__(self, address: str, role: str = "client", protocol: int = PROTOCOL):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self.role = role
        self.protocol = protocol
        self.join = 0
        self.welcome: dict = {}
        self.sent_at = self.heard_at = self.pinged_at = time.monotonic()

    def send(self, header: dict, *frames: bytes) -> None:
        """Send a header and its raw frames."""
        self.socket.send_multipart([msgpack.packb(header), *frames])
        self.sent_at = time.monotonic()

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, or None if none came in time."""
        if not self.socket.poll(max(0, int(seconds * 1000))):
            return None
        head, *frames = self.socket.recv_multipart()
        self.heard_at = time.monotonic()
        header = msgpack.unpackb(head)
        if header["type"] == "grant":
            self.welcome |= {key: header[key] for key in ("credits", "games_in_flight")}
        return header, frames

    def hello(self, deadline: float) -> dict:
        """Repeat hello after growing random waits until welcome comes. Raises Goodbye if the server refuses
        for good."""
        hello = {"type": "hello", "protocol": self.protocol, "role": self.role}
        hello |= {"name": "foreign", "software": "foreign client 1.0", "join": self.join}
        wait = 0.2
        while time.monotonic() < deadline:
            self.send(hello)
            answer = self._answer_to_hello(wait * random.uniform(1.0, 1.5))
            if answer is not None and answer["type"] == "welcome":
                self.welcome = answer
                return answer
            if answer is not None:
                if not answer["retry_after"] and answer["code"] != "hello_required":
                    raise Goodbye(answer)
                time.sleep(min(answer["retry_after"], max(0.0, deadline - time.monotonic())))
            wait = min(30.0, wait * 2)
        raise TimeoutError("no answer to hello")

    def _answer_to_hello(self, seconds: float) -> dict | None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and message[0]["type"] in ("welcome", "goodbye"):
                return message[0]
        return None

    def beat(self) -> None:
        """Send a ping if nothing was sent, or nothing was received, for as long as welcome said."""
        quiet_since = max(min(self.sent_at, self.heard_at), self.pinged_at)
        if self.welcome and time.monotonic() - quiet_since >= self.welcome["heartbeat"]:
            self.send({"type": "ping"})
            self.pinged_at = self.sent_at

    def ask(self, header: dict, frames: list[bytes], wanted: dict, deadline: float, resend: float) -> Message:
        """Send a request, again every `resend` seconds, until a message with the `wanted` entries comes."""
        again = 0.0
        number = header.get("offset" if header["type"] == "get_chunk" else "request", 0)
        while (now := time.monotonic()) < deadline:
            if now >= again:
                self.send(header, *frames)
                again = now + resend
            self.beat()
            message = self.receive(min(again, deadline, now + 0.5) - now)
            if message is None:
                continue
            if message[0]["type"] == "goodbye":
                wait = message[0]["retry_after"]
                if not wait and message[0]["code"] != "hello_required":
                    raise Goodbye(message[0])
                time.sleep(max(0.0, min(wait, deadline - time.monotonic())))
                self.join += 1
                self.hello(deadline)
                again = 0.0
            elif message[0]["type"] == "refused" and message[0]["request"] == number:
                raise Refused(message[0])
            elif all(message[0].get(key) == value for key, value in wanted.items()):
                return message
        raise TimeoutError(f"no answer to {header['type']}")

    def close(self, *, bye: bool = True) -> None:
        """Send bye and close, which waits half a second at most for the bye to go out."""
        if bye:
            self.send({"type": "bye"})
        self.socket.close(linger=500 if bye else 0)


def winner(board: list[int]) -> int:
    """Return +1 or -1 for the player who has a line, else 0."""
    for a, b, c in LINES:
        if board[a] and board[a] == board[b] == board[c]:
            return board[a]
    return 0


def pack(boards: list[list[int]], mover: int, history: int) -> bytes:
    """Pack the newest `history` boards as words, newest first: for each, the mover's stones and the other's.
    Then comes 1 if the first player is to move, else 0."""
    words = []
    for back in range(history):
        board = boards[-1 - back] if back < len(boards) else [0] * 9
        words += [sum(1 << cell for cell in range(9) if board[cell] == who) for who in (mover, -mover)]
    return struct.pack(f"<{len(words)}QfI", *words, 1.0 if mover == 1 else 0.0, 0)


def mask_of(legal: list[int], mask_bytes: int) -> bytes:
    """Return legal actions as a mask: a bit for each action of the game."""
    return sum(1 << action for action in legal).to_bytes(mask_bytes, "little")


def spread(total: int, cells: list[int]) -> dict[int, int]:
    """Spread visits over cells as evenly as possible, leaving out cells that get none."""
    each, more = divmod(total, len(cells))
    visits = {cell: each + (at < more) for at, cell in enumerate(cells)}
    return {cell: count for cell, count in visits.items() if count}


def divergence(visits: dict[int, int], priors: dict[int, float]) -> float:
    """Return the KL divergence of the shares of the visits from the priors, in nats."""
    all_visits, all_priors = sum(visits.values()), sum(priors.values())
    kl = 0.0
    for cell, count in visits.items():
        share = count / all_visits
        kl += share * math.log(share / max(priors[cell] / all_priors, 1e-8))
    return max(0.0, kl)


@dataclass
class Evaluation:
    """The server's answer for one position."""

    priors: list[float]
    wdl: tuple[float, float, float]
    version: int


@dataclass
class Game:
    """A game in progress, in the columns of the record."""

    game: str
    max_plies: int
    simulations: int
    run: bytes
    uid: bytes = field(default_factory=lambda: os.urandom(16))
    start: str = ""
    outcome: int = 0
    reason: str = ""
    actions: list[int] = field(default_factory=list)
    visits: list[dict[int, int]] = field(default_factory=list)
    root_values: list[float] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    kls: list[float] = field(default_factory=list)
    said_values: list[float] = field(default_factory=list)

    def record(self) -> bytes:
        """Return the record's bytes."""
        plies = len(self.actions)
        cells = [cell for visits in self.visits for cell in sorted(visits)]
        counts = [visits[cell] for visits in self.visits for cell in sorted(visits)]
        return msgpack.packb(
            {
                "format": 5,
                "uid": self.uid,
                "game": self.game,
                "start": self.start,
                "max_plies": self.max_plies,
                "simulations": self.simulations,
                "outcome": self.outcome,
                "reason": self.reason,
                "seed": 0,
                "source": "foreign",
                "seconds": 0.5,
                "actions": struct.pack(f"<{plies}H", *self.actions),
                "visited": struct.pack(f"<{plies}H", *map(len, self.visits)),
                "visit_actions": struct.pack(f"<{len(cells)}H", *cells),
                "visits": struct.pack(f"<{len(counts)}H", *counts),
                "root_values": struct.pack(f"<{plies}f", *self.root_values),
                "flags": struct.pack(f"<{plies}B", *self.flags),
                "versions": struct.pack(f"<{plies}I", *self.versions),
                "prior_kl": struct.pack(f"<{plies}e", *self.kls),
                "prior_values": struct.pack(f"<{plies}e", *self.said_values),
                "mean_depths": b"\x00\x7e" * plies,
                "max_depths": bytes(plies),
                "run": self.run,
            }
        )


class Client:
    """Both connections of one player, and what it can do over them; every call has a deadline in seconds."""

    def __init__(self, host: str, port: int, seconds: float = 20.0):
        self.seconds = seconds
        self.leaves = Channel(f"tcp://{host}:{port}")
        self.bulk = Channel(f"tcp://{host}:{port + 1}")
        self.requests = 0
        for channel in (self.leaves, self.bulk):
            channel.hello(self.deadline())
        self.settings = self.leaves.welcome["self_play"]

    def deadline(self) -> float:
        """Return the time by which a call that begins now must be over."""
        return time.monotonic() + self.seconds

    def evaluate(self, positions: list[tuple[bytes, list[int]]]) -> list[Evaluation]:
        """Evaluate packed positions with their legal actions; the answer may come in any parts."""
        self.requests += 1
        header = {"type": "evaluate", "request": self.requests, "rows": len(positions)}
        lists = [legal for _, legal in positions]
        frames = [b"".join(packed for packed, _ in positions)]
        frames.append(struct.pack(f"<{len(lists)}H", *map(len, lists)))
        frames.append(b"".join(struct.pack(f"<{len(legal)}H", *legal) for legal in lists))
        answers: dict[int, Evaluation] = {}
        deadline = self.deadline()
        wanted = {"type": "evaluated", "request": self.requests}
        answer = self.leaves.ask(header, frames, wanted, deadline, resend=10.0)
        while True:
            self._take_part(answer, lists, answers)
            if len(answers) == len(positions):
                return [answers[row] for row in range(len(positions))]
            part = self.leaves.receive(min(10.0, deadline - time.monotonic()))
            if part is None or any(part[0].get(key) != value for key, value in wanted.items()):
                part = self.leaves.ask(header, frames, wanted, deadline, resend=10.0)
            answer = part

    def _take_part(self, answer: Message, lists: list[list[int]], answers: dict[int, Evaluation]) -> None:
        header, (priors_frame, wdl_frame) = answer
        at = 0
        for row in range(header["rows"]):
            legal = lists[header["first"] + row]
            priors = list(struct.unpack_from(f"<{len(legal)}e", priors_frame, at))
            wdl = struct.unpack_from("<3f", wdl_frame, 12 * row)
            answers[header["first"] + row] = Evaluation(priors, wdl, header["version"])
            at += 2 * len(legal)
        if at != len(priors_frame) or 12 * header["rows"] != len(wdl_frame):
            raise ValueError("evaluated has frames of another size than its rows")

    def play(self, rng: random.Random, *, keep_subtree: bool) -> Game:
        """Play one game of tic-tac-toe with made-up visits; check each evaluation."""
        welcome = self.leaves.welcome
        game = Game(
            welcome["game"],
            self.settings["max_plies"],
            self.settings["search"]["simulations"],
            welcome["run_id"],
        )
        boards, mover = [[0] * 9], 1
        while not game.reason:
            board = boards[-1]
            legal = [cell for cell in range(9) if not board[cell]]
            [said] = self.evaluate([(pack(boards, mover, self.settings["history"]), legal)])
            if abs(sum(said.priors) - 1) > 0.01 or abs(sum(said.wdl) - 1) > 0.001:
                raise ValueError(f"not probabilities: {said}")
            kept = game.visits[-1][game.actions[-1]] - 1 if keep_subtree and game.actions else 0
            visits = spread(game.simulations + kept, legal)
            action = rng.choice(sorted(visits))
            game.actions.append(action)
            game.visits.append(visits)
            game.root_values.append(max(-1.0, min(1.0, said.wdl[0] - said.wdl[2])))
            game.said_values.append(game.root_values[-1])
            priors = dict(zip(legal, said.priors, strict=True))
            game.kls.append(divergence(visits, priors))
            most = max(sorted(visits), key=lambda cell: visits[cell])
            game.flags.append(9 if priors[most] < max(said.priors) else 1)
            game.versions.append(said.version)
            board = [*board[:action], mover, *board[action + 1 :]]
            boards.append(board)
            mover = -mover
            game.outcome = winner(board)
            if game.outcome:
                game.reason = "line"
            elif all(board):
                game.reason = "board_full"
            elif len(game.actions) == game.max_plies:
                game.reason = "ply_cap"
        return game

    def put(self, uid: bytes, record: bytes, sha256: bytes | None = None) -> dict:
        """Hand in a record until the server gives a final answer, and return that game_ack."""
        header = {"type": "put_game", "uid": uid, "sha256": sha256 or hashlib.sha256(record).digest()}
        deadline = self.deadline()
        while True:
            ack, _ = self.bulk.ask(header, [record], {"type": "game_ack", "uid": uid}, deadline, resend=30.0)
            if ack["status"] != "retry":
                return ack
            time.sleep(max(0.0, min(ack["retry_after"], deadline - time.monotonic())))

    def status(self, channel: Channel) -> dict:
        """Return the server's figures."""
        answer, _ = channel.ask({"type": "get_status"}, [], {"type": "status"}, self.deadline(), resend=2.0)
        return answer["figures"]

    def weights_info(self) -> dict:
        """Return the description of the current weights."""
        request = {"type": "get_weights"}
        return self.bulk.ask(request, [], {"type": "weights_info"}, self.deadline(), resend=2.0)[0]

    def weights(self, info: dict) -> bytes:
        """Pull a weights file chunk by chunk and check its hash."""
        data, deadline = b"", self.deadline()
        while len(data) < info["size"]:
            request = {"type": "get_chunk", "sha256": info["sha256"], "offset": len(data)}
            wanted = {"type": "chunk", "sha256": info["sha256"], "offset": len(data)}
            _, [chunk] = self.bulk.ask(request, [], wanted, deadline, resend=5.0)
            if not 0 < len(chunk) <= 524_288:
                raise ValueError(f"a chunk of {len(chunk)} bytes")
            data += chunk
        if hashlib.sha256(data).digest() != info["sha256"]:
            raise ValueError("the weights have another hash than announced")
        return data

    def close(self) -> None:
        """Leave: send bye on both ports."""
        self.leaves.close()
        self.bulk.close()


def main() -> None:
    """Play a game against the server at HOST PORT."""
    client = Client(sys.argv[1], int(sys.argv[2]))
    game = client.play(random.Random(), keep_subtree=True)
    print(game.reason, game.actions, client.put(game.uid, game.record()))
    client.close()


if __name__ == "__main__":
    main()
