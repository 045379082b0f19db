"""`azplay check-game` finds the fault of games that break a promise, and none in games that only look odd."""

import dataclasses
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.conformance import (
    CHECKS,
    SPARSE_CHECKS,
    Check,
    actions_survive_text,
    earlier_roots_end_games_too,
    sizes_fit,
)
from azselfplay.games.playouts import Playout, random_games
from azselfplay.games.spec import CodedCells, EndReason, Game, PackedScalars, Symmetry
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.check_game import fault_of, main, self_play_is_accepted

GAME = get_game("tic_tac_toe")
FOUR = get_game("connect_four")
ROWS_SWAPPED = np.array([3, 4, 5, 0, 1, 2, 6, 7, 8])


def with_rules(game: Game, **functions: Callable[..., object]) -> Game:
    return dataclasses.replace(game, rules=dataclasses.replace(game.rules, **functions))


def with_text(game: Game, **functions: Callable[..., object]) -> Game:
    return dataclasses.replace(game, notation=dataclasses.replace(game.notation, **functions))


def play_and_touch(parent, action, child) -> None:
    GAME.rules.play(parent, action, child)
    parent[0] ^= np.uint64(1) << np.uint64(action)


def twice_the_first(positions, n, actions) -> int:
    count = GAME.rules.legal_actions(positions, n, actions)
    actions[count - 1] = actions[0]
    return int(count)


def encode_over(positions, n, history, features) -> None:
    before = features[-1]
    GAME.rules.encode(positions, n, history, features)
    features[-1] |= before


def oldest_first(positions, n, history, features) -> None:
    GAME.rules.encode(positions, n, history, features)
    planes = features[: 2 * history].reshape(history, 2)
    planes[:] = planes[::-1].copy()


def over_in_a_search(positions, n, count, root) -> int:
    return 0 if root >= 0 else int(GAME.rules.end_reason(positions, n, count, root))


def described_out_of_range(*arguments: object) -> int:
    found = int(FOUR.sparse.describe(*arguments))
    active = arguments[4]
    active[0] = FOUR.sparse.features
    return found


BROKEN = {
    "sizes_fit": dataclasses.replace(GAME, end_reasons=(*GAME.end_reasons, EndReason("resignation", 0))),
    "first_player_begins": with_rules(GAME, side_to_move=lambda state: 1 - GAME.rules.side_to_move(state)),
    "legal_actions_are_distinct": with_rules(GAME, legal_actions=twice_the_first),
    "playing_leaves_the_parent": with_rules(GAME, play=play_and_touch),
    "searches_end_games_no_later": with_rules(GAME, end_reason=over_in_a_search),
    "positions_survive_text": with_text(GAME, state_to_text=lambda _: ""),
    "actions_survive_text": with_text(GAME, action_to_text=lambda _, action: str((action + 1) % 9 + 1)),
    "nonsense_is_refused": with_text(GAME, action_from_text=lambda *_: 0),
    "pictures_have_all_rows": with_text(GAME, render=lambda _: "a board"),
    "features_are_written_whole": with_rules(GAME, encode=encode_over),
    "history_is_behind": with_rules(GAME, encode=oldest_first),
    "symmetries_are_permutations": dataclasses.replace(GAME, symmetries=GAME.symmetries * 2),
    "rules_see_no_symmetry": dataclasses.replace(
        GAME, symmetries=(Symmetry("rows swapped", ROWS_SWAPPED, ROWS_SWAPPED),)
    ),
    "sparse_features_are_repeatable": dataclasses.replace(
        FOUR, sparse=dataclasses.replace(FOUR.sparse, describe=described_out_of_range)
    ),
    "winning_moves_are_not_ruled_out": with_rules(GAME, maybe_wins=lambda *_: 0),
    "cells_have_owners": dataclasses.replace(GAME, owners=lambda _: np.full(9, 2, np.int8)),
    "sparse_features_fit": dataclasses.replace(FOUR, sparse=dataclasses.replace(FOUR.sparse, name="mine")),
}
"""Games with one fault each, by the name of the check that finds it."""


def nothing_on_a_young_board(positions, n, history, features) -> None:
    GAME.rules.encode(positions, n, history, features)
    if n < 7:
        features[:] = 0


SOUND = {
    "outcomes_convert": dataclasses.replace(GAME, score=lambda _: 1, max_plies=3),
    "features_are_written_whole": with_rules(GAME, encode=nothing_on_a_young_board),
    "symmetries_are_permutations": get_game("dots_and_boxes_1x3"),
    "nonsense_is_refused": with_text(
        GAME,
        action_to_text=lambda _, action: str(action),
        action_from_text=lambda state, text: GAME.notation.action_from_text(state, str(int(text) + 1)),
    ),
}
"""Games that look odd and have no fault, by the name of the check that could be misled."""


@pytest.mark.parametrize("name", SOUND)
def test_an_odd_game_without_a_fault_passes(name: str) -> None:
    """A score at a game that was cut off, an empty board, symmetries that move no cell, a move named 0."""
    check: Check = next(one for one in CHECKS if one.__name__ == name)
    assert not fault_of(check, SOUND[name], tuple(random_games(SOUND[name], 4)))


