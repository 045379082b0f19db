"""UCI engines as real processes: good ones play; bad ones lose their games and do no other harm."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from azselfplay.games import get_game
from azselfplay.play.engine_player import parse_spec
from azselfplay.play.engine_protocols import option_of
from azselfplay.play.openings import Opening, book_openings
from azselfplay.play.players import make_player
from azselfplay.play.runner import FAILURE, MatchSettings, PlayedGame, play_match

CHESS = get_game("chess")
ENGINE = Path(__file__).with_name("scripted_engine.py")
MAX_PLIES = 40


def spec(mode: str, query: str = "timeout=240") -> str:
    return f"uci:{sys.executable} {ENGINE} {mode}?{query}"


def played(a: str, b: str, openings: list[Opening], concurrent: int = 2) -> list[PlayedGame]:
    async def match() -> list[PlayedGame]:
        players = make_player(a, CHESS), make_player(b, CHESS)
        players[0].name, players[1].name = "a", "b"
        try:
            return await play_match(CHESS, *players, openings, MatchSettings(concurrent, MAX_PLIES))
        finally:
            for player in players:
                await player.close()

    return asyncio.run(match())


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("crash", "died"),
        ("crash 1", "died"),
        ("hang", "said nothing for 1 s"),
        ("illegal", "illegal"),
        ("garbage", "zz9"),
        ("dead", "did not start"),
    ],
)
def test_a_bad_engine_loses_every_game_it_is_in_and_the_match_ends(mode: str, what: str) -> None:
    query = "timeout=1" if mode == "hang" else "timeout=240"
    games = played(spec(mode, query), "random", [Opening("start"), book_openings(CHESS)[0]])
    assert len(games) == 4
    assert [game.outcome_for_a for game in games] == [-1] * 4
    assert {game.reason for game in games} == {FAILURE}
    assert {game.failed for game in games} == {"a"}
    assert all(what in game.detail for game in games)


def test_an_engine_that_fails_in_one_game_has_a_new_process_for_the_next() -> None:
    games = played(spec("crash 2"), "random", [Opening("start"), Opening("again")], concurrent=1)
    assert [game.plies for game in games] == [4, 5, 4, 5]


def test_a_good_engine_plays_its_moves_to_the_end() -> None:
    games = played(spec("good", "nodes=10"), spec("good", "movetime=50&depth=3"), [Opening("start")])
    assert [game.reason for game in games] == ["threefold_repetition"] * 2
    assert games[0].actions == games[1].actions
    moves = [CHESS.notation.action_to_text(CHESS.notation.state_from_text(""), games[0].actions[0])]
    assert moves == ["a2a3"]


def test_a_start_position_reaches_the_engine_with_its_moves() -> None:
    start = Opening("ending", "8/8/8/8/8/3k4/3p4/3K4 b - - 0 60")
    games = played(spec("good"), "random", [start])
    assert all(game.reason != FAILURE for game in games)


def test_spec_is_read_into_limits_and_options() -> None:
    found = parse_spec("uci", f"{sys.executable} -x?nodes=5&movetime=250&Skill Level=3&Hash=16", "")
    assert found.command == (sys.executable, "-x")
    assert (found.nodes, found.movetime, found.depth) == (5, 0.25, None)
    assert found.options == {"Skill Level": "3", "Hash": "16"}


def test_odd_options_do_not_end_the_match_and_can_be_set() -> None:
    """It plays only if it is told exactly the option that was asked for."""
    games = played(spec("options", "timeout=240&max depth type=3"), "random", [Opening("start")])
    assert all(game.reason != FAILURE for game in games)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("name max depth type spin default 1 min 0 max 9", ("max depth", "spin", 1, 0, 9, [])),
        ("name min type max type spin default -1 min -9 max 9", ("min type max", "spin", -1, -9, 9, [])),
        ("name type type check default true", ("type", "check", True, None, None, [])),
        (
            "name default var type string default a max b",
            ("default var", "string", "a max b", None, None, []),
        ),
        ("name var type combo default a b var c var a b", ("var", "combo", "a b", None, None, ["c", "a b"])),
        ("name Skill  Level type spin default x min 5000z", ("Skill  Level", "spin", None, None, None, [])),
        ("name N type spin default 1 min 9 max 0", ("N", "spin", 1, None, None, [])),
        ("name Clear Hash type button", ("Clear Hash", "button", None, None, None, [])),
        ("name Ponder type string default x", None),
        ("name type spin", None),
        ("name X type dance", None),
        ("", None),
    ],
)
def test_an_announced_option_is_read_whatever_words_its_name_has(line: str, option: object) -> None:
    found = option_of(f"option {line}")
    assert (found and (found.name, found.type, found.default, found.min, found.max, found.var)) == option
