"""What a ladder keeps on disk, which networks it picks, and that it plays only missing games."""

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest
from in_process import ends

from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.book import Book, Entrant, Point, thinned
from azselfplay.play.bradley_terry import Score, chain_of
from azselfplay.play.elo import score_of_elo
from azselfplay.play.tournament import Goal, games_of, play_on

ZERO = {"random": 0.0}
SETTINGS = {"seed": 1}
STRENGTH = {"random": 0.0, "greedy": 150.0, "v0": 30.0, "v1": 300.0, "v2": 450.0}


class Simulated:
    """Plays by given strengths, and records what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, int]] = []
        self._rng = np.random.default_rng(1)

    async def play(self, first: str, second: str, skip: int, openings: int) -> Score:
        self.asked.append((first, second, skip, openings))
        wins = int(self._rng.binomial(2 * openings, score_of_elo(STRENGTH[first] - STRENGTH[second])))
        return Score(first, second, wins, 0, 2 * openings - wins)


def tournament(path: Path, players: list[str], games: int, pairings: int = 1000) -> Simulated:
    """Open the book at `path`, play up to `games` per player or `pairings`, and leave it saved."""
    simulated, names = Simulated(), ["random", "greedy", *players]
    book = Book(path, "chess", SETTINGS)
    book.enter(Entrant(name, name) for name in names)
    chain = chain_of(names[:2], players)
    done = lambda: len(simulated.asked) >= pairings  # noqa: E731
    asyncio.run(play_on(book, names, chain, ZERO, Goal(games, 5), simulated.play, done))
    return simulated


def test_a_tournament_plays_as_many_games_as_asked_and_finds_the_strengths(tmp_path: Path) -> None:
    tournament(tmp_path / "r.json", ["v0", "v1", "v2"], 600)
    book = Book(tmp_path / "r.json", "chess", SETTINGS)
    assert 600 * 4 <= games_of(book, list(STRENGTH)[1:]) < 600 * 4 + 20
    found = book.fit(ZERO).ratings
    assert {name: found[name].elo for name in STRENGTH} == pytest.approx(STRENGTH, abs=75)


def test_a_stopped_tournament_goes_on_and_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    part, rest = (tournament(tmp_path / "a", ["v0", "v1"], 100, pairings) for pairings in (7, 1000))
    whole = tournament(tmp_path / "b", ["v0", "v1"], 100)
    assert len(part.asked) == 7
    assert len(part.asked) + len(rest.asked) == len(whole.asked)
    assert not tournament(tmp_path / "a", ["v0", "v1"], 100).asked


def test_no_pairing_plays_an_opening_twice(tmp_path: Path) -> None:
    asked = tournament(tmp_path / "r", ["v0", "v1"], 200).asked
    for pair in {one[:2] for one in asked}:
        skipped = [one[2] for one in asked if one[:2] == pair]
        assert skipped == list(range(0, 5 * len(skipped), 5))


def test_new_weights_get_most_of_the_new_games(tmp_path: Path) -> None:
    tournament(tmp_path / "r", ["v0", "v1"], 200)
    asked = tournament(tmp_path / "r", ["v0", "v1", "v2"], 200).asked
    assert asked[0][:2] == ("v1", "v2")
    assert np.mean(["v2" in one[:2] for one in asked]) > 0.6


def test_players_whose_files_are_gone_keep_their_rating(tmp_path: Path) -> None:
    tournament(tmp_path / "r", ["v0", "v1"], 100)
    asked = tournament(tmp_path / "r", ["v2"], 100).asked
    assert all("v1" not in one[:2] and "v0" not in one[:2] for one in asked)
    assert {"v0", "v1", "v2"} <= Book(tmp_path / "r", "chess", SETTINGS).fit(ZERO).ratings.keys()


def test_a_book_of_another_game_or_other_openings_is_refused(tmp_path: Path) -> None:
    tournament(tmp_path / "r", ["v0"], 10)
    for game, settings, words in (("go", SETTINGS, "not 1 and go"), ("chess", {"seed": 2}, "one scale")):
        with ends(Exit.BAD_DATA, words):
            Book(tmp_path / "r", game, settings)
    (tmp_path / "r").write_bytes(b"{")
    with pytest.raises(Fatal, match="cannot be read"):
        Book(tmp_path / "r", "chess", SETTINGS)


def test_a_failed_write_leaves_the_book_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tournament(tmp_path / "r", ["v0"], 10)
    before = (tmp_path / "r").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with ends(Exit.DISK, "No space left"):
        tournament(tmp_path / "r", ["v0", "v1"], 100)
    assert (tmp_path / "r").read_bytes() == before


def points(steps: list[int]) -> list[Point]:
    return [
        Point(Path(f"{step}.safetensors"), index, step, None, 0.0, str(step))
        for index, step in enumerate(steps)
    ]


def test_thinning_prefers_networks_that_have_games_already() -> None:
    rated = {"30", "70"}
    kept = [point.step for point in thinned(points(list(range(0, 110, 10))), 4, rated)]
    assert kept == [0, 30, 70, 100]
