"""`azplay mistakes`: the mistakes in a run's own games, counted as minimax counts them."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from games_runs import records, store_run
from naive_truth import Result, child_of, legal_of, minimax
from twice import NAME as TWICE

from azselfplay.games import get_game
from azselfplay.games.connect_four import CELLS
from azselfplay.games.connect_four.knowledge import FEWEST_STONES
from azselfplay.games.knowledge import Solution, knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.truth import Mistakes, count
from azselfplay.play.truth import mistakes as main
from bench.random_games import entry
from protocol.records import GameRecord

TIC_TAC_TOE = get_game("tic_tac_toe")
CONNECT_FOUR = get_game("connect_four")


def solution_for(game: Game) -> Solution:
    solution = knowledge_of(game).solution
    assert solution is not None
    return solution


def azplay_mistakes(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["azplay mistakes", *map(str, arguments)])
    return main()


def naive(found: list[GameRecord]) -> Mistakes:
    """Count the mistakes with a slow, obvious twin for tic-tac-toe."""
    sums, seen = Mistakes("tree"), dict[bytes, Result]()
    for record in found:
        state, at = TIC_TAC_TOE.notation.state_from_text(""), 0
        for ply, action in enumerate(record.actions.tolist()):
            value = minimax(TIC_TAC_TOE, state, seen)[0]
            after = {
                one: -minimax(TIC_TAC_TOE, child_of(TIC_TAC_TOE, state, one), seen)[0]
                for one in legal_of(TIC_TAC_TOE, state)
            }
            visits = {}
            for _ in range(record.visited[ply]):
                visits[int(record.visit_actions[at])] = int(record.visits[at])
                at += 1
            most = max(visits, key=lambda one: (visits[one], -one))
            sums.positions += 1
            sums.not_most_visited += action != most
            sums.outcome_off += abs(record.outcome * (-1) ** ply - value) / 2
            sums.search_off += abs(float(record.root_values[ply]) - value) / 2
            if min(after.values()) < value:
                sums.matter += 1
                sums.played_lose += after[action] < value
                sums.most_visited_lose += after[most] < value
                lost = sum(count for one, count in visits.items() if after[one] < value)
                sums.visits_lose += lost / sum(visits.values())
            state = child_of(TIC_TAC_TOE, state, action)
    return sums


def test_games_are_counted_as_minimax_counts_them() -> None:
    """Every figure is checked on random games of tic-tac-toe."""
    found = records("tic_tac_toe", 40)
    (counted,) = count(TIC_TAC_TOE, found, solution_for(TIC_TAC_TOE))
    assert counted.played_lose > 20
    assert counted.most_visited_lose != counted.played_lose
    assert dataclasses.asdict(counted) == pytest.approx(dataclasses.asdict(naive(found)))


def test_plies_without_a_search_count_for_nothing() -> None:
    """Random openings have such plies."""
    (record,) = records("tic_tac_toe", 1)
    bare = dataclasses.replace(
        record,
        visited=np.zeros_like(record.visited),
        visits=record.visits[:0],
        visit_actions=record.visit_actions[:0],
    )
    assert count(TIC_TAC_TOE, [bare], solution_for(TIC_TAC_TOE)) == []


def test_connect_four_is_counted_from_ten_stones_on() -> None:
    """They are counted by phase, in the order of the game."""
    found = [record for record in records("connect_four", 40) if record.plies > 28][:2]
    counted = count(CONNECT_FOUR, found, solution_for(CONNECT_FOUR))
    wanted = {"opening": range(FEWEST_STONES, 14), "middle": range(14, 25), "end": range(25, CELLS)}
    plies = [ply for record in found for ply in range(record.plies)]
    assert {one.group: one.positions for one in counted} == {
        group: sum(ply in stones for ply in plies) for group, stones in wanted.items()
    }
    assert [one.group for one in counted] == list(wanted)


def test_the_command_prints_a_line_a_group_and_writes_json(tmp_path, monkeypatch, capsys) -> None:
    """It prints the shares for the newest games."""
    found = records("tic_tac_toe", 5)
    run = store_run(tmp_path / "ttt", "tic_tac_toe", [entry(record) for record in found])
    file = tmp_path / "out.json"
    assert azplay_mistakes(monkeypatch, run, "--games", 2, "--json", file) == Exit.OK
    wanted = naive(found[3:])
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["tree", str(wanted.positions)]
    assert f"{wanted.played_lose / wanted.matter:.1%}" in line.split()
    (group,) = json.loads(file.read_text())["groups"]
    assert group["outcome_off"] == pytest.approx(wanted.outcome_off / wanted.positions)
    assert group["matter"] == wanted.matter


def test_games_that_cannot_be_solved_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is so for games without a known truth, and for runs without a position that counts."""
    twice = store_run(tmp_path / "twice", TWICE, [entry(record) for record in records(TWICE, 1)])
    with pytest.raises(Fatal, match="no truth is known for the game twice") as caught:
        azplay_mistakes(monkeypatch, twice)
    assert caught.value.code is Exit.CONFIG
    chess = store_run(tmp_path / "chess", "chess", [entry(record) for record in records("chess", 1)])
    with pytest.raises(Fatal, match="no searched position"):
        azplay_mistakes(monkeypatch, chess)
    short = [record for record in records("connect_four", 60) if record.plies <= FEWEST_STONES][:1]
    run = store_run(tmp_path / "short", "connect_four", [entry(record) for record in short])
    with pytest.raises(Fatal, match="no searched position"):
        azplay_mistakes(monkeypatch, run)
