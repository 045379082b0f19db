"""Games that begin at positions which the game generates at random."""

from dataclasses import replace

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import played
from naive_verify import naive_verdict

from azselfplay.games import get_game
from azselfplay.games.spec import StartGenerator
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.settings import resolve
from client.self_play import Player
from protocol.errors import Code
from protocol.records import GameRecord, from_bytes, to_bytes
from protocol.settings import SelfPlaySettings
from trainer.verify import Verifier

BOARDS = {"corner": ("x../.../...", "..x/.../..."), "edge": (".x./.../...",)}


def draw(name: str, rng: np.random.Generator) -> str:
    return BOARDS[name][int(rng.integers(len(BOARDS[name])))]


def check(name: str) -> None:
    if name not in BOARDS:
        raise ValueError(f"no board {name!r}")


GENERATOR = StartGenerator("corner, edge", check, draw, lambda name, text: text in BOARDS[name])
GAME = replace(get_game("tic_tac_toe"), generator=GENERATOR)


def settings_for(names: str, often: float, **changes: object) -> SelfPlaySettings:
    settings = self_play(simulations=8, generator=names, share=often)
    return resolve(varied(settings, **changes), GAME)  # type: ignore[arg-type]


def play(number: int, settings: SelfPlaySettings) -> GameRecord:
    return played(GAME, settings, UniformEvaluator(), Player(3).rng(number))


def test_a_share_of_games_begins_at_positions_that_are_drawn_anew() -> None:
    """All names are equally likely. Records say where a game began; the trainer accepts those positions and
    no others."""
    settings = settings_for(" corner, edge ,", 0.5)
    assert settings.start.generator == "corner,edge"
    records = [play(number, settings) for number in range(60)]
    starts = [record.start for record in records]
    assert {*BOARDS["corner"], *BOARDS["edge"], ""} == set(starts)
    assert 20 <= starts.count("") <= 40
    assert 8 <= starts.count(BOARDS["edge"][0]) <= 22
    verifier = Verifier(GAME, settings)
    for record in records[:10]:
        assert naive_verdict(GAME, record) is None
        assert verifier.check(from_bytes(to_bytes(record)), 0) is None
    for strange in ("x", ".../.x./..."):
        rejection = verifier.check(replace(records[0], start=strange), 0)
        assert rejection is not None
        assert rejection.code == Code.WRONG_SETTINGS
    corners = Verifier(GAME, settings_for("corner", 0.5))
    edge = next(record for record in records if record.start == BOARDS["edge"][0])
    assert corners.check(edge, 0) is not None


def test_no_opening_plies_follow_a_start_that_was_drawn() -> None:
    """Other games of the run have opening plies; in a game from a generated position every ply is
    searched."""
    changes = {"random_share": 1.0, "random_plies": 3}
    records = [play(number, settings_for("edge", 0.5, **changes)) for number in range(30)]
    drawn = [record for record in records if record.start]
    assert 5 <= len(drawn) <= 25
    assert all((record.visited > 0).all() for record in drawn)
    assert any((record.visited == 0).any() for record in records if not record.start)


def test_opening_plies_follow_the_starts_that_are_usual_in_a_game() -> None:
    """In chess960 all games begin at them, so that the settings would have no effect otherwise."""
    assert GAME.generator is not None
    game = replace(GAME, generator=replace(GAME.generator, usual="edge"))
    settings = resolve(self_play(simulations=8, random_share=1.0, random_plies=3), game)
    records = [played(game, settings, UniformEvaluator(), Player(3).rng(number)) for number in range(9)]
    assert {record.start for record in records} == set(BOARDS["edge"])
    assert any((record.visited == 0).any() for record in records)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"generator": "corner,nowhere"}, r"no board 'nowhere'.*offers: corner, edge"),
        ({"share": 0.0}, r"start\.share is 0"),
        ({"positions": "x../.../..."}, "choose one"),
    ],
)
def test_a_generator_must_be_one_that_the_game_has(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings_for("corner", 0.5, **changes)
