"""Go in SGF: games survive being written and read, and unreadable files get a clear message."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scaled_examples import scaled
from sgfmill import sgf

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.go import GoRules, game_of
from azselfplay.games.go.notation import vertex_of
from azselfplay.games.go.sgf import SgfGame, read, write
from azselfplay.games.knowledge import ReadGame, WrittenMove, knowledge_of

RULES = GoRules(9, komi=6.5)


def played(found: SgfGame) -> GameHistory:
    moves = [vertex_of(found.rules.size, action) for action in found.actions]
    return replay(game_of(found.rules), found.start, moves)


@settings(max_examples=scaled(30))
@given(
    st.sampled_from([GoRules(2), RULES, *(GoRules(5, komi) for komi in (-400, 0, 65, 375, 400))]),
    st.integers(0, 2**32),
    st.sampled_from([0, 3, 8]),
)
def test_a_game_survives_being_written_and_read(rules: GoRules, seed: int, begin: int) -> None:
    """It keeps rules, moves with passes, root properties, and a start position with stones of both sides."""
    game_history, rng = GameHistory(game_of(rules)), random.Random(seed)
    while game_history.end_reason() is None and game_history.ply < 20:
        game_history.play(int(rng.choice(game_history.legal_actions())))
    text = game_of(rules).notation.state_to_text(game_history.states[min(begin, game_history.ply)])
    board, mover, _ = text.replace(",", ".").split()
    start = f"{board} {mover} 0" if {"x", "o"} <= set(board) else ""
    actions = tuple(game_history.actions[begin if start else 0 :])
    written = SgfGame(rules, start, actions, {"PB": "one", "PW": "other", "RE": "B+R"})
    assert read(write(written)) == written


def test_a_file_of_another_program_is_read() -> None:
    """It has handicap stones, komi, and passes written in both ways; variations are left out."""
    data = b"(;GM[1]FF[4]SZ[9]KM[0.5]HA[2]AB[cc][gg]PB[a];W[ee](;B[tt];W[];B[aa])(;B[ba]))"
    found, empty = read(data), "........."
    assert found.rules == GoRules(9, komi=0.5)
    assert found.tags == {"PB": "a"}
    rows = [empty, empty, "..x......", empty, empty, empty, "......x..", empty, empty]
    assert found.start == f"{'/'.join(rows)} o 0"
    with pytest.raises(ValueError, match=r"move 4 .'A9'.: the game is over"):
        played(found)
    assert played(replace(found, actions=found.actions[:3])).moves_text() == ["E5", "pass", "pass"]


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (GoRules(5), b"RU[Tromp-Taylor]"),
        (GoRules(5, superko="situational"), b"RU[NZ]"),
        (GoRules(5, suicide=False), b"RU[koPOSITIONALscoreAREAtaxNONEsui0]"),
        (GoRules(5, superko="situational", suicide=False), b"RU[koSITUATIONALscoreAREAtaxNONEsui0]"),
        (GoRules(5, superko="simple"), b"RU[koSIMPLEscoreAREAtaxNONEsui1]"),
    ],
)
def test_a_file_names_its_rules_and_is_read_by_them(rules: GoRules, name: bytes) -> None:
    written = write(SgfGame(rules, "", ()))
    assert name in written
    assert read(written).rules == rules


def test_a_game_by_rules_that_are_not_played_is_read_for_annotating_and_says_so() -> None:
    """Its moves count, but its result does not: `azplay games import` leaves the game out."""
    files = b"(;SZ[5]RU[Japanese];B[aa])(;SZ[5]RU[Chinese]HA[2]AB[aa][bb];W[cc])(;SZ[5]RU[AGA];B[aa])"
    found = list(knowledge_of(game_of(GoRules(5))).formats[0].read(files))
    assert [one.moves for one in found if isinstance(one, ReadGame)] == [("A5",), ("C3",), ("A5",)]
    said = [one.other_rules.partition(",")[0] for one in found if isinstance(one, ReadGame)]
    assert said == ["RU[Japanese]: territory", "RU[Chinese]", ""]


@pytest.mark.parametrize(
    ("text", "komi"),
    [
        *(("6.5", 6.5), ("7", 7), ("0", 0), ("-5.5", -5.5), ("", 0.5), ("6,5", 6.5), ("7.5 points", 7.5)),
        *(("650", 6.5), ("750", 7.5), ("65", 6.5), ("700", 7), ("100", 100), ("40", 40), ("375.0", 375)),
    ],
)
def test_a_komi_is_read_as_it_was_meant(text: str, komi: float) -> None:
    """Empty text gives the usual komi, a comma is a dot, and 650 has lost its dot."""
    assert read(f"(;KM[{text}])".encode(), GoRules(5, 0.5)).rules.komi == komi
    write_game = knowledge_of(game_of(GoRules(5))).formats[0].write
    assert f"KM[{text}]" in write_game({"KM": text}, "", [], "")


def test_a_game_that_went_on_after_an_unclaimed_draw_is_written() -> None:
    write_game = knowledge_of(get_game("go_5x5_komi25")).formats[0].write
    moves = [WrittenMove(move) for move in ("C3", "pass", "pass", "A5")]
    assert write_game({}, "", moves, "").count(";") == 1 + len(moves)


@pytest.mark.parametrize(
    ("charset", "codec", "name"),
    [
        *((one, "utf_8", "Jos\xe9") for one in (None, "UTF-8", "", "no such", "a/../b")),
        *((one, "utf_8", "Jos\xe9") for one in ("hex", "idna", "undefined", "\0")),
        *((one, "latin_1", "Jos\xe9") for one in (None, "zlib_codec", "ISO-8859-1")),
        ("windows-1252", "cp1252", "Jos\xe9"),
        ("GB2312", "gb18030", "\u67ef\u6f54"),
        ("Shift_JIS", "cp932", "\u8868\u30bd"),
        ("Big5", "big5", "\u529f"),
        ("ISO-2022-JP", "iso2022_jp", "\u8868"),
        *((one, "utf_8", "\u7533\u771f\u8c1e") for one in ("GB2312", "GBK", "Big5")),  # saved again
    ],
)
def test_a_name_is_read_in_the_encoding_of_the_file(charset: str | None, codec: str, name: str) -> None:
    """UTF-8 or Latin-1 is tried where the file names no encoding, or one that is not for text. Brackets and
    escapes inside characters of two bytes are no syntax."""
    head = "" if charset is None else f"CA[{charset}]"
    assert read(f"(;SZ[5]{head}PB[{name}];B[aa])".encode(codec)).tags == {"PB": name}


def test_handicap_stones_may_be_placed_by_moves() -> None:
    placed = read(b"(;SZ[5]HA[2];B[aa];B[bb];W[cc])")
    assert placed == read(b"(;SZ[5]HA[2];AB[aa][bb];W[cc])")
    assert placed.start == "x..../.x.../...../...../..... o 0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no SGF of Go"),
        (b"nonsense", "no SGF of Go"),
        (bytes(range(256)), "no SGF of Go"),
        (b"(;GM[2]SZ[8];B[c4])", "GM\\[2\\] is not Go"),
        (b"(;SZ[19:13])", "is not square"),
        (b"(;SZ[x])", "SZ\\[x\\] is not the size"),
        (b"(;SZ[5];B[zz])", "B\\[zz\\]: not all of it is on a board of 5 x 5"),
        (b"(;SZ[5];B[a])", "B\\[a\\]: not all of it"),
        (b"(;SZ[5]AB[aa][zz])", "AB\\[aa\\]\\[zz\\]: not all of it"),
        (b"(;SZ[5]AB[aa]AW[aa])", "stones of both sides"),
        (b"(;SZ[5];B[aa]W[bb])", "several moves in one node"),
        (b"(;SZ[5]PL[x])", "PL\\[x\\] is not a side"),
        (b"(;SZ[5]HA[2];B[aa];W[bb])", "the file places none"),
        (b"(;SZ[5]HA[x])", "HA\\[x\\] is not a number"),
        *(
            (b"(;SZ[5]KM[%s])" % komi, "is not a komi")
            for komi in (b"x", b"nan", b"inf", b"1e3", b"9" * 5000)
        ),
        (b"(;SZ[5]KM[6.5][7.5])", "KM has 2 values"),
        (b"(;SZ[5]RU[Japanese])", "RU\\[Japanese\\]: territory"),
        (b"(;SZ[5]RU[japanese rules])", "rules\\]: territory"),
        (b"(;SZ[5]RU[Korean])", "RU\\[Korean\\]: territory"),
        (b"(;SZ[5]RU[GOE])", "RU\\[GOE\\]: other rules"),
        (b"(;SZ[5]RU[koSIMPLEscoreTERRITORYtaxSEKIsui0])", "other rules"),
        (b"(;SZ[5]RU[Chinese]HA[2]AB[aa][bb])", "points for handicap stones"),
        (b"(;SZ[25])", "sizes go from 2 to 19"),
        (b"(;SZ[9]KM[6.3])", "a multiple of 0.5"),
        (b"(;SZ[5];B[aa];AB[bb])", "in the middle of the game"),
        (b"(;SZ[5];B[aa];B[bb])", "move 2 is by the same side"),
        (b"(;SZ[5]AB[aa]AW[ab][ba])", "the x at A5 has no liberty"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(data)


def test_games_of_runs_and_matches_are_written_as_sgf() -> None:
    """They have comments at their moves, and the result by points, by resignation, or by adjudication."""
    write_game = knowledge_of(game_of(GoRules(3))).formats[0].write
    tags = {"White": "one [a]", "Black": "other", "Result": "1-0", "Date": "????.??.??"}
    moves = [WrittenMove("B2", "1.0"), WrittenMove("pass"), WrittenMove("pass")]
    text = write_game(tags, "", moves, "more_points")
    found = read(text.encode())
    assert found.tags == {"PB": "one [a]", "PW": "other", "RE": "B+1.5"}
    assert played(found).moves_text() == ["B2", "pass", "pass"]
    assert "C[1.0]" in text
    assert "C[more_points]" in text
    for ending, result in (("resignation", "B+R"), ("time", "B+")):
        text = write_game(tags, "", moves[:1], ending)
        assert read(text.encode()).tags["RE"] == result


def test_other_moves_are_variations_that_sgfmill_reads() -> None:
    """They stand behind the main line, at the move that they replace, and begin with the same side."""
    write_game = knowledge_of(game_of(GoRules(3))).formats[0].write
    first = WrittenMove("B2", "1.0", [(("A1", "C3"), "two"), (("pass",), "")])
    moves = [first, WrittenMove("pass", "", [(("C3",), "x")])]
    text = write_game({"Result": "1-0"}, "", moves, "").encode()
    root = sgf.Sgf_game.from_bytes(text).get_root()
    assert [child.get_move() for child in root] == [("b", (1, 1)), ("b", (0, 0)), ("b", None)]
    assert root[1].get("C") == "two"
    assert root[1][0].get_move() == ("w", (2, 2))
    assert [child.get_move() for child in root[0]] == [("w", None), ("w", (2, 2))]
    assert played(read(text)).moves_text() == ["B2", "pass"]
