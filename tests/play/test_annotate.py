"""`azplay annotate`: whole games with values, marks and better lines, read back by other programs."""

import io
import itertools
import sys
from pathlib import Path
from unittest.mock import Mock

import chess.pgn
import cshogi
import cshogi.KIF
import pytest
from in_process import ends
from sgfmill import sgf

from azselfplay.games import get_game
from azselfplay.games.game_history import replay
from azselfplay.games.knowledge import ReadGame, knowledge_of
from azselfplay.host.exits import Exit
from azselfplay.play.annotate import main, written_moves
from azselfplay.play.game_files import FileGame
from net.create import create

PGN = """[White "one"]
[Result "0-1"]

1. f3 {a comment} e5 (1... d5) 2. g4 Qh4# 0-1

1. e4 Ke7 *

[FEN "4k3/P7/8/8/8/8/8/4K2R w K - 0 40"]
[SetUp "1"]

40. O-O Kd7 *
"""


def annotated(tmp_path: Path, monkeypatch, game: str, file: str, text: str) -> tuple[int, str]:
    """Return (exit status, what it wrote) for a file with this text. Only chess is searched."""
    weights, out = tmp_path / "w.safetensors", tmp_path / f"out-{file}"
    create(game, 0, "1x8", 3, weights)
    (tmp_path / file).write_text(text)
    simulations = "8" if game == "chess" else "0"
    given = [str(tmp_path / file), str(weights), "--out", str(out), "--simulations", simulations]
    monkeypatch.setattr(sys, "argv", ["azplay annotate", *given])
    return main(), out.read_text()


def test_python_chess_reads_annotated_games(tmp_path: Path, monkeypatch, capfd) -> None:
    code, text = annotated(tmp_path, monkeypatch, "chess", "a.pgn", PGN)
    assert code == Exit.BAD_DATA
    assert "a.pgn game 2: illegal san: 'Ke7'" in capfd.readouterr().err
    file = io.StringIO(text)
    first, second = chess.pgn.read_game(file), chess.pgn.read_game(file)
    assert first is not None
    assert second is not None
    assert chess.pgn.read_game(file) is None
    assert not first.errors + second.errors
    assert (first.headers["White"], first.headers["Result"]) == ("one", "0-1")
    assert first.headers["Annotator"].startswith("azselfplay, ")
    assert [move.uci() for move in first.mainline_moves()] == ["f2f3", "e7e5", "g2g4", "d8h4"]
    assert [move.uci() for move in second.mainline_moves()] == ["e1g1", "e8d7"]
    evals = [node.eval() for node in first.mainline()]
    assert None not in evals
    assert evals[-1].white().score() < -10_000, "mate"
    assert "a comment" not in text


def test_a_game_that_goes_on_after_draws_that_nobody_claimed_is_annotated(
    tmp_path: Path, monkeypatch
) -> None:
    moves = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. f3 e5 6. g4 Qh4# 0-1"
    code, text = annotated(tmp_path, monkeypatch, "chess", "a.pgn", moves)
    game = chess.pgn.read_game(io.StringIO(text))
    assert code == Exit.OK
    assert game is not None
    evals = [node.eval() for node in game.mainline()]
    assert len(evals) == 12
    assert None not in evals
    assert evals[7].relative.score() == 0, "drawn, if anybody claims it"


