"""Every position of a stream is answered, and in the same way as if it were alone."""

import asyncio
import dataclasses
import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pytest
from changed_settings import self_play
from every_game import EVERY_GAME
from leaf_by_leaf import HashEvaluator, placed, searched

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.host.aio import Stop
from azselfplay.play.analysis import AnalysisRequest, Analyst, Service
from azselfplay.play.driver import CHUNK, Input
from azselfplay.play.nets import load_net
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from bench.random_games import random_game

FOOLS_MATE = ["f2f3", "e7e5", "g2g4", "d8h4"]


def analysed(game: str, lines: Sequence[bytes | dict[str, Any]], *, in_flight: int = 64) -> list[Any]:
    """Return the answers of an untrained network, in the order in which they came."""
    net = load_net(None, game, threads=1)
    service = Service(Analyst(net.game, net.evaluator, net.history), in_flight=in_flight, simulations=8)
    with closing(net), TemporaryFile() as source, TemporaryFile() as sink:
        for one in lines:
            source.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
        source.seek(0)
        asyncio.run(asyncio.wait_for(service.run(source.fileno(), sink.fileno(), Stop()), 240))
        sink.seek(0)
        return [json.loads(line) for line in sink]


def positions(name: str, count: int, seed: int = 0) -> list[list[str]]:
    """Return moves that lead to positions of random games, none of them over."""
    game, rng, found = get_game(name), np.random.default_rng(seed), []
    while len(found) < count:
        record = random_game(game, rng)
        game_history = GameHistory(game)
        for action in record.actions[: int(rng.integers(0, min(60, record.plies)))]:
            game_history.play(int(action))
        found.append(game_history.moves_text())
    return found


def direct(name: str, moves: list[str], simulations: int) -> dict[str, int]:
    """Return the visits of a search made by hand, alone with its network."""
    game, net = get_game(name), load_net(None, name, threads=1)
    wanted = self_play(
        simulations=simulations, root_noise=0.0, history=net.history, max_plies=game.max_plies + len(moves)
    )
    tree = placed(SearchTree(Forest(game, resolve(wanted, game)), np.random.default_rng(1)), " ".join(moves))
    result = searched(tree, net.evaluator)
    net.close()
    texts = [game.notation.action_to_text(tree.state, int(action)) for action in result.actions]
    return dict(zip(texts, result.visits.tolist(), strict=True))


@pytest.mark.parametrize("name", EVERY_GAME)
def test_a_position_among_many_is_answered_as_a_search_of_its_own(name: str, monkeypatch) -> None:
    """Its visits, and the move and line that follow from them, do not depend on what else is in the batch."""
    # The last bits of an answer may depend on the size of its batch; those of bfloat16 could change visits.
    monkeypatch.setattr("net.cpu.engine.bfloat16_allowed", lambda: False)
    lines = positions(name, 24)
    answers = analysed(name, [{"id": i, "moves": m, "simulations": 24} for i, m in enumerate(lines)])
    by_id = {answer["id"]: answer for answer in answers}
    assert sorted(by_id) == list(range(24))
    for number in (0, 7, 23):
        answer, expected = by_id[number], direct(name, lines[number], 24)
        assert answer["visits"] == expected
        assert expected[answer["best"]] == max(expected.values())
        assert answer["pv"][0] == answer["best"]
        assert replay(get_game(name), "", lines[number] + answer["pv"]).ply > len(lines[number])


def test_without_simulations_the_network_alone_answers() -> None:
    (answer,) = analysed("connect_four", [{"id": 1, "moves": ["4"], "simulations": 0}])
    assert answer["visits"] == {}
    assert sorted(answer["policy"]) == list("1234567")
    assert sum(answer["policy"].values()) == pytest.approx(1, abs=1e-3)
    assert answer["best"] == next(iter(answer["policy"]))
    assert answer["pv"] == [answer["best"]]
    assert sum(answer["wdl"]) == pytest.approx(1, abs=1e-5)
    assert answer["value"] == pytest.approx(answer["wdl"][0] - answer["wdl"][2], abs=1e-5)


@pytest.mark.parametrize(
    ("game", "request_", "reason", "outcome", "value"),
    [
        ("chess", {"moves": FOOLS_MATE}, "checkmate", -1, -1),
        ("chess", {"fen": "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"}, "stalemate", 0, 0),
        ("chess", {"fen": '7k/5Q2/6K1/8/8/8/8/8 b - - hmvc 3; id "an EPD";'}, "stalemate", 0, 0),
        ("connect_four", {"moves": list("1212121")}, "four", 1, -1),
    ],
)
def test_a_finished_game_says_how_it_ended(
    game: str, request_: dict[str, Any], reason: str, outcome: int, value: int
) -> None:
    (answer,) = analysed(game, [{"id": 3, **request_}])
    assert answer == {"id": 3, "finished": reason, "outcome": outcome, "value": value}


