"""`azplay games` on stores that the trainer wrote."""

import dataclasses
import errno
import io
import sys
from pathlib import Path
from unittest.mock import Mock

import apsw
import chess
import chess.pgn
import numpy as np
import pytest
from games_runs import azplay_games, records, store_run
from in_process import ends

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.game_texts import writers_of
from azselfplay.games.playouts import replay
from azselfplay.games.spec import Game
from azselfplay.games.stubs import Movers
from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.report import stored_games
from azselfplay.lab.report.games_command import main
from azselfplay.lab.report.stored_games import plies, written_record
from azselfplay.store.reader import Range, open_games
from bench.random_games import entry
from protocol.records import IMPROVED_POLICY, PER_PLY, GameRecord

DOTS = get_game("dots_and_boxes_2x2")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Make a run of three Connect Four games under weights 0, 1 and 0; the second is by a client."""
    first, second, third = records("connect_four", 3, versions=(0, 1))
    entries = [entry(first), entry(second, "clients"), entry(third)]
    return store_run(tmp_path / "cf", "connect_four", entries)


def test_a_list_has_a_line_a_game(run: Path, monkeypatch, capsys) -> None:
    assert azplay_games(monkeypatch, run, "list") == Exit.OK
    _, *lines = capsys.readouterr().out.splitlines()
    found = records("connect_four", 3, versions=(0, 1))
    results = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
    for number, (line, record) in enumerate(zip(lines, found, strict=True), 1):
        fields = line.split()
        source = "clients" if number == 2 else "workers"
        version = str(int(record.versions[0]))
        wanted = [source, str(record.plies), results[record.outcome], version, record.reason]
        assert [fields[0], *fields[3:]] == [str(number), *wanted]


def test_flags_may_come_before_the_run(run: Path, monkeypatch, capsys) -> None:
    assert azplay_games(monkeypatch, "--runs", run.parent, run.name, "list") == Exit.OK
    assert len(capsys.readouterr().out.splitlines()) == 1 + 3
    (run.parent / "empty").mkdir()
    given = "--runs", run.parent, run.name, "import", run.parent / "empty"
    with pytest.raises(Fatal, match="no file"):
        azplay_games(monkeypatch, *given)


def test_the_newest_and_a_range_can_be_listed(run: Path) -> None:
    games = open_games(str(run), run.parent)

    def numbers(wanted: Range) -> list[int]:
        return [game.seq for game in games.rows(wanted, with_data=False)]

    assert numbers(Range()) == [1, 2, 3]
    assert numbers(Range(newest=2)) == [2, 3]
    assert numbers(Range(first=2, last=2)) == [2]
    assert numbers(Range(last=2, newest=1)) == [2]
    assert numbers(Range(newest=9)) == [1, 2, 3]


def test_a_game_is_shown_with_boards_and_values(run: Path, monkeypatch, capsys) -> None:
    assert azplay_games(monkeypatch, run, "show", 2, "--boards", 1) == Exit.OK
    shown = capsys.readouterr().out
    record, game = records("connect_four", 2, versions=(0, 1))[1], get_game("connect_four")
    assert shown.count(game.notation.render(game.notation.state_from_text(""))) == 1
    assert shown.count("1 2 3 4 5 6 7") == record.plies + 1
    for action, value in zip(record.actions.tolist(), record.root_values.tolist(), strict=True):
        assert f"  {action + 1}      {value:+7.3f}  " in shown
    assert shown.rstrip().endswith(record.reason)
    assert shown.count(" to move\n") == record.plies, "not at the end"


def test_shares_of_an_improved_policy_are_not_called_visits(run: Path) -> None:
    [stored], game = open_games(str(run), run.parent).rows_of([1]), get_game("connect_four")
    record = stored.record(game)
    improved = dataclasses.replace(record, flags=record.flags | IMPROVED_POLICY)
    for one, of in ((record, ""), (improved, "ten-thousandths of the improved policy, ")):
        assert f"\nvisits: {of}of the move played" in "\n".join(stored_games.shown(game, stored, one, 0))


def test_an_unknown_number_says_which_there_are(run: Path, monkeypatch) -> None:
    with ends(Exit.BAD_DATA, "numbers 1 to 3"):
        azplay_games(monkeypatch, run, "show", 9)
    with pytest.raises(Fatal, match=r"the runs in .* are cf"):
        azplay_games(monkeypatch, "nothing", "list", "--runs", run.parent)


@pytest.mark.parametrize("start", ["", "4k3/P7/8/8/8/8/8/4K2R w K - 0 40"])
def test_exported_chess_games_replay_to_the_same_end(start: str, tmp_path: Path, monkeypatch) -> None:
    found = records("chess", 2, start=start)
    run, out = store_run(tmp_path / "c", "chess", [entry(one) for one in found]), tmp_path / "games.pgn"
    assert azplay_games(monkeypatch, run, "export", "--out", out, "--variations", 2) == Exit.OK
    file, game = io.StringIO(out.read_text()), get_game("chess")
    for record in found:
        read = chess.pgn.read_game(file)
        assert read is not None
        assert not read.errors
        assert read.headers["Termination"] == record.reason
        assert read.headers["Result"] == {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[record.outcome]
        node: chess.pgn.GameNode = read
        for number, ply in enumerate(plies(game, record, GameHistory(game, record.start, record.max_plies))):
            main, *others = node.variations
            assert main.move.uci() == ply.move
            value, visits = record.root_values[number], dict(ply.most_visited)
            assert main.comment.startswith(f"[%value {value:+.3f}] [%visits {ply.visits}/{ply.all_visits}]")
            wanted = [move for move in visits if move != ply.move][:2]
            assert [other.move.uci() for other in others] == wanted
            for other, move in zip(others, wanted, strict=True):
                assert other.comment.startswith(f"[%visits {visits[move]}/{ply.all_visits}] ")
            node = main
        assert node.is_end()
    assert chess.pgn.read_game(file) is None


def test_what_the_search_knew_of_the_network_is_exported_where_it_is_known(tmp_path, monkeypatch) -> None:
    [record] = records("connect_four", 1)
    some = np.full(record.plies, np.nan, np.float16)
    some[0] = 0.25
    depths = np.zeros(record.plies, np.uint16)
    depths[0] = 9
    figures = {"prior_values": some, "prior_kl": some, "mean_depths": some}
    known = dataclasses.replace(record, **figures, max_depths=depths.astype(record.max_depths.dtype))
    run, out = store_run(tmp_path / "c", "connect_four", [entry(known)]), tmp_path / "games.txt"
    assert azplay_games(monkeypatch, run, "export", "--out", out) == Exit.OK
    first, second = [line for line in out.read_text().splitlines() if "%value" in line][:2]
    assert first.endswith(" [%prior_value +0.250] [%prior_kl 0.250] [%depth 0.2/9]}")
    assert "prior" not in second
    assert "depth" not in second


def test_a_game_that_counts_is_exported_with_its_final_score() -> None:
    """The rules must have ended it. Resigned games, and games in which nothing is counted, have no score."""

    def as_text(game: Game, record: GameRecord) -> str:
        return written_record(writers_of(game)["text"], game, {"Result": "*"}, record, 0)

    record = records(DOTS.name, 1)[0]
    final = replay(DOTS, record.actions.tolist())[-1]
    assert DOTS.score is not None
    assert f'[Score "{DOTS.score(final):+g}"]' in as_text(DOTS, record)
    given_up = dataclasses.replace(record, actions=record.actions[:3], visited=record.visited[:3])
    assert "Score" not in as_text(DOTS, given_up)
    four = records("connect_four", 1)[0]
    assert "Score" not in as_text(get_game("connect_four"), four)


def test_a_name_that_a_client_gives_itself_adds_no_line_and_controls_no_terminal(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    (record,) = records("chess", 1)
    nasty = dataclasses.replace(record, source='x"]\n\x1b]0;mine\x07')
    run = store_run(tmp_path / "run", "chess", [entry(nasty)])
    assert azplay_games(monkeypatch, run, "show", "1") == Exit.OK
    assert azplay_games(monkeypatch, run, "export", "--out", tmp_path / "games.pgn") == Exit.OK
    pgn = (tmp_path / "games.pgn").read_text()
    assert "[Site \"x'\\\\]".replace("\\\\]", "]\\n") in pgn
    assert "\x1b" not in capsys.readouterr().out + pgn


@pytest.mark.parametrize(("name", "turns"), [("connect_four", True), (DOTS.name, True), (DOTS.name, False)])
def test_a_resigned_game_is_checked_as_what_it_is(
    name: str, turns: bool, tmp_path: Path, monkeypatch, capsys
) -> None:
    """It is good if the side that made the last move loses, whoever moves next (`turns`: the other side). It
    is bad with another outcome, or where the rules ended the game."""
    movers = Movers(get_game(name))
    signs = {record.uid: movers("", record.actions).tolist() for record in records(name, 30)}
    found = [one for one in records(name, 30) if (signs[one.uid][-1] != signs[one.uid][-2]) is turns][:3]
    rest = [len(record.visits) - int(record.visited[-1]) for record in found]
    given_up = [
        dataclasses.replace(
            record,
            **{name: getattr(record, name)[:-1] for name in PER_PLY},
            visits=record.visits[:visits],
            visit_actions=record.visit_actions[:visits],
            reason="resignation",
            outcome=-signs[record.uid][-2],
        )
        for record, visits in zip(found, rest, strict=True)
    ]
    wrong = dataclasses.replace(given_up[1], outcome=-given_up[1].outcome)
    over = dataclasses.replace(found[2], reason="resignation")
    run = store_run(tmp_path / "r", name, [entry(game) for game in (given_up[0], wrong, over)])
    assert azplay_games(monkeypatch, run, "verify") == Exit.BAD_DATA
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["game 2", "game 3"]
    assert "outcome" in lines[0]
    assert "'resignation'" in lines[1]


def test_bad_games_are_named_with_what_is_wrong(tmp_path: Path, monkeypatch, capsys) -> None:
    found = records("tic_tac_toe", 6)
    repeated = np.array(found[1].actions)
    repeated[1] = repeated[0]
    entries = [
        entry(found[0]),
        entry(dataclasses.replace(found[1], actions=repeated)),
        entry(dataclasses.replace(found[2], reason="nonsense")),
        entry(dataclasses.replace(found[3], outcome=1 if found[3].outcome < 1 else 0)),
        dataclasses.replace(entry(found[4]), plies=77),
        dataclasses.replace(entry(found[5]), sha256=bytes(32)),
    ]
    run = store_run(tmp_path / "r", "tic_tac_toe", entries)
    assert azplay_games(monkeypatch, run, "verify") == Exit.BAD_DATA
    lines = capsys.readouterr().out.splitlines()
    words = ["ply 1", "'nonsense'", "outcome", "plies is", "hash"]
    assert [line.split(":")[0] for line in lines[:-1]] == [f"game {number}" for number in range(2, 7)]
    for line, word in zip(lines, words, strict=False):
        assert word in line
    assert lines[-1] == "6 games checked, 5 bad"


def test_a_damaged_game_is_left_out_of_the_export(run: Path, monkeypatch, capsys) -> None:
    connection = apsw.Connection(str(run / "games.db"))
    connection.execute("UPDATE games SET data = x'00' WHERE seq = 2")
    connection.close()
    assert azplay_games(monkeypatch, run, "export") == Exit.BAD_DATA
    captured = capsys.readouterr()
    assert captured.out.count("[Event ") == 2
    assert "game 2 is damaged: cannot be unpacked" in captured.err
    with pytest.raises(Fatal, match=r"--out \. is a folder"):
        azplay_games(monkeypatch, run, "export", "--out", ".")


def test_an_export_to_the_output_is_utf8_in_any_locale(run: Path, monkeypatch) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="latin-1", write_through=True))
    monkeypatch.setattr(stored_games, "written_record", Mock(return_value="▲"))
    stored_games.export(open_games(str(run), run.parent), Range(1, 1), "", 0, None, print)
    assert output.getvalue().decode() == "▲\n\n"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_ends_early_leaves_no_part_of_a_file(run: Path, tmp_path, monkeypatch, error) -> None:
    monkeypatch.setattr(stored_games, "written_record", Mock(side_effect=["a game", error]))
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises((Fatal, KeyboardInterrupt)):
        stored_games.export(open_games(str(run), run.parent), Range(), "", 0, out / "games.pgn", print)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("words", ["list runs/a --newest 3", "import a.sgf go"])
def test_an_action_before_the_run_is_answered_with_the_right_order(words: str, monkeypatch) -> None:
    order = "azplay games RUN import FILE$" if "import" in words else "azplay games RUN list$"
    with ends(Exit.USAGE, order):
        azplay_games(monkeypatch, *words.split())


def test_an_unknown_action_is_answered_with_all_that_there_are(monkeypatch) -> None:
    """`import` is among them, although it has a command line of its own."""
    monkeypatch.setattr(sys, "argv", ["azplay games", "chess-1", "delete", "1"])
    with ends(Exit.USAGE, r"there is no action 'delete': give one of list, .*, import"):
        main()
