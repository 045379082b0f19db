"""What judges look at for the curve, and what for the final judgement: never the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from twice import NAME as TWICE

from evaluation.match.openings import Opening
from evaluation.match.runner import PlayedGame
from evaluation.truth.errors import expected_errors, groups_of
from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import final_rows
from experiments import recipe as recipes
from experiments.judges import any_game as judge_any
from experiments.judges import chess as judge_chess
from experiments.judges import connect_four as judge_connect_four
from experiments.judges import endgame as judge_endgame
from experiments.measures import Judgement
from experiments.training import Snapshot, Trained
from games import GAME_NAMES, get_game
from games.chess.truth import won_rows
from games.knowledge import Row
from protocol.settings import SelfPlaySettings
from runtime.exits import Fatal
from runtime.runs import RunFolder


def a_run(folder: Path) -> Trained:
    """Two snapshots, whose files nobody reads."""
    snapshots = [Snapshot(float(minute), 0, 0, f"{minute}.safetensors") for minute in (0, 1)]
    return Trained(RunFolder(folder, "r"), snapshots, {"games": 1}, 1.0, 1.0)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trained, "search", lambda *_: SelfPlaySettings())


class Asked:
    """Takes the place of whoever measures, and notes what was measured on."""

    def __init__(self) -> None:
        self.rows: list[Sequence[Row]] = []
        self.openings: dict[str, list[Opening]] = {}

    def errors_of(self, *arguments: Any) -> list[PlayerErrors]:
        rows = arguments[-1]
        self.rows.append(rows)
        groups = [expected_errors(rows, group) for group in groups_of(rows)]
        return [PlayerErrors("x", count, groups, {}) for count in (0, 64, None)]

    def play(self, _game: object, player: str, opponent: str, openings: Sequence[Opening], **_: Any) -> list:
        self.openings.setdefault(f"{player} against {opponent}", []).extend(openings)
        starts = [(one.start, swapped) for one in openings for swapped in (False, True)]
        return [PlayedGame("a", "b", "x", swapped, start, (), 0, "ply_cap", 0) for start, swapped in starts]


@pytest.mark.usefixtures("no_network")
def test_connect_four_is_judged_on_the_second_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    monkeypatch.setattr(judge_connect_four, "errors_of", asked.errors_of)
    monkeypatch.setattr(judge_connect_four, "_add_matches", lambda *_: None)
    found = judge_connect_four.judge(a_run(tmp_path), recipes.load("connect_four"), lambda _: None)
    final = final_rows(get_game("connect_four"))
    assert [len(rows) for rows in asked.rows] == [900, 900, 3000, 3000]
    matter = Counter(row.group for row in final if row.matters)
    assert {one.count for one in found.measures} == set(matter.values())
    assert all(len(points) == 2 for panel in found.curves.values() for points in panel.values())


@pytest.mark.usefixtures("no_network")
def test_an_ending_is_judged_on_positions_of_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked()
    chosen: list[list[Row]] = []

    def conversions(_player: str, rows: list[Row]) -> tuple[int, list[float]]:
        chosen.append(rows)
        return len(rows), [0.0] * len(rows)

    monkeypatch.setattr(judge_endgame, "errors_of", asked.errors_of)
    monkeypatch.setattr(judge_endgame, "conversions", conversions)
    found = judge_endgame.judge(a_run(tmp_path), recipes.load("krk"), lambda _: None)
    assert [len(rows) for rows in chosen] == [60, 200, 60, 200, 200]
    curve, final = ({row.start for rows in asked.rows for row in rows}, {row.start for row in chosen[-1]})
    assert not curve & final
    assert {one.count for one in found.measures} == {200}


def test_positions_are_drawn_apart_from_others() -> None:
    """The same seed twice would give the same ones."""
    first = won_rows("KQK", 20, 1)
    assert not {row.start for row in first} & {row.start for row in won_rows("KQK", 20, 1, apart_from=first)}


def judged_chess(folder: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Judgement:
    monkeypatch.setattr(judge_chess.contest, "play", asked.play)
    monkeypatch.setattr(judge_chess, "correlation", lambda *_: 0.5)
    monkeypatch.setattr(judge_chess, "material_positions", lambda seed: [seed])
    monkeypatch.setattr(judge_chess, "spans", lambda _: [])
    return judge_chess.judge(a_run(folder), recipes.load("chess"), lambda _: None)


@pytest.mark.usefixtures("no_network")
def test_chess_is_judged_on_openings_that_are_not_on_the_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked()
    found = judged_chess(tmp_path, asked, monkeypatch)
    (network,) = {key for key in asked.openings if "1.safetensors" in key and key.endswith("against greedy")}
    curve, final = asked.openings[network][:10], asked.openings[network][10:]
    assert len(final) == 50
    assert not {one.actions for one in curve} & {one.actions for one in final}
    for opponent in ("random", "greedy", "alphabeta:1", "alphabeta:2"):
        assert [one.count for one in found.measures if one.what == f"score against {opponent}"] == [100] * 3


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(("name", "rows"), [(TWICE, []), ("connect_four", [900, 900, 3000, 3000])])
def test_a_game_without_a_judge_of_its_own_is_judged_all_the_same(
    name: str, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against players that never change and against each other; on known positions only if there are some."""
    asked = Asked()
    monkeypatch.setattr(judge_any.contest, "play", asked.play)
    monkeypatch.setattr(judge_any, "errors_of", asked.errors_of)
    recipe = recipes.Recipe("x", "x", name, 1.0)
    assert recipe.judge == "any_game"
    found = judge_any.judge(a_run(tmp_path), recipe, lambda _: None)
    assert [len(one) for one in asked.rows] == rows
    scores = Counter(one.what for one in found.measures if one.what.startswith("score"))
    wanted = {
        "score against random": 3,
        "score against rollouts:100": 3,
        "score against the untrained network": 1,
    }
    assert scores == wanted
    assert set(found.curves["score"]) == {"against random", "against rollouts:100"}
    brief = judge_any.brief(a_run(tmp_path), recipe)
    assert brief["points lost against random"] == 0.5
    assert len(brief) == (4 if rows else 2)


def test_every_game_has_a_recipe() -> None:
    """Also one that nobody has written a file for."""
    assert recipes.load("kqk").judge == "endgame"
    assert {recipes.load(name).game for name in GAME_NAMES} == set(GAME_NAMES)
    with pytest.raises(Fatal, match="there is no recipe"):
        recipes.load("ludo")
