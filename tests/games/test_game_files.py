"""Game files: we read what we write and what other programs write, odd files included."""

from pathlib import Path

import cshogi
import cshogi.CSA
import cshogi.KIF
import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import GameFormat, ReadGame, WrittenMove, knowledge_of
from azselfplay.games.shogi.game_files import ENDS
from azselfplay.games.shogi.notation import START_SFEN
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.game_files import BadGame, format_of, games_in

FORMATS = [("chess", "PGN"), ("chess960", "PGN"), ("go_9x9", "SGF"), ("shogi", "CSA"), ("shogi", "KIF")]


def form_of(name: str, form: str) -> GameFormat:
    return next(one for one in knowledge_of(get_game(name)).formats if one.name == form)


def played(name: str, seed: int, plies: int, start: str = "") -> GameHistory:
    rng, game = np.random.default_rng(seed), replay(get_game(name), start)
    while game.end_reason() is None and game.ply < plies:
        game.play(int(rng.choice(game.legal_actions())))
    return game


def annotated(game: GameHistory) -> list[WrittenMove]:
    """Return the moves of a game with all that a format can write."""
    notation, found = game.game.notation, []
    for ply, move in enumerate(game.moves_text()):
        before = game.up_to(ply)
        others = [notation.action_to_text(before.state, int(action)) for action in before.legal_actions()[:2]]
        lines = [((other,), "75 %") for other in others if other != move]
        # A line of two moves.
        lines += [((move, game.moves_text()[ply + 1]), "as played")] if ply + 1 < game.ply else []
        found.append(WrittenMove(move, "well\nplayed", lines, 0.5, "?"))
    return found


@pytest.mark.parametrize(("name", "form"), FORMATS)
def test_games_are_read_as_they_were_written(name: str, form: str) -> None:
    """A file may hold several games; values, marks and other lines do not change the main line."""
    one, texts = form_of(name, form), list[str]()
    # The side to move resigns, so White wins one game and Black another.
    games = [played(name, seed, plies) for seed, plies in enumerate((40, 41, 50))]
    for game, reason in zip(games, ("resignation", "resignation", "repetition"), strict=True):
        result = "1/2-1/2" if reason == "repetition" else ("0-1", "1-0")[game.side_to_move]
        tags = {"White": "one", "Black": "two", "Result": result, "Termination": reason}
        texts.append(one.write(tags, "", annotated(game), ""))
    read = list(one.read(("\n\n" + one.between).join(texts).encode()))
    for found, game, outcome in zip(read, games, (-1, 1, 0), strict=True):
        assert isinstance(found, ReadGame)
        assert (found.start, found.outcome, found.other_rules) == ("", outcome, "")
        assert list(found.moves) == game.moves_text()
        assert (found.tags["White"], found.tags["Black"]) == ("one", "two")


@pytest.mark.parametrize(
    ("name", "form", "start"),
    [
        ("chess", "PGN", "4k3/P7/8/8/8/8/8/4K2R b K - 0 40"),
        ("chess960", "PGN", "4k3/8/8/8/8/8/8/RK5R b HA - 0 1"),
        ("go_9x9", "SGF", "........./" * 4 + "..x....../" + "........./" * 3 + "......... o 0"),
        ("shogi", "CSA", "4k4/9/2P3p2/9/1r2G1s2/9/9/9/4K2L1 w RB2G3S4N3L16P 1"),
        ("shogi", "KIF", "4k4/9/2P3p2/9/1r2G1s2/9/9/9/4K2L1 w RB2G3S4N3L16P 1"),
    ],
)
def test_a_game_from_another_start_is_read_from_there(name: str, form: str, start: str) -> None:
    game = played(name, 1, 9, start)
    text = form_of(name, form).write({}, start, [WrittenMove(move) for move in game.moves_text()], "")
    [read] = form_of(name, form).read(text.encode())
    assert isinstance(read, ReadGame)
    notation = get_game(name).notation
    again = notation.state_to_text(notation.state_from_text(read.start))
    assert again == notation.state_to_text(notation.state_from_text(start))
    assert list(read.moves) == game.moves_text()


