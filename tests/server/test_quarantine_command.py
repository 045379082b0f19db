"""`azserver quarantine` and `azserver release` take the name of a key and act on the run that is served
here."""

import dataclasses
from contextlib import closing
from pathlib import Path

import pytest
from games_runs import records, store_run

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.link.finding import SERVER_LOCK
from azselfplay.link.keys import as_text, new_pair
from azselfplay.store.reader import StoreReader
from bench.random_games import entry
from server.keys import main

GAME = "tic_tac_toe"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a run with a game of the key `lab-3`; `lab-4` is allowed and has not played."""
    games = [dataclasses.replace(entry(one, "clients"), player="keys/lab-3") for one in records(GAME, 2)]
    keys = tmp_path / "keys"
    main(["keygen", "--keys", str(keys)])
    main(["allow", "--keys", str(keys), "client", "lab-4", as_text(new_pair().public)])
    return store_run(tmp_path / "runs" / "r", GAME, games)


def azserver(folder: Path, word: str, name: str) -> None:
    keys = folder.parent.parent / "keys"
    assert main([word, name, "--keys", str(keys), "--run", "r", "--runs", str(folder.parent)]) == Exit.OK


def quarantined(folder: Path) -> set[str]:
    with closing(StoreReader(folder / "games.db")) as reader:
        return set(reader.quarantined())


def test_a_key_that_has_played_or_is_allowed_is_held_and_released(folder: Path, capsys) -> None:
    """That includes a key that was revoked meanwhile; a key without games is held before it plays."""
    for name in ("lab-3", "lab-4", "lab-3"):
        azserver(folder, "quarantine", name)
    assert quarantined(folder) == {"keys/lab-3", "keys/lab-4"}
    azserver(folder, "release", "lab-3")
    assert quarantined(folder) == {"keys/lab-4"}
    said = capsys.readouterr().out
    assert "keys/lab-3: in quarantine, 2 games so far in r\n" in said
    assert "keys/lab-3: in quarantine already, 2 games" in said
    assert "keys/lab-3: released, 2 games" in said


def test_a_name_that_is_no_keys_holds_nobody(folder: Path) -> None:
    with pytest.raises(Fatal, match=r"no game came with a key of 'lab-5', and the nearest .* 'lab-4'"):
        azserver(folder, "quarantine", "lab-5")
    assert quarantined(folder) == set()


def test_where_the_trainer_keeps_its_games_elsewhere_the_other_command_is_named(folder: Path) -> None:
    (folder / "games.db").rename(folder / "run.json")  # azserver's folder has this and no games
    with pytest.raises(Fatal, match="azplay players r --quarantine keys/lab-3"):
        azserver(folder, "quarantine", "lab-3")


def test_without_a_name_it_is_the_run_that_is_served_here(folder: Path, monkeypatch) -> None:
    (folder / SERVER_LOCK).touch()
    served = [RunFolder(folder.parent, "r")]
    monkeypatch.setattr("server.keys.served_runs", lambda: served)
    main(["quarantine", "lab-3", "--keys", str(folder)])
    assert quarantined(folder) == {"keys/lab-3"}
    served *= 2
    with pytest.raises(Fatal, match="several azservers run here"):
        main(["release", "lab-3", "--keys", str(folder)])
    served.clear()
    with pytest.raises(Fatal, match="no azserver of yours runs here: name a run with --run"):
        main(["release", "lab-3", "--keys", str(folder)])