def test_a_long_game_is_asked_for_its_ends_a_bounded_number_of_times() -> None:
    asked = []
    game = with_rules(GAME, end_reason=lambda *_: asked.append(1) or 0)
    long = Playout(np.repeat(next(random_games(GAME, 1)).positions[:1], 3000, axis=0), [], 0)
    earlier_roots_end_games_too(game, (long,))
    assert 5000 <= len(asked) <= 200 * 50


def test_rules_that_cannot_be_compiled_or_that_no_run_can_play_are_found(monkeypatch) -> None:
    """Called one by one, such rules pass every other check."""

    def in_plain_python(positions, n, actions) -> int:
        return int(GAME.rules.legal_actions(positions, n, actions))

    plain = dataclasses.replace(with_rules(GAME, legal_actions=in_plain_python), name="tic_tac_toe_plain")
    monkeypatch.setattr("azselfplay.search.compiled.get_game", lambda _: plain)
    assert "TypingError" in fault_of(self_play_is_accepted, plain, ())
    assert "max_plies" in fault_of(self_play_is_accepted, dataclasses.replace(GAME, max_plies=20_000), ())
    wide = dataclasses.replace(GAME, max_plies=10_000, mean_legal=300.0)
    assert "make max_plies smaller" in fault_of(self_play_is_accepted, wide, ())


@pytest.mark.parametrize(
    "changes",
    [{"extra_actions": 1}, {"policy_planes": None, "extra_actions": 1},
     {"scalars_once": PackedScalars(((2, 4),))}, {"coded_cells": CodedCells(9, ((), (0,)))},
     {"coded_cells": CodedCells(2, ((0,), (1,)))}, {"coded_cells": CodedCells(2, ((), (1,)))}],
    ids=str,
)  # fmt: skip
def test_sizes_that_do_not_fit_each_other_are_found(changes: dict[str, object]) -> None:
    assert fault_of(sizes_fit, dataclasses.replace(GAME, **changes), ())


@pytest.mark.parametrize("name", BROKEN)
def test_a_game_with_a_fault_does_not_pass(name: str) -> None:
    check: Check = next(one for one in CHECKS if one.__name__ == name)
    sound = FOUR if BROKEN[name].name == FOUR.name else GAME
    games = tuple(random_games(sound, 4))
    assert fault_of(check, BROKEN[name], games)
    assert not fault_of(check, sound, games)


@pytest.mark.parametrize("text", ["cell {}", "0" * 40 + "{}"])
def test_moves_that_the_tools_cannot_take_are_found(text: str) -> None:
    """Pages and openings files separate moves by blanks, and requests limit their length."""
    game = with_text(
        GAME,
        action_to_text=lambda _, action: text.format(action),
        action_from_text=lambda _, move: int(move[-1]),
    )
    assert "blanks" in fault_of(actions_survive_text, game, tuple(random_games(GAME, 1)))


def test_the_command_says_what_each_check_found(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["azplay check-game", "tic_tac_toe"])
    assert main() == Exit.OK
    out = capsys.readouterr().out.splitlines()
    assert [line[:8].strip() for line in out[:-2]] == ["ok"] * (len(CHECKS) + 1)
    assert out[-2].startswith(f"tic_tac_toe: all {len(CHECKS) + 1} checks passed, in 12 random games of ")
    won, lost = re.search(r"the first player won (\d+), drew \d+, lost (\d+)$", out[-1]).groups()
    assert int(won) > int(lost)
    monkeypatch.setattr("azselfplay.games.get_game", lambda _: BROKEN["rules_see_no_symmetry"])
    assert main() == Exit.FOUND
    out = capsys.readouterr().out.splitlines()
    failed = "FAILED  A mirrored game has the mirrored legal actions and features, and ends in the same way."
    assert failed in out
    assert any(line.strip().startswith("rules_see_no_symmetry: rows swapped") for line in out)
    assert "1 of" in out[-2]


def test_a_game_that_cannot_be_played_and_one_that_there_is_not_are_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["azplay check-game", "ludo"])
    with pytest.raises(Fatal, match="ludo") as refused:
        main()
    assert refused.value.code == Exit.CONFIG
    dead = with_rules(GAME, play=lambda *_: 1 // 0)
    monkeypatch.setattr("azselfplay.games.get_game", lambda _: dead)
    assert main() == Exit.FOUND
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAILED  random games cannot be played"
    assert lines[1].strip().startswith("play(): ZeroDivisionError: ")


def test_without_sparse_features_these_are_not_said_to_be_well(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["azplay check-game", "tic_tac_toe"])
    monkeypatch.setattr("azselfplay.games.get_game", lambda _: dataclasses.replace(GAME, sparse=None))
    assert main() == Exit.OK
    out = capsys.readouterr().out
    assert "\n-       It has no sparse features" in out
    assert f"all {len(CHECKS) - len(SPARSE_CHECKS) + 1} checks passed" in out


def test_too_many_active_features_are_counted() -> None:
    """Another machine may send any words, so a board full of men counts, too."""
    few = dataclasses.replace(FOUR, sparse=dataclasses.replace(FOUR.sparse, most_active=12))
    check = next(one for one in CHECKS if one.__name__ == "any_words_are_described")
    assert re.search(r"\d+ active features of 12 at most", fault_of(check, few, ()))