def test_variations_of_kif_stand_behind_the_main_line_the_latest_first() -> None:
    """So each branches off the main line, and cshogi, which knows no variations, finds that line first."""
    game = played("shogi", 4, 30)
    text = form_of("shogi", "KIF").write({"Termination": "resignation"}, "", annotated(game), "")
    read = cshogi.KIF.Parser.parse_str(text)
    assert [cshogi.move_to_usi(move) for move in read.moves[: game.ply]] == game.moves_text()
    numbers = [int(line[3:-1]) for line in text.splitlines() if line.startswith("変化：")]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) >= game.ply
    first = text.partition("変化：1手\n")[2].splitlines()
    assert first[0].startswith("   1 ")
    assert first[1] == "*75 %"


# ---- Shogi: what cshogi writes, and the words for the end --------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_cshogi_writes_is_read(seed: int, tmp_path: Path) -> None:
    """The 200 random plies contain drops, promotions and recaptures; KIF is in Shift-JIS."""
    game = played("shogi", seed, 200)
    board = cshogi.Board()
    kif, csa = tmp_path / "a.kif", tmp_path / "a.csa"
    writers = cshogi.KIF.Exporter(str(kif)), cshogi.CSA.Exporter(str(csa))
    writers[0].header(["one", "two"])
    writers[1].info(board, names=["one", "two"])
    for usi in game.moves_text():
        move = board.move_from_usi(usi)
        for writer in writers:
            writer.move(move)
        board.push(move)
    writers[0].end("resign")
    writers[1].endgame("%TORYO")
    for path, form in ((kif, "KIF"), (csa, "CSA")):
        writers[form == "CSA"].close()
        [read] = form_of("shogi", form).read(path.read_bytes())
        assert isinstance(read, ReadGame)
        assert (read.start, list(read.moves)) == ("", game.moves_text())
        assert read.outcome == (-1 if game.side_to_move == 0 else 1)
        assert read.tags["White"] == "one"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.reason)
@pytest.mark.parametrize("form", ["CSA", "KIF"])
@pytest.mark.parametrize("moves", [["7g7f"], ["7g7f", "3c3d"]], ids=["White", "Black"])
def test_the_word_at_the_end_gives_the_result(form: str, end, moves: list[str]) -> None:
    text = form_of("shogi", form).write({"Termination": end.reason}, "", [WrittenMove(m) for m in moves], "")
    [read] = form_of("shogi", form).read(text.encode())
    assert isinstance(read, ReadGame)
    assert read.outcome == (end.value if len(moves) == 2 else -end.value)
    assert read.tags["Termination"] == end.reason


def test_a_handicap_of_kif_is_a_start_position_with_white_to_move() -> None:
    text = "手合割：角落ち\n上手：a\n下手：b\n手数----指手--\n   1 ３四歩(33)   ( 0:01/00:00:01)\n   2 投了\n"
    [read] = form_of("shogi", "KIF").read(text.encode("cp932"))
    assert isinstance(read, ReadGame)
    assert read.start.split()[:2] == [START_SFEN.split()[0].replace("1r5b1", "1r7"), "w"]
    assert (list(read.moves), read.outcome, read.tags["White"]) == (["3c3d"], -1, "b")


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ("PI\n+", ""),
        ("PI82HI22KA\n-", START_SFEN.replace("1r5b1", "9").replace(" b ", " w ")),
        ("P-51OU\nP+59OU\nP+00AL\n+", "4k4/9/9/9/9/9/9/9/4K4 b 2R2B4G4S4N4L18P 1"),
        ("P-51OU\nP+59OU\nP+00FU\nP+00AL\n+", "4k4/9/9/9/9/9/9/9/4K4 b 2R2B4G4S4N4L18P 1"),
    ],
)
def test_csa_may_say_the_position_in_other_ways(lines: str, start: str) -> None:
    move = "-5142OU" if lines.endswith("-") else "+5958OU" if "AL" in lines else "+7776FU"
    [read] = form_of("shogi", "CSA").read(f"V2.2\n{lines}\n{move}\nT1\n%CHUDAN\n".encode())
    assert isinstance(read, ReadGame)
    assert (read.start, read.outcome) == (start, None)


