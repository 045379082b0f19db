"""Files that people wrote, damaged or put somewhere are refused in words."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from in_process import ends

from azselfplay.games import get_game
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.runs import RunFolder, is_locked
from azselfplay.lab.backups import FILE, FORMAT, About, read_about
from azselfplay.lab.web.guarding import as_json
from azselfplay.lab.web.runs import summaries
from azselfplay.link.finding import newest_weights
from azselfplay.link.weights_files import read_weights
from azselfplay.play.openings import openings_from_file
from azselfplay.store.reader import StoreReader

DEEP = 5000


@dataclass(frozen=True)
class Settings:
    port: int = 1
    rate: float = 1.0


@pytest.mark.parametrize(
    "text",
    [
        "port = " + "[" * DEEP + "]" * DEEP,
        "port = " + "{a=" * DEEP + "1" + "}" * DEEP,
        "a." * DEEP + "b = 1",
        "[" + "a." * DEEP + "b]",
        "port = " + "9" * 5000,
        "rate = " + "9" * 400,
    ],
    ids=["lists", "tables", "dots", "header", "5000 digits", "400 digits"],
)
def test_settings_that_no_program_wrote_are_refused_in_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "az.toml"
    file.write_text(text)
    with ends(Exit.CONFIG, "is not TOML"):
        load(Settings, ["--config", str(file)], command="az", examples=("", "", ""))


def test_a_byte_order_mark_before_a_file_is_skipped_and_utf16_is_named(tmp_path: Path) -> None:
    file, chess = tmp_path / "file", get_game("chess")
    file.write_text("port = 7\n", encoding="utf-8-sig")
    assert load(Settings, ["--config", str(file)], command="az", examples=("", "", "")).port == 7
    file.write_text("e2e4\n", encoding="utf-8-sig")
    (opening,) = openings_from_file(chess, file)
    assert opening.game_history(chess).moves_text() == ["e2e4"]
    file.write_text("e2e4\n", encoding="utf-16")
    with pytest.raises(Fatal, match="text in UTF-16; save it as UTF-8"):
        openings_from_file(chess, file)


@pytest.mark.parametrize("name", ["сеть", "网络", "\udcff"], ids=["Cyrillic", "Chinese", "no UTF-8"])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_a_name_that_the_encoding_of_the_output_lacks_ends_no_command(
    name: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding, write_through=True))

    def main() -> int:
        print(f"network {name} is loaded")
        return 0

    assert guarded(main) == 0
    assert written.getvalue().endswith(b" is loaded\n")


@pytest.mark.parametrize("kind", ["pipe", "loop", "folder", "device"])
def test_what_is_no_file_is_refused_at_once_wherever_a_file_is_read(tmp_path: Path, kind: str) -> None:
    runs = tmp_path / "runs"
    run = RunFolder(runs, "bad")
    run.create("chess", 4)
    places = [
        run.games, run.figures, run.figures_log, run.config, run.trainer_config, run.path / "ratings.json",
        run.path / "truth.json", run.path / "azserver.lock", run.weights / "current.json",
    ]  # fmt: skip
    for place in [*places, tmp_path / "given"]:
        _put(kind, place)
    with pytest.raises(Fatal, match="cannot read the settings file"):
        load(Settings, ["--config", str(tmp_path / "given")], command="az", examples=("", "", ""))
    with pytest.raises(Fatal, match="cannot be read"):
        read_weights(tmp_path / "given")
    with pytest.raises(Fatal, match="cannot be told"):
        newest_weights(run)
    with pytest.raises(Fatal, match=r"games\.db"):
        StoreReader(run.games)
    assert is_locked(run.path / "azserver.lock"), "nobody can tell that it is not"
    assert [one["name"] for one in summaries(runs)["runs"]] == ["bad"]


def _put(kind: str, place: Path) -> None:
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(place if kind == "loop" else "/dev/zero")


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"format": 5, "game": "\\ud800", "history": 1}',
        '{"game": {"a": 1}, "history": 1}',
        '{"format": 5, "game": "x"}',
        '{"a": ' + "9" * 5000,
    ],
    ids=["nested", "half of a character", "no text", "incomplete", "5000 digits"],
)
def test_one_damaged_run_leaves_the_others_in_the_list(tmp_path: Path, content: str) -> None:
    RunFolder(tmp_path, "good").create("chess", 4)
    bad = RunFolder(tmp_path, "bad")
    bad.create("chess", 4)
    for path in (bad.about, bad.figures, bad.figures_log, bad.weights / "current.json"):
        path.write_text(content + "\n")
    listed = {one["name"]: one["game"] for one in summaries(tmp_path)["runs"]}
    as_json(list(listed.items()))
    assert listed["good"] == "chess"
    assert "damaged" in listed["bad"]
    with pytest.raises(Fatal, match="damaged"):
        bad.describe()


@pytest.mark.parametrize("run_id", ["zz", "abc", "ab" * 17, "../" * 4])
def test_a_backup_of_a_run_without_a_possible_identity_is_not_restored(tmp_path: Path, run_id: str) -> None:
    about = About(FORMAT, "1", "now", "run", run_id, "chess", None, None, None)
    (tmp_path / FILE).write_bytes(msgspec.json.encode(about))
    with ends(Exit.BAD_DATA, "is not the identity of a run"):
        read_about(tmp_path)


@pytest.mark.parametrize("name", ["no_such_game", "go_9x9_komi1e999", "go_9x9_komi", "go_0x0", ""])
def test_a_run_of_a_game_that_is_unknown_ends_a_command_with_a_sentence(name: str, capsys) -> None:
    def main() -> int:
        get_game(name)
        return 0

    assert guarded(main) == Exit.BAD_DATA
    assert "bug" not in capsys.readouterr().err