def test_a_game_longer_than_in_self_play_is_analysed() -> None:
    """The cap on the length of self-play games is not a rule of chess: it counts from the given position."""
    game = get_game("chess")
    records = (random_game(game, np.random.default_rng(seed), max_plies=600) for seed in range(1000))
    record = next(record for record in records if record.plies > game.max_plies + 2)
    game_history = GameHistory(game, max_plies=1000)
    for action in record.actions[: game.max_plies + 1]:
        game_history.play(int(action))
    (answer,) = analysed("chess", [{"id": 1, "moves": game_history.moves_text(), "simulations": 4}])
    assert sum(answer["visits"].values()) == 4


def test_a_position_of_a_game_with_the_largest_cap_is_analysed() -> None:
    """Here the cap cannot count from the given position: settings allow no larger one."""
    game = dataclasses.replace(get_game("tic_tac_toe"), max_plies=10_000)
    answer = asyncio.run(Analyst(game, UniformEvaluator(), 1).answer(AnalysisRequest(1, "", ("5",), 4)))
    assert sum(answer["visits"].values()) == 4


def test_a_hundred_and_sixty_mixed_lines_are_all_answered() -> None:
    games = positions("chess", 60, seed=5)
    lines: list[bytes | dict[str, Any]] = [
        {"id": f"good {i}", "moves": moves, "simulations": i % 4} for i, moves in enumerate(games)
    ]
    lines += [{"id": f"illegal {i}", "moves": ["e2e4", "e7e5", "a1a8"]} for i in range(30)]
    lines += [{"id": f"fen {i}", "fen": "8/8/8/8/8/8/8/8 w - - 0 1"} for i in range(20)]
    lines += [{"id": f"over {i}", "moves": [*FOOLS_MATE, "e2e4"]} for i in range(20)]
    lines += [b"no json %d\n" % i for i in range(20)] + [b'{"moves": []}\n'] * 9
    lines += [b'{"id": "' + b"z" * 300_000 + b'"}\n']
    mixed = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    answers = analysed("chess", [*mixed, b"\n  \n"])
    assert len(answers) == 160
    errors = {answer["id"]: answer["error"] for answer in answers if "error" in answer and answer["id"]}
    assert len(errors) == 70
    assert errors["illegal 4"].startswith("move 3 ('a1a8'): ")
    assert errors["fen 4"] == "White has 0 kings instead of 1"
    assert errors["over 4"].startswith("move 5 ('e2e4'): ")
    assert errors["over 4"].endswith("legal: none: the game is over")
    assert sum(answer["id"] is None for answer in answers) == 30
    assert sum("best" in answer for answer in answers) == 60


async def test_a_stop_finishes_what_is_in_flight_and_reads_no_more() -> None:
    """The input is still open."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    net = load_net(None, "tic_tac_toe", threads=1)
    service = Service(Analyst(net.game, net.evaluator, net.history), in_flight=4, simulations=2)
    stop = Stop()
    os.write(write_in, b'{"id": 1}\n')
    running = asyncio.create_task(service.run(read_in, write_out, stop))
    answer = await asyncio.to_thread(os.read, read_out, 4096)
    stop.request()
    await asyncio.wait_for(running, 240)
    assert json.loads(answer)["id"] == 1
    net.close()
    for descriptor in (write_in, write_out, read_out):
        os.close(descriptor)


class CountingAnalyst(Analyst):
    """Answers nothing, and counts how many positions it has at once."""

    now = most = 0

    async def answer(self, request: AnalysisRequest) -> dict[str, Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1
        return {"id": request.id}


def test_no_more_are_worked_on_than_may_be_in_flight(tmp_path: Path) -> None:
    analyst = CountingAnalyst(get_game("tic_tac_toe"), HashEvaluator(), 1)
    service = Service(analyst, in_flight=7, simulations=2)
    (tmp_path / "in").write_bytes(b"".join(b'{"id": %d}\n' % number for number in range(500)))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        asyncio.run(asyncio.wait_for(service.run(source.fileno(), sink.fileno(), Stop()), 240))
    ids = [json.loads(line)["id"] for line in (tmp_path / "out").read_bytes().splitlines()]
    assert sorted(ids) == list(range(500))
    assert analyst.most == 7


async def test_input_is_read_no_further_than_it_is_taken(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"".join(b"%0999d\n" % number for number in range(2000)))
    with (tmp_path / "in").open("rb") as file:
        lines = Input(file.fileno(), 2000)
        seen: list[Any] = []
        chunks = 0
        while (together := await lines.lines()) is not None:
            chunks += 1
            assert os.lseek(file.fileno(), 0, os.SEEK_CUR) <= chunks * CHUNK
            seen += together
        assert [int(line) for line in seen] == list(range(2000))