# ---- Files with odd games ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file", "text", "wrong"),
    [
        (
            "chess",
            "a.pgn",
            '1. e4 Ke7 ) e5 1-0\n\n1. e4 ) (1. d4) e5 1-0\n\n[Variant "Atomic"]\n\n1. e4 *\n\n1. e4 1/2\n\n'
            "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 *",
            {1: "illegal san", 3: "Atomic", 5: r"move 9 .*the game is over \(threefold_repetition\)"},
        ),
        (
            "go_9x9",
            "a.sgf",
            "(;SZ[9];B[aa];W[aa])(;SZ[9]C[\\] (;];B[aa])\n(;SZ[13];B[aa])(;GM[2])(;SZ[9]RU[Japanese])"
            "(;SZ[9];B[a",
            {1: "A9", 3: "board of 13", 4: "not Go", 6: "no SGF"},
        ),
        (
            "shogi",
            "a.kif",
            "先手：a\n1 ７六歩(77)\n2 投了\n\n先手：b\n1 ７五歩(77)\n\n先手：c\n1 どこか\n",
            {2: "move 1 .'7g7e'.: ", 3: "move 1 .*cannot be read"},
        ),
        (
            "shogi",
            "a.csa",
            "PI\n+\n+7776FU\n%TORYO\n/\nPI\n+\n+7775FU\n/\n+7776FU\n/\nPI\n+\n-3334FU\n/\nnonsense\n",
            {2: "not a legal move", 3: "before the side", 4: "the other side", 5: "none of CSA"},
        ),
    ],
)
def test_games_that_cannot_be_used_are_named_and_the_others_taken(
    name: str, file: str, text: str, wrong: dict[int, str], tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    found = list(games_in(get_game(name), tmp_path / file))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    bad = {one.number: one.reason for one in found if isinstance(one, BadGame)}
    assert set(bad) == set(wrong)
    for number, reason in bad.items():
        with pytest.raises(ValueError, match=wrong[number]):
            raise ValueError(reason)
    assert len(found) > len(bad)


def test_a_game_without_its_end_has_no_result() -> None:
    """It may have been cut off, whatever its header says."""
    [read] = form_of("chess", "PGN").read(b'[Result "1-0"]\n\n1. e4 e5 2. Nf3')
    assert isinstance(read, ReadGame)
    assert read.outcome is None


def test_a_game_of_go_by_another_komi_is_said_to_be_one() -> None:
    [read] = form_of("go_9x9", "SGF").read(b"(;SZ[9]KM[6.5]RE[B+R];B[aa])")
    assert isinstance(read, ReadGame)
    assert (read.outcome, read.other_rules) == (1, "komi 6.5, not 7.5")


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("connect_four", "a.pgn", "it reads no format of game files"),
        ("chess", "a.sgf", "a form that chess does not read: it reads PGN"),
    ],
)
def test_a_file_of_another_format_is_refused(name: str, file: str, reason: str) -> None:
    with pytest.raises(Fatal, match=reason) as refused:
        format_of(get_game(name), Path(file))
    assert refused.value.code == Exit.BAD_DATA


@pytest.mark.parametrize(("name", "file"), [("chess", "a.pgn"), ("shogi", "a.kif")])
def test_an_empty_file_is_refused(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(Fatal, match="has no game in"):
        next(games_in(get_game(name), tmp_path / file))


@pytest.mark.parametrize(("name", "file"), [("chess", "a.pgn"), ("go_9x9", "a.sgf"), ("shogi", "a.kif")])
@pytest.mark.parametrize("data", [b"\x00\xff\xfe" * 50, bytes(range(256)) * 9])
def test_a_file_of_no_games_has_one_that_cannot_be_read(name: str, file: str, data: bytes, tmp_path) -> None:
    (tmp_path / file).write_bytes(data)
    (one,) = games_in(get_game(name), tmp_path / file)
    assert isinstance(one, BadGame)
