"""Games in which a side resigns: who may resign, when, what the record says, and how the trainer checks
it."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, Leaf, LeafByLeaf, played, uniform
from mutations import with_visits

from azselfplay.games import get_game
from azselfplay.games.spec import RESIGNATION
from azselfplay.games.stubs import Movers
from azselfplay.search.settings import resolve
from client.self_play import Player, Resigning
from protocol.errors import Code
from protocol.records import PLAYED_ON, BadRecord, GameRecord, from_bytes, to_bytes
from protocol.settings import SelfPlaySettings
from trainer.verify import Verifier

GAME, DOTS = get_game("connect_four"), get_game("dots_and_boxes_2x2")


class Despairing(LeafByLeaf):
    """A network that expects the second player to lose, more so as the game goes on."""

    def answer(self, leaf: Leaf) -> Answer:
        own, other = (int(word).bit_count() for word in leaf.features[:2])
        value = min(1.0, 0.1 * (own + other)) * (1 if own == other else -1)
        return uniform(leaf)[0], value


def settings_for(**changes: object) -> SelfPlaySettings:
    settings = self_play(simulations=1, selection="gumbel", value=-0.5, mistakes=0.0)
    return resolve(varied(settings, **changes), GAME)  # type: ignore[arg-type]


def play(number: int, settings: SelfPlaySettings, resigning: Resigning | None = None) -> GameRecord:
    rng = Player(3).rng(number)
    return played(GAME, settings, Despairing(), rng, resigning=resigning)


def games(settings: SelfPlaySettings, count: int = 40, threshold: float | None = None) -> list[GameRecord]:
    resigning = Resigning(settings)
    if threshold is not None:
        resigning.set_threshold(threshold)
    return [play(number, settings, resigning) for number in range(count)]


def code_of(record: GameRecord, settings: SelfPlaySettings) -> Code | None:
    rejection = Verifier(GAME, settings).check(record, 0)
    return None if rejection is None else rejection.code


def is_played_on(record: GameRecord) -> bool:
    return bool(record.flags[0] & PLAYED_ON)


def test_a_side_gives_up_with_the_move_at_which_its_value_is_low_enough() -> None:
    """It resigns at exactly that move, and it loses; the trainer accepts the game."""
    settings = settings_for()
    records = games(settings)
    resigned = [record for record in records if record.reason == RESIGNATION]
    assert len(resigned) > 20
    for record in records:
        assert code_of(from_bytes(to_bytes(record)), settings) is None
        if not is_played_on(record):
            low = record.root_values[:-1] <= -0.5
            assert not low.any()
    for record in resigned:
        assert record.root_values[-1] <= -0.5
        assert record.outcome == (-1 if record.plies % 2 else 1)
    assert {record.outcome for record in resigned} == {1}


def test_a_share_of_games_is_played_on() -> None:
    """Here it is a quarter. These games are marked at every ply and end by the rules despite low values."""
    records = games(settings_for(play_on=0.25), 60)
    played_on = [record for record in records if is_played_on(record)]
    assert 8 <= len(played_on) <= 24
    for record in played_on:
        assert record.reason != RESIGNATION
        assert (record.flags & PLAYED_ON != 0).all()
    assert sum((record.root_values[:-1] <= -0.5).any() for record in played_on) > 5
    assert all((record.flags & PLAYED_ON == 0).all() for record in records if not is_played_on(record))


def test_without_the_setting_games_are_what_they_were() -> None:
    """Nobody resigns, no game is marked, no random number is drawn."""
    off = settings_for(value=0.0)
    for number in range(5):
        record = play(number, off)
        assert not is_played_on(record)
        assert record.reason != RESIGNATION
        again = play(number, varied(off, play_on=0.9))
        assert again.actions.tolist() == record.actions.tolist()


def test_nobody_gives_up_before_the_trainer_names_a_threshold() -> None:
    """Afterwards that threshold counts, but never one above the setting."""
    settings = settings_for(mistakes=0.05, play_on=0.1)
    assert {record.reason for record in games(settings, 15)} <= {"four", "board_full"}
    assert {record.reason for record in games(settings, 15, threshold=0.0)} <= {"four", "board_full"}
    for threshold, highest in ((-0.7, -0.7), (-0.1, -0.5)):
        some = games(settings, 15, threshold=threshold)
        resigned = [record for record in some if record.reason == RESIGNATION]
        assert len(resigned) > 3
        assert all(record.root_values[-1] <= highest for record in resigned)


def test_who_gives_up_with_a_move_after_which_he_moves_again_has_lost_too() -> None:
    """The side that made the last move loses, whoever's turn comes next; the trainer checks the same."""
    settings = resolve(self_play(simulations=1, selection="gumbel", value=-0.2, mistakes=0.0), DOTS)
    verifier, movers, seen = Verifier(DOTS, settings), Movers(DOTS), set()
    for number in range(60):
        record = played(DOTS, settings, Despairing(), Player(3).rng(number))
        assert verifier.check(record, 0) is None
        if record.reason == RESIGNATION:
            signs = movers(record.start, np.append(record.actions, np.uint16(0)))
            assert record.outcome == -signs[-2]
            turned = dataclasses.replace(record, outcome=-record.outcome)
            rejection = verifier.check(turned, 0)
            assert rejection is not None
            assert rejection.code == Code.WRONG_OUTCOME
            seen.add(bool(signs[-1] == signs[-2]))
    assert seen == {True, False}