def test_sgfmill_reads_annotated_games(tmp_path: Path, monkeypatch, capfd) -> None:
    """And the time in which the search is compiled does not count."""
    clock = itertools.count()
    warm_up = Mock(side_effect=lambda: [next(clock) for _ in range(60)])
    monkeypatch.setattr("azselfplay.play.analysis.Analyst.warm_up", warm_up)
    for module in ("analysis", "annotate"):
        monkeypatch.setattr(f"azselfplay.play.{module}.time", Mock(perf_counter=clock.__next__))
    text = "(;SZ[5]PB[one]KM[6.5]RU[Japanese]RE[W+R];B[cc];W[bb];B[])"
    code, annotation = annotated(tmp_path, monkeypatch, "go_5x5", "a.sgf", text)
    assert code == Exit.OK
    assert "4 positions in 1.0 s" in capfd.readouterr().err
    found = sgf.Sgf_game.from_string(annotation)
    nodes = found.get_main_sequence()
    assert [node.get_move() for node in nodes[1:]] == [("b", (2, 2)), ("w", (3, 1)), ("b", None)]
    root = found.get_root()
    assert [root.get(name) for name in ("PB", "KM", "RU", "RE")] == ["one", 6.5, "Japanese", "W+R"]
    for node in nodes[1:]:
        assert 0 <= float(node.get_raw("SBKV")) <= 100
        assert node.get("C").startswith(f"Black {node.get_raw('SBKV').decode()} %")


def test_cshogi_reads_annotated_games(tmp_path: Path, monkeypatch) -> None:
    moves = "   1 ７六歩(77)\n   2 ３四歩(33)\n   3 ２二角成(88)\n   4 投了\n"
    code, text = annotated(tmp_path, monkeypatch, "shogi", "a.kif", f"先手：one\n手数----指手--\n{moves}")
    assert code == Exit.OK
    read = cshogi.KIF.Parser.parse_str(text)
    assert [cshogi.move_to_usi(move) for move in read.moves][:3] == ["7g7f", "3c3d", "8h2b+"]
    assert (read.names[0], read.win) == ("one", cshogi.BLACK_WIN)
    assert all("評価値" in comment for comment in read.comments[:3])


def test_a_move_is_marked_by_what_it_loses_and_the_better_line_is_a_variation() -> None:
    """Values are of the side to move in each position; a move that the search prefers has no mark."""
    game = get_game("chess")
    history = replay(game, "", ["e2e4", "e7e5", "g1f3", "b8c6"])
    read = ReadGame("", history.moves_text())
    values = [0.4, -0.25, 0.0, 0.3, 0.6]  # White's: 0.4, 0.25, 0.0, -0.3, 0.6
    best = ["d2d4", "c7c5", "g1f3", "g8f6", ""]
    answers = [
        {"value": value, "best": move, "pv": [move] * 20} for value, move in zip(values, best, strict=True)
    ]
    found = written_moves(game, FileGame(1, read, history), answers)
    assert [one.mark for one in found] == ["?!", "", "", "??"]
    assert [one.value for one in found] == pytest.approx([0.25, 0.0, -0.3, 0.6])
    assert found[0].comment == "Inaccuracy: 70 % became 62 %."
    assert found[0].others == [(["d2d4"] * 12, "70 %")]
    assert found[2].comment == ""
    text = knowledge_of(game).formats[0].write({}, "", [found[0]._replace(others=[(["d2d4"], "70 %")])], "")
    answers[2] = {"finished": "threefold_repetition", "outcome": 0, "value": 0.7}
    assert written_moves(game, FileGame(1, read, history), answers)[2].others == [], "no move was better"
    assert "1. e4 $6 { [%eval 0.37] Inaccuracy: 70 % became 62 %. } ( 1. d4 { 70 % } )" in text


def test_a_command_without_a_network_says_what_is_missing(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["azplay annotate", "a.pgn"])
    with ends(Exit.USAGE, "azplay annotate FILE RUN"):
        main()


def test_a_file_is_not_written_over_by_its_own_annotation(tmp_path: Path, monkeypatch) -> None:
    """The file would lose its comments."""
    games = tmp_path / "a.pgn"
    games.write_text("1. e4 { hmm? } *\n")
    create("chess", 0, "1x8", 1, tmp_path / "n.safetensors")
    flags = ["--out", str(tmp_path / "." / "a.pgn")]
    monkeypatch.setattr(sys, "argv", ["azplay annotate", str(games), str(tmp_path / "n.safetensors"), *flags])
    with ends(Exit.USAGE, "is the file of games itself"):
        main()
    assert "hmm" in games.read_text()
