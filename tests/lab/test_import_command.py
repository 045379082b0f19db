"""`azplay games RUN import` takes games from files of other programs into the store of a run."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from games_runs import azplay_games, records, store_run
from in_process import ends

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.azrun_config import RunConfig, check
from azselfplay.lab.report.figures import by_version
from azselfplay.lab.report.games_command import _entries
from azselfplay.lab.report.players_command import main as azplay_players
from azselfplay.lab.report.status_command import of_folder
from azselfplay.lab.report.stored_games import fault_of, tags
from azselfplay.lab.report.strength import strength_of
from azselfplay.lab.web.players import Players
from azselfplay.lab.web.runs import summaries
from azselfplay.store.reader import Range, StoreReader
from bench.random_games import entry

SGF = "(;SZ[3]PB[one]PW[two]RE[B+R];B[bb];W[aa];B[ba])"
OTHERS = "(;SZ[3];B[bb])(;SZ[3]RE[W+R];B[bb];W[bb])(;SZ[5]RE[B+R];B[bb])(;SZ[3]KM[6.5]RE[B+R];B[bb])"
CUT = "(;SZ[3]RE[B+R];B[bb];W[a"


def test_good_games_are_stored_and_others_named_by_file_and_number(tmp_path, monkeypatch, capsys) -> None:
    file, run = tmp_path / "a.sgf", tmp_path / "go"
    dated = SGF.replace("PW[two]", "PW[two]DT[2023-01-01 10 00 00]")
    file.write_text(dated + OTHERS + SGF.replace("one", "three") + CUT)
    given = run.name, "import", file, "--runs", tmp_path, "--game", "go_3x3"
    assert azplay_games(monkeypatch, *given) == Exit.BAD_DATA
    out, err = capsys.readouterr()
    assert f"{file}: 2 imported, 0 there already, 5 left out" in out
    assert "2 imported games in" in out
    said = {2: "it has no result", 3: "move 2 ('B2')", 4: "a board of 5", 5: "it is by other rules: komi 6.5"}
    lines = err.splitlines()
    for line, (number, reason) in zip(lines, (said | {7: "no SGF of Go"}).items(), strict=True):
        assert line.startswith(f"azplay games: {file} game {number}: ")
        assert reason in line
    # A file of the folder that cannot be read does not stop the others.
    os.mkfifo(tmp_path / "A.sgf")
    azplay_games(monkeypatch, *given[:2], tmp_path, *given[3:5])
    out, err = capsys.readouterr()
    assert "0 imported, 2 there already, 6 left out" in out
    assert "A.sgf cannot be read: it is a pipe" in err
    assert azplay_games(monkeypatch, run, "verify") == Exit.OK
    reader = StoreReader(run / "games.db")
    first, second = [row.record(get_game("go_3x3")) for row in reader.rows(Range())]
    assert first.source == "one - two 2023-01-01 10 00 00"
    assert (first.outcome, first.reason, first.plies) == (1, "recorded", 3)
    for date in ("2023-01-01 10 00 00", "20230101", "1996,1997", "1996"):
        shown = tags("", next(reader.rows(Range())), replace(first, source=f"one - two {date}"))
        assert [shown[name] for name in ("White", "Black", "Date")] == ["one", "two", date]
    assert second.source == "three - two"
    assert first.is_imported
    assert reader.old_between(1, 2) == {1, 2}, "nothing takes them for games of self-play"


def test_a_run_of_imported_games_alone_is_looked_at_like_another(tmp_path, monkeypatch, capsys) -> None:
    """It has no run.json yet: the store says which game it is. The new run is named by its path."""
    (tmp_path / "a.sgf").write_text(SGF)
    azplay_games(monkeypatch, tmp_path / "go", "import", tmp_path / "a.sgf", "--game", "go_3x3")
    assert [one["game"] for one in summaries(tmp_path)["runs"]] == ["go_3x3"]
    assert of_folder("go", tmp_path).figures["game"] == "go_3x3"
    assert not strength_of(RunFolder(tmp_path, "go"))["is_solved"]
    assert azplay_games(monkeypatch, tmp_path / "go", "salvage", "--out", tmp_path / "new.db") == Exit.OK
    monkeypatch.setattr("sys.argv", ["azplay players", "go", "--runs", str(tmp_path)])
    with pytest.raises(Fatal, match="does not say who played its games: they are imported"):
        azplay_players()
    with pytest.raises(Fatal, match="plays go_3x3, not chess; choose another --run"):
        check(RunConfig(game="chess", run="go", runs=tmp_path))


def test_games_of_self_play_and_imported_ones_are_kept_apart(tmp_path: Path, monkeypatch, capsys) -> None:
    """Figures by weights version leave imported games out; a list shows which they are."""
    found = records("go_3x3", 3)
    run = store_run(tmp_path / "go", "go_3x3", [entry(one) for one in found])
    (tmp_path / "a.sgf").write_text(SGF)
    assert azplay_games(monkeypatch, run, "import", tmp_path / "a.sgf") == Exit.OK
    versions = by_version(StoreReader(run / "games.db"))
    assert sum((one.sources for one in versions), Counter()) == {"workers": 3}
    capsys.readouterr()
    assert azplay_games(monkeypatch, run, "stats") == Exit.OK
    *_, every, imported = capsys.readouterr().out.splitlines()
    assert (every.split()[:2], imported) == (["all", "3"], "1 imported games are not among them")
    assert azplay_games(monkeypatch, run, "list") == Exit.OK
    sources = [line.split()[3] for line in capsys.readouterr().out.splitlines()[1:]]
    assert sources == ["workers"] * 3 + ["imported"]
    assert azplay_games(monkeypatch, run, "show", "4") == Exit.OK
    assert "imported, without a search: one - two" in capsys.readouterr().out
    assert azplay_games(monkeypatch, run, "export", "--newest", 1) == Exit.OK
    exported = capsys.readouterr().out
    assert "%value" not in exported, "there was no search"
    assert "PB[one]PC[one - two]PW[two]" in exported
    players = Players(run / "games.db")
    assert {row["kind"] for row in players.rates()} == {"worker of azserver"}


def test_a_file_without_a_game_that_can_be_used_makes_no_run(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.sgf").write_text("(;SZ[5]RE[B+R];B[bb])")
    for name, reason in (("missing.sgf", "cannot be read"), ("a.sgf", "no game that can be used")):
        given = "go", "import", tmp_path / name, "--runs", tmp_path / "runs", "--game", "go_3x3"
        with pytest.raises(Fatal, match=reason):
            azplay_games(monkeypatch, *given)
    assert not (tmp_path / "runs").exists()


def test_a_result_that_the_rules_contradict_is_left_out(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "a.pgn").write_text("1. f3 e5 2. g4 Qh4# 1-0\n\n1. f3 e5 2. g4 Qh4# 0-1\n")
    given = "chess", "import", tmp_path / "a.pgn", "--runs", tmp_path, "--game", "chess"
    assert azplay_games(monkeypatch, *given) == Exit.BAD_DATA
    out, err = capsys.readouterr()
    assert "1 imported" in out
    assert "its result is +1, and by the rules (checkmate) it is -1" in err


def test_a_game_of_go_whose_dead_stones_were_taken_off_ends_before_its_passes(tmp_path, monkeypatch) -> None:
    """Black owns the whole board and has won. Where the file does not contradict this, the game is whole."""
    text = "(;SZ[3]PB[{0}]RE[{0}];B[bb];W[];B[])"
    (tmp_path / "a.sgf").write_text("".join(map(text.format, ("W+2.5", "B+1.5", "Void"))))
    given = "go", "import", tmp_path / "a.sgf", "--runs", tmp_path, "--game", "go_3x3"
    assert azplay_games(monkeypatch, *given) == Exit.OK
    rows = StoreReader(tmp_path / "go" / "games.db").rows(Range())
    found = [row.record(get_game("go_3x3")) for row in rows]
    ends = [(one.plies, one.outcome, one.reason) for one in found]
    assert ends == [(1, -1, "recorded"), (3, 1, "fewer_points"), (3, 1, "fewer_points")]
    assert azplay_games(monkeypatch, tmp_path / "go", "verify") == Exit.OK


def test_a_game_that_was_given_up_at_or_beyond_the_cap_of_self_play_verifies(tmp_path: Path) -> None:
    (tmp_path / "a.sgf").write_text(SGF)
    for cap in (3, 2):
        game = replace(get_game("go_3x3"), max_plies=cap)
        run = store_run(tmp_path / str(cap), game.name, list(_entries(game, tmp_path / "a.sgf", Counter())))
        (stored,) = StoreReader(run / "games.db").rows(Range())
        assert fault_of(game, stored) is None


def test_a_run_on_which_a_trainer_works_is_refused(tmp_path: Path, monkeypatch) -> None:
    run = store_run(tmp_path / "go", "go_3x3", [])
    (tmp_path / "a.sgf").write_text(SGF)
    with RunFolder(tmp_path, "go").lock("trainer"), ends(Exit.TRY_AGAIN, "belongs to another trainer"):
        azplay_games(monkeypatch, run, "import", tmp_path / "a.sgf")


@pytest.mark.parametrize(
    ("given", "reason", "code"),
    [
        (("RUN", "import", "FOLDER"), "has no files named .sgf", Exit.BAD_DATA),
        (("nothing", "import", "a.sgf"), "there is no run", Exit.BAD_DATA),
        (("RUN", "import", "missing.sgf"), "missing.sgf cannot be read", Exit.BAD_DATA),
        (("RUN", "import", "a.pgn"), "a form that go_3x3 does not read", Exit.BAD_DATA),
        (("RUN", "import", "a.sgf", "--game", "go_9x9"), "a run of go_3x3, not of go_9x9", Exit.BAD_DATA),
        (("new", "import", "a.sgf", "--game", "ludo"), "ludo", Exit.CONFIG),
    ],
)
def test_what_is_asked_wrongly_is_refused(given, reason: str, code: Exit, tmp_path, monkeypatch) -> None:
    run = store_run(tmp_path / "go", "go_3x3", [])
    words = [{"RUN": str(run), "FOLDER": str(tmp_path)}.get(word, word) for word in given]
    with ends(code, reason):
        azplay_games(monkeypatch, *words, "--runs", tmp_path)
