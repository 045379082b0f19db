"""Real server and trainer processes, tested with a client that is written from docs/protocol.md alone."""

import ast
import copy
import math
import os
import random
import sys
from collections.abc import Iterator

import msgpack
import pytest
from foreign_client import Client, Game, Refused
from target import PATIENCE, ROOT, SIMULATIONS, Target

pytestmark = pytest.mark.timeout(1200)


class Both(Target):
    """A server without workers, and a trainer."""

    def _is_busy(self) -> bool:
        return self.figures()["sessions"]["trainer"] == 1

    def _server_flags(self) -> list[str]:
        return [*super()._server_flags(), "--workers", "0"]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a server and a trainer of tic-tac-toe; yield their base port."""
    with Both(tmp_path_factory.mktemp("foreign"), clients=0) as both:
        yield both.port
        for name in ("server", "trainer"):
            print(f"--- {name}\n{both.log(name)}")


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[Client]:
    """Return a client that has joined both ports while the trainer is there."""
    client = Client("127.0.0.1", port, PATIENCE)
    yield client
    client.close()


@pytest.fixture(scope="module")
def stored(client: Client) -> Game:
    """Play a game of fewer than nine plies and hand it in."""
    rng = random.Random(7)
    game = client.play(rng, keep_subtree=True)
    while len(game.actions) == 9:
        game = client.play(rng, keep_subtree=True)
    ack = client.put(game.uid, game.record())
    assert (ack["status"], ack["reason"]) == ("stored", "")
    return game


def changed(good: Game, /, **columns: object) -> Game:
    """Copy a game under a new uid with other entries."""
    other = copy.deepcopy(good)
    other.uid = os.urandom(16)
    for key, value in columns.items():
        setattr(other, key, value)
    return other


def test_client_knows_nothing_of_ours() -> None:
    tree = ast.parse((ROOT / "tests" / "foreign_client.py").read_text())
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names - set(sys.stdlib_module_names) == {"msgpack", "zmq"}


def test_welcome(client: Client) -> None:
    for welcome in (client.leaves.welcome, client.bulk.welcome):
        assert welcome["game"] == "tic_tac_toe"
        assert welcome["network"] == "tiny"
        assert welcome["self_play"]["search"]["simulations"] == SIMULATIONS
        assert welcome["self_play"]["max_plies"] == 9
        assert welcome["self_play"]["history"] >= 1
        assert 0 < welcome["heartbeat"] < welcome["lease"]
        assert isinstance(welcome["session"], int)
    assert client.leaves.welcome["credits"] >= 128
    assert client.bulk.welcome["credits"] == 0
    assert client.leaves.welcome["session"] != client.bulk.welcome["session"]


def test_ping_is_answered_on_both_ports(client: Client) -> None:
    for channel in (client.leaves, client.bulk):
        pong, _ = channel.ask({"type": "ping"}, [], {"type": "pong"}, client.deadline(), resend=2.0)
        assert pong["version"] >= 0


def test_games_are_stored_once(client: Client, stored: Game) -> None:
    rng = random.Random(1)
    for keep_subtree in (False, True):
        game = client.play(rng, keep_subtree=keep_subtree)
        record = game.record()
        assert client.put(game.uid, record)["status"] == "stored"
        assert client.put(game.uid, record)["status"] == "duplicate"
    other = copy.deepcopy(stored)
    other.root_values[0] = 0.25
    assert client.put(stored.uid, other.record())["status"] == "conflict"


def test_many_rows_in_one_request(client: Client) -> None:
    empty = bytes(16 * client.settings["history"] + 8)
    rows = min(300, client.leaves.welcome["credits"])
    answers = client.evaluate([(empty, list(range(row % 9 + 1))) for row in range(rows)])
    for row, answer in enumerate(answers):
        assert len(answer.priors) == row % 9 + 1
        assert sum(answer.priors) == pytest.approx(1, abs=0.01)
        assert sum(answer.wdl) == pytest.approx(1, abs=0.001)


def test_broken_games_are_rejected_with_their_code(client: Client, stored: Game) -> None:
    """trainer/test_verify.py has the other codes."""
    game, first = changed(stored), stored.actions[0]
    twice = changed(stored, actions=[first, first, *stored.actions[2:]])
    acks = {
        "illegal_action": client.put(twice.uid, twice.record()),
        "bad_hash": client.put(game.uid, game.record(), sha256=bytes(32)),
        "too_long": client.put(game.uid, bytes(4 * 1024 * 1024 + 1)),
    }
    for code, ack in acks.items():
        assert (ack["status"], ack["reason"].split(":")[0]) == ("rejected", code)


def test_what_is_not_known_may_be_left_out(client: Client, stored: Game) -> None:
    """KL and prior value of each ply may be NaN, and the run may be empty."""
    nans = [math.nan] * len(stored.actions)
    game = changed(stored, kls=nans, said_values=nans)
    assert client.put(game.uid, game.record())["status"] == "stored"
    without_run = msgpack.packb({**msgpack.unpackb(stored.record()), "run": b"", "uid": bytes(16)})
    assert client.put(bytes(16), without_run)["status"] in ("stored", "duplicate")


def test_weights_have_the_announced_hash(client: Client, port: int) -> None:
    info = client.weights_info()
    assert info["game"] == "tic_tac_toe"
    assert info["architecture"] == "tiny"
    assert len(client.weights(info)) == info["size"]
    pong, _ = client.bulk.ask({"type": "ping"}, [], {"type": "pong"}, client.deadline(), resend=5.0)
    assert pong["version"] >= info["version"]
    for offset in (info["size"], info["size"] + 5):
        request = {"type": "get_chunk", "sha256": info["sha256"], "offset": offset}
        wanted = {"type": "chunk", "offset": offset}
        assert client.bulk.ask(request, [], wanted, client.deadline(), resend=5.0)[1] == [b""]
    request = {"type": "get_chunk", "sha256": bytes(32), "offset": 524_288}
    with pytest.raises(Refused, match="unknown_weights") as told:
        client.bulk.ask(request, [], {"type": "chunk"}, client.deadline(), resend=5.0)
    assert told.value.message["request"] == 524_288


def test_status_on_either_port(client: Client, stored: Game) -> None:
    for channel in (client.leaves, client.bulk):
        figures = client.status(channel)
        assert figures["game"] == "tic_tac_toe"
        assert figures["evals"] >= len(stored.actions)
        assert figures["games_acked"] >= 1
        assert figures["sessions"] == {"workers": 0, "clients": 1, "trainer": 1}
