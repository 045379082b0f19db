"""Judges use no position both for the curve and for the final judgement."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from azselfplay.games import get_game
from azselfplay.games.chess.knowledge import won_rows
from azselfplay.games.knowledge import Row
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.lab.experiments.judges import any_game, endgame, matches
from azselfplay.lab.experiments.judges.any_game import brief
from azselfplay.lab.experiments.measures import Judgement, check_judge, share
from azselfplay.lab.experiments.measures import judge as judge_by
from azselfplay.lab.experiments.training import Snapshot, Trained
from azselfplay.play.openings import Opening
from azselfplay.play.runner import PlayedGame
from azselfplay.play.truth_errors import PlayerErrors, expected_errors, final_rows, groups_of
from protocol.settings import SelfPlaySettings

RESULTS = Path(__file__).parents[2] / "results"


def a_run(folder: Path) -> Trained:
    """Return a run of two snapshots, whose files nobody reads."""
    snapshots = [Snapshot(float(minute), 0, 0, f"{minute}.safetensors") for minute in (0, 1)]
    return Trained(RunFolder(folder, "r"), snapshots, {"games": 1}, 1.0, 1.0)


class Asked:
    """Replaces the measuring code, and records what was measured on."""

    def __init__(self) -> None:
        self.rows: list[Sequence[Row]] = []
        self.openings: dict[str, list[Opening]] = {}

    def errors_of(self, *arguments: Any, with_search: bool = True) -> list[PlayerErrors]:
        rows = arguments[-1]
        self.rows.append(rows)
        groups = [expected_errors(rows, group) for group in groups_of(rows)]
        return [PlayerErrors("x", count, groups, {}) for count in (0, 64, None) if with_search or count != 64]

    def play(self, _game: object, player: str, opponent: str, openings: Sequence[Opening], **_: Any) -> list:
        self.openings.setdefault(f"{player} against {opponent}", []).extend(openings)
        both = [(one, swapped) for one in openings for swapped in (False, True)]
        return [PlayedGame("a", "b", "x", s, one.start, one.actions, 0, "ply_cap") for one, s in both]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(Trained, "search", lambda *_: SelfPlaySettings())
    for module in (endgame, matches):
        monkeypatch.setattr(module, "play_openings", asked.play)
    for module in (any_game, endgame):
        monkeypatch.setattr(module, "errors_of", asked.errors_of)
    monkeypatch.setattr(any_game, "add_self_play", lambda *_, **_more: None)
    return asked


def judged(name: str, folder: Path) -> Judgement:
    return judge_by(a_run(folder), recipes.load(name), lambda _: None)


def test_connect_four_is_judged_on_the_second_set(tmp_path: Path, asked: Asked) -> None:
    found = judged("connect_four", tmp_path)
    final = final_rows(get_game("connect_four"))
    assert [len(rows) for rows in asked.rows] == [5001, 3000, 5001, 3000]
    matter = Counter(row.group for row in final if row.matters)
    errors = [one for one in found.measures if one.what.startswith("errors")]
    assert {one.count for one in errors} == set(matter.values())
    players = ("raw policy", "64 simulations, puct")
    assert set(found.curves) == {f"errors where it matters, {how}" for how in players}
    assert all(len(points) == 2 for panel in found.curves.values() for points in panel.values())


def test_an_ending_is_judged_on_positions_of_another_seed(tmp_path: Path, asked: Asked) -> None:
    judged("krk", tmp_path)
    assert [len(rows) for rows in asked.rows] == [200, 200]
    (network,) = {key for key in asked.openings if "1.safetensors" in key}
    curve, final = asked.openings[network][:60], asked.openings[network][60:]
    assert (len(final), len(asked.openings["random against tablebase"])) == (200, 200)
    assert {one.start for one in curve} <= {row.start for row in asked.rows[0]}
    assert not {row.start for row in asked.rows[0]} & {one.start for one in final}


def test_positions_are_drawn_apart_from_others() -> None:
    """The same seed for both would draw the same positions."""
    first = won_rows("KQK", 20, 1, ())
    assert not {row.start for row in first} & {row.start for row in won_rows("KQK", 20, 1, first)}


def test_chess_is_judged_on_openings_and_mates_that_are_not_on_the_curve(tmp_path, asked: Asked) -> None:
    found = judged("chess", tmp_path)
    (network,) = {key for key in asked.openings if "1.safetensors" in key and key.endswith("against greedy")}
    curve, final = asked.openings[network][:10], asked.openings[network][10:]
    assert len(final) == 100
    assert not {one.actions for one in curve} & {one.actions for one in final}
    for opponent in ("random", "greedy", "alphabeta:1", "alphabeta:2"):
        for what in ("score", "games won by mate"):
            counts = [one.count for one in found.measures if one.what == f"{what} against {opponent}"]
            assert counts == [200] * 3
    watched, final_mates = asked.rows[:2]
    assert asked.rows == [watched, final_mates] * 2
    assert len({row.start for row in watched + final_mates}) == 2 * 500
    mates = [one for one in found.measures if one.what == "errors where it matters, mate in one"]
    assert [one.player for one in mates] == ["untrained, raw policy", "trained, raw policy", "random moves"]
    assert found.curves["errors where it matters, raw policy"].keys() == {"mate in one"}


@pytest.mark.parametrize(
    ("name", "rows"),
    [("go_5x5", []), pytest.param("dots_and_boxes_2x2", [899, 600, 899, 600], marks=pytest.mark.nightly)],
)
def test_a_game_without_a_recipe_is_judged_all_the_same(
    name: str, rows: list[int], tmp_path: Path, asked: Asked
) -> None:
    """Its networks play against fixed players and each other; where positions are known, they are tested on
    those."""
    recipe = recipes.Recipe("x", "x", name, 1.0)
    found = judge_by(a_run(tmp_path), recipe, lambda _: None)
    assert [len(one) for one in asked.rows] == rows
    scores = Counter(one.what for one in found.measures if one.what.startswith("score"))
    wanted = {"random": 3, "rollouts:100": 3, "the untrained network": 1}
    assert scores == {f"score against {who}": count for who, count in wanted.items()}
    assert ("score" in found.curves) == (not rows)
    final = {one.actions for openings in asked.openings.values() for one in openings[-100:]}
    asked.openings.clear()
    figures = brief(a_run(tmp_path), recipe)
    for openings in asked.openings.values():  # settings are chosen by these figures
        assert len(openings) == 100
        assert not final & {one.actions for one in openings}
    assert set(figures) == (
        {"errors, raw policy", "errors, 64 simulations"}
        if rows
        else {"points lost against random", "points lost against rollouts:100"}
    )


@pytest.mark.parametrize(("games", "last", "notes"), [(91, 10, 1), (11, 2, 1), (4, 1, 1), (3, 1, 0)])
def test_the_tenths_of_self_play_are_of_one_size(games, last, notes, tmp_path, monkeypatch) -> None:
    """Nothing is noted about games before the last three tenths if there are none."""
    stored = SimpleNamespace(outcome=1, received_at=0.0, reason="", plies=9)
    reader = SimpleNamespace(records=lambda *_: [(stored, None)] * games, close=lambda: None)
    monkeypatch.setattr(any_game, "StoreReader", lambda _: reader)
    run, found = RunFolder(tmp_path, "r"), Judgement()
    any_game.add_self_play(found, get_game("chess"), run, has_others=False)
    assert ([one.count for one in found.measures], len(found.notes)) == ([last], notes)


PUBLISHED = [name for name in recipes.names() if (RESULTS / name).exists()]
"""A new recipe has no results until it has been run."""


GONE = {"won with an extra queen against random", "correlation of the raw value with material"}
"""Targets that every published run reached, and that are no longer measured (2026-11-30)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_targets_are_those_that_the_published_results_were_held_to(name: str) -> None:
    """Figures keep their names, so that results of different age can be compared."""
    pages = list((RESULTS / name).glob("seed-*.json"))
    assert pages
    for page in pages:
        measures = Judgement.from_json(json.loads(page.read_bytes())).measures
        was = {one.target_name: one.target for one in measures if one.target is not None}
        assert recipes.load(name).targets == {name: was[name] for name in was.keys() - GONE}


def test_targets_are_for_the_last_network_and_one_that_nothing_measured_is_noted() -> None:
    found = Judgement(
        [share("wins", who, 1, 2) for who in ("trained, raw policy", "trained, puct", "untrained, puct")]
    ).with_targets({"wins": 0.4, "wins, raw policy": 0.6, "draws": 0.1})
    assert [one.reached for one in found.measures] == [False, True, None]
    assert found.notes == ["nothing was measured for the target 'draws'"]


@pytest.mark.parametrize(("game", "start"), [("chess", "KQRK"), ("chess", ""), ("connect_four", "KQK")])
def test_an_ending_without_tables_is_refused_before_training(game: str, start: str) -> None:
    server = {"self_play": {"start": {"generator": start}}}
    with pytest.raises(Fatal, match="needs an ending with tables") as found:
        check_judge(recipes.Recipe("x", "x", game, 1.0, judge="endgame", server=server))
    assert found.value.code is Exit.CONFIG