def test_an_opening_cannot_be_resigned() -> None:
    """Only a side that has searched can know its value: the last ply of a resigned game has visits."""
    for record in games(settings_for(random_share=1.0, random_plies=20), 20):
        assert record.visited[-1] > 0
        assert code_of(record, settings_for(random_share=1.0, random_plies=20)) is None


@pytest.fixture(scope="module")
def resigned() -> GameRecord:
    return next(record for record in games(settings_for()) if record.reason == RESIGNATION)


def test_false_resignations_are_refused(resigned: GameRecord) -> None:
    """They are refused where nobody may resign, too early, with the wrong winner, in a game that had to be
    played on, and without a search."""
    settings = settings_for()
    assert code_of(resigned, settings) is None
    assert code_of(resigned, settings_for(value=0.0)) == Code.WRONG_SETTINGS
    assert code_of(resigned, settings_for(value=-0.99)) == Code.BAD_VALUES
    assert code_of(replace(resigned, outcome=-resigned.outcome), settings) == Code.WRONG_OUTCOME
    assert code_of(replace(resigned, outcome=0), settings) == Code.WRONG_OUTCOME
    marked = replace(resigned, flags=resigned.flags | np.uint8(PLAYED_ON))
    assert code_of(marked, settings) == Code.WRONG_REASON
    assert code_of(replace(resigned, reason="four"), settings) == Code.UNFINISHED
    capped = replace(resigned, max_plies=resigned.plies)
    assert code_of(capped, settings_for(max_plies=resigned.plies)) == Code.WRONG_REASON
    unsearched = with_visits(resigned, resigned.plies - 1, {}, 0)
    assert code_of(unsearched, settings) == Code.BAD_VALUES


def test_a_game_by_the_rules_cannot_be_called_resigned() -> None:
    """Nor may games be marked as played on where resignation is off."""
    settings = settings_for(play_on=1.0)
    record = play(1, settings)
    assert is_played_on(record)
    assert code_of(record, settings) is None
    assert code_of(replace(record, reason=RESIGNATION), settings) == Code.WRONG_REASON
    assert code_of(record, settings_for(value=0.0)) == Code.WRONG_SETTINGS


def test_the_mark_is_on_all_plies_or_on_none() -> None:
    """There is only one way to write a record."""
    record = play(1, settings_for(play_on=1.0))
    flags = record.flags.copy()
    flags[2] ^= PLAYED_ON
    with pytest.raises(BadRecord, match="played on is set at some plies"):
        to_bytes(replace(record, flags=flags))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"value": 0.3}, r"resignation\.value"),
        ({"mistakes": 0.9}, r"resignation\.mistakes"),
        ({"play_on": 0.0, "mistakes": 0.05}, r"resignation\.play_on is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        settings_for(**changes)
