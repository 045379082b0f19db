"""Matches: pairs of games, openings, seeds, early ends, and the report about them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_process import ends
from sparse_positions import saved, sparse_network

from azselfplay.games import get_game
from azselfplay.games.game_texts import writers_of
from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.elo import pair_counts
from azselfplay.play.match import report, table
from azselfplay.play.openings import Opening, check_lengths, openings_for, openings_from_file, random_openings
from azselfplay.play.players import make_player
from azselfplay.play.runner import (
    TABLE,
    MatchSettings,
    PlayedGame,
    Until,
    play_match,
    replay_of,
    to_json_line,
    written_game,
)
from azselfplay.play.tournament import all_openings

CHESS, FOUR, TIC = get_game("chess"), get_game("connect_four"), get_game("tic_tac_toe")


def match(
    game: Game, a: str, b: str, openings: Sequence[Opening], until: Until | None = None, **settings: Any
) -> list[PlayedGame]:
    """Play a whole match between players made for it."""

    async def play() -> list[PlayedGame]:
        players = make_player(a, game), make_player(b, game)
        try:
            return await play_match(game, *players, openings, MatchSettings(**settings), until=until)
        finally:
            for player in players:
                await player.close()

    return asyncio.run(play())


def test_each_opening_is_played_twice_with_colours_swapped_and_results_lie_in_order() -> None:
    openings = random_openings(FOUR, 5, 3, seed=1)
    games = match(FOUR, "greedy", "random", openings, concurrent=4)
    assert [game.opening for game in games] == [one.id for one in openings for _ in range(2)]
    assert [game.swapped for game in games] == [False, True] * 5
    assert [game.first_side for game in games] == ["greedy", "random"] * 5
    assert all(game.actions[:3] == one.actions for game, one in zip(games[::2], openings, strict=True))


def test_the_same_seed_gives_the_same_games_whatever_the_concurrency() -> None:
    openings = random_openings(FOUR, 4, 2, seed=3)
    one = match(FOUR, "alphabeta:3", "rollouts:50", openings, concurrent=1, seed=5)
    many = match(FOUR, "alphabeta:3", "rollouts:50", openings, concurrent=8, seed=5)
    other = match(FOUR, "alphabeta:3", "rollouts:50", openings, concurrent=8, seed=6)
    assert one == many != other


@pytest.fixture
def sparse(tmp_path: Path) -> str:
    """Return a player whose answers do not depend on their batch."""
    return f"net:{saved(tmp_path / 'sparse.safetensors', TIC.name, sparse_network(TIC.name))}@8"


def test_a_network_plays_the_same_games_alone_and_batched(sparse: str) -> None:
    openings = random_openings(TIC, 6, 2, seed=3)
    one = match(TIC, sparse, "random", openings, concurrent=1)
    many = match(TIC, sparse, "random", openings, concurrent=12)
    assert one == many


def test_search_beats_the_bare_network_and_a_network_its_like_by_nothing(sparse: str) -> None:
    openings = random_openings(TIC, 15, 2, seed=4)
    searched = match(TIC, "untrained@100", "untrained@1", openings, concurrent=30)
    alike = match(TIC, sparse, sparse, openings, concurrent=30)
    assert sum(game.outcome_for_a for game in searched) > 0
    assert pair_counts([game.outcome_for_a for game in alike]) == (0, 0, 15, 0, 0)


def test_the_time_of_a_move_is_that_of_its_player_whoever_began() -> None:
    one = PlayedGame("a", "b", "x", False, "", (), 0, "ply_cap", moves=(3, 2), seconds=(0.3, 0.004))
    other = replace(one, swapped=True, moves=(2, 1), seconds=(0.006, 0.1))
    done = report("a", "b", [one, other])
    assert done.ms_a_move == pytest.approx((100.0, 2.5))
    assert "ms a move of A, B    100.00, 2.50\n" in table(done)
    assert "ms a move of A, B    100.00, 2.50 (8 games at once)\n" in table(done, at_once=8)


def test_until_cuts_the_match_to_the_leading_pairs_whatever_the_order_of_ends() -> None:
    openings = random_openings(FOUR, 30, 4, seed=7)

    def ten_games(games: Sequence[PlayedGame]) -> bool:
        return len(games) >= 10

    alone = match(FOUR, "greedy", "random", openings, concurrent=1, until=ten_games)
    many = match(FOUR, "greedy", "random", openings, concurrent=7, until=ten_games)
    assert len(alone) == 10
    assert many == alone


def test_known_endings_end_a_game_when_asked_to() -> None:
    rook = Opening("rook", "7k/8/5K2/8/8/8/8/R7 b - - 0 1")
    games = match(CHESS, "random", "random", [rook], known=lambda _: -1)
    assert [(game.reason, game.outcome, game.plies) for game in games] == [(TABLE, 1, 0)] * 2
    for write in writers_of(CHESS).values():
        form = replace(knowledge_of(CHESS).formats[0], write=write)
        text = written_game(CHESS, form, replace(games[0], first_side='uci:"an engine" -x'), "")
        assert '[Termination "adjudication"]' in text
        assert "[White \"uci:'an engine' -x\"]" in text


def test_random_openings_are_legal_distinct_open_and_seeded() -> None:
    openings = random_openings(FOUR, 200, 8, seed=9)
    lines = [one.game_history(FOUR) for one in openings]
    assert len({game_history.state.tobytes() for game_history in lines}) == 200
    assert all(game_history.ply == 8 and game_history.end_reason() is None for game_history in lines)
    assert random_openings(FOUR, 50, 8, seed=9) == openings[:50]
    assert random_openings(FOUR, 50, 8, seed=10) != openings[:50]
    assert len(random_openings(FOUR, 50, 1, seed=9)) == 7


def test_openings_from_a_file_may_be_fen_epd_or_moves(tmp_path: Path) -> None:
    file = tmp_path / "openings.epd"
    file.write_text(
        "# three kinds\n8/8/8/8/8/3k4/3p4/3K4 b - - 0 60\n"
        "8/8/8/8/8/3k4/3p4/3K4 b - - bm Ke3; id 1;\n"
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 | e2e4\n\ne2e4 e7e5\n"
    )
    found = openings_from_file(CHESS, file)
    assert [one.id for one in found] == [f"openings.epd:{number}" for number in (2, 3, 4, 6)]
    assert [one.game_history(CHESS).ply for one in found] == [0, 0, 1, 2]
    file.write_text("e2e4 e2e4\n")
    with ends(Exit.BAD_DATA, r"line 1: move 2 .*not a legal move"):
        openings_from_file(CHESS, file)


def test_openings_of_shogi_may_be_written_as_for_engines(tmp_path: Path) -> None:
    shogi, file = get_game("shogi"), tmp_path / "openings.sfen"
    sfen = shogi.notation.state_to_text(shogi.notation.state_from_text(""))
    file.write_text(f"startpos moves 2g2f 8c8d\nsfen {sfen} moves 7g7f\nposition sfen {sfen}\nstartpos\n")
    found = openings_from_file(shogi, file)
    assert [len(one.actions) for one in found] == [2, 1, 0, 0]
    assert [one.start for one in found] == ["", sfen, sfen, ""]


def test_a_comment_does_not_make_openings_of_shogi_a_game_file(tmp_path: Path) -> None:
    file = tmp_path / "openings.txt"
    file.write_text("# openings, 定跡\n\n# two moves\n7g7f 3c3d\n")
    (opening,) = openings_from_file(get_game("shogi"), file)
    assert len(opening.actions) == 2
    file.write_text("# by hand\n# another line\n手合割：平手\n手数----指手--\n 1 ７六歩(77)\n")
    (opening,) = openings_from_file(get_game("shogi"), file)
    assert len(opening.actions) == 1


PGN = """
[Event "one"]\n[White "Jos\xe9"]\n
1. e4 {best by test} e5 $1 (1... c5 2. Ke3) 2. Nf3 ; a comment
*\n
[FEN "8/8/8/8/8/3k4/3p4/3K4 b - - 7 60"]\n[SetUp "1"]\n
60... Ke3 *\n
[Variant "From Position"]\n[FEN "8/P7/8/8/8/3k4/3p4/3K4 w - - 0 1"]\n
1. a8=Q *\n
1. e4 e5 2. Nf3 1-0
"""


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "latin-1"])
def test_openings_from_a_pgn_are_the_main_lines_of_its_games(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "book.pgn"
    file.write_text(PGN, encoding=codec)
    found = openings_from_file(CHESS, file)
    assert [one.id for one in found] == [f"book.pgn:{number}" for number in (1, 2, 3, 4)]
    games = [one.game_history(CHESS) for one in found]
    assert games[0].moves_text() == games[3].moves_text() == ["e2e4", "e7e5", "g1f3"]
    assert CHESS.notation.state_to_text(games[1].states[0]) == "8/8/8/8/8/3k4/3p4/3K4 b - - 7 60"
    assert [one.moves_text() for one in games[1:3]] == [["d3e3"], ["a7a8q"]]
    assert openings_from_file(CHESS, file, most=2) == found[:2]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("1. e4 Ke7", "game 2: illegal san: 'Ke7'"),
        ('[Variant "Atomic"]\n\n1. e4', "game 2: it is of the variant 'Atomic'"),
        ("1. f3 e5 2. g4 Qh4#", r"game 2: the game is over before it begins \(checkmate\)"),
        ('[Event "empty"]\n\n*', "game 2: it has neither moves nor a FEN"),
    ],
)
def test_a_game_that_is_no_opening_is_named(tmp_path, second: str, reason: str, caplog) -> None:
    file = tmp_path / "book.pgn"
    file.write_text(f"1. e4 e5 *\n\n{second} *\n")
    with ends(Exit.BAD_DATA, reason):
        openings_from_file(CHESS, file)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.pgn", b"1. 4 *", "has games in a form that tic_tac_toe does not read"),
        ("a.sgf", b"(;SZ[3];B[aa])", "has games in a form"),
        ("a.txt", b'[Event "x"]', "has games in a form"),
        ("a.txt", "4\n".encode("utf-16"), "it is text in UTF-16; save it as UTF-8"),
    ],
)
def test_a_file_that_has_other_things_than_openings_is_refused(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with ends(Exit.BAD_DATA, reason):
        openings_from_file(TIC, file)


def test_a_file_that_names_an_opening_twice_gives_a_ladder_all_the_others(tmp_path: Path) -> None:
    file = tmp_path / "openings"
    lines = [f"{first} {second} {third}" for first in "1234" for second in "1234" for third in "1234"]
    file.write_text("\n".join(["1 1 1", *lines]))
    assert len(all_openings(FOUR, str(file), 0)) == len(lines)


def test_an_opening_as_long_as_a_game_may_be_is_refused() -> None:
    openings = openings_for(CHESS, "random:4", 3, 0)
    check_lengths(openings, 0)
    check_lengths(openings, 5)
    with pytest.raises(Fatal, match="an opening has 4 plies"):
        check_lengths(openings, 4)


def test_report_counts_pairs_and_repeated_games() -> None:
    one = match(TIC, "solver", "solver", [Opening("start")], seed=1)
    done = report("a", "b", [*one, *one])
    assert (done.games, done.distinct, done.draws) == (4, 2, 4)
    assert done.elo.pairs == 2
    assert done.reasons == {"board_full": 4}


def test_a_game_in_which_something_is_counted_is_written_with_its_score() -> None:
    for game in (get_game("dots_and_boxes_2x2"), TIC):
        played = match(game, "random", "random", [Opening("start")])[0]
        written = json.loads(to_json_line(game, played))
        counted = game.score(replay_of(game, played).state) if game.score else None
        assert written.get("score") == counted
        assert game.score is None or np.sign(written["score"]) == written["outcome"]
