"""The plan of a cluster: commands, places and GPUs, and one sentence for whatever is wrong with the file."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from deploy_commands import by_promtool
from free_ports import free_base_port

from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal
from azselfplay.host.runs import RunLock
from azselfplay.lab import azcluster
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.lab.cluster.plan import Part, check, cluster_in, on_one_machine, planned, runnable, targets
from azselfplay.lab.cluster.render import rendered

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "cluster.toml"


def example() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())


def parts_of(tables: dict[str, Any]) -> dict[str, Part]:
    return {part.name: part for part in planned(cluster_in(tables))}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the example with another value at `path`, such as places.hub.gpus."""
    tables = example()
    *groups, last = path.split(".")
    at: Any = tables
    for group in groups:
        at = at[int(group)] if isinstance(at, list) else at.setdefault(group, {})
    at[last] = value
    return tables


def test_players_and_trainer_are_sent_to_the_place_of_the_server_with_its_key() -> None:
    parts = parts_of(example())
    assert "--listen 0.0.0.0" in " ".join(parts["server"].command)
    for name in ("trainer", "client-box-1", "client-box-2"):
        assert "--server 10.0.0.1:5600 --server-key KEY-OF-A" in " ".join(parts[name].command)
    assert all(set(part.final) == NOT_RETRIED for part in parts.values())


@pytest.mark.parametrize("host", ["2001:db8::1", "[2001:db8::1]"])
def test_a_place_may_have_an_address_of_ipv6(host: str) -> None:
    tables = changed("places.hub.host", host)
    parts = parts_of(tables)
    assert "--listen :: " in " ".join(parts["server"].command)
    assert "--server [2001:db8::1]:5600 " in " ".join(parts["trainer"].command)
    assert targets("a", list(parts.values()))[0]["targets"] == ["[2001:db8::1]:9600"]
    check(list(parts.values()))


def test_the_file_may_say_where_the_server_listens() -> None:
    """A name may have addresses of IPv6 only. On one machine the server is nobody else's."""
    cluster = cluster_in(changed("server.settings.listen", "::"))
    for one, address in ((cluster, "::"), (on_one_machine(cluster), "127.0.0.1")):
        server, *_ = planned(one)
        assert f"--listen {address} " in " ".join(server.command)


def test_parts_on_one_machine_share_neither_gpus_nor_ports() -> None:
    parts = planned(on_one_machine(cluster_in(example())))
    devices = [number for part in parts for number in part.devices]
    assert sorted(devices) == list(range(2 + 6 + 6))
    assert len({part.metrics_port for part in parts}) == len(parts)
    assert runnable(parts[1].with_devices())[:3] == ["env", "CUDA_VISIBLE_DEVICES=0,1", sys.executable]
    assert parts[1].with_devices("2,GPU-3,4")[1] == "CUDA_VISIBLE_DEVICES=2,GPU-3"
    with pytest.raises(Fatal, match="CUDA_VISIBLE_DEVICES=2 has no 2 GPUs for trainer"):
        parts[1].with_devices("2")


def test_metrics_of_parts_that_may_meet_on_a_machine_have_ports_of_their_own() -> None:
    """A spare place counts, too: the trainer may be moved there, with the same command."""
    found = [address for one in targets("a", planned(cluster_in(example()))) for address in one["targets"]]
    assert "10.0.0.3:9600" in found, "the trainer on its spare place"
    assert len(set(found)) == len(found) == 1 + 2 + 2


def test_on_one_machine_no_part_uses_a_key() -> None:
    """The server has none there, and would refuse a folder of keys; --key needs the server's key."""
    tables = changed("server.settings.keys", "/keys")
    for table in (tables["trainer"], tables["clients"][0]):
        table["settings"] = {"key": "/keys/mine.key"}
    words = [word for part in planned(on_one_machine(cluster_in(tables))) for word in part.command]
    assert {"--keys", "--key", "--server-key", "/keys"}.isdisjoint(words)


@pytest.mark.parametrize(
    ("server", "client", "device"), [(0, 0, "cpu"), (0, 2, "cuda:0,cuda:1"), (2, 0, "remote")]
)
def test_positions_are_evaluated_where_the_gpus_are(server: int, client: int, device: str) -> None:
    tables = changed("server.gpus", server)
    tables["places"]["hub"]["gpus"], tables["clients"][0]["gpus"] = server, client
    command = parts_of(tables)["client-box-1"].command
    assert command[command.index("--device") + 1] == device


def test_up_here_waits_for_no_workers_of_a_server_that_has_none(tmp_path: Path, monkeypatch) -> None:
    """Its clients would never start."""
    began: list[RunConfig] = []
    given: dict[str, float] = {}

    class NoLauncher:
        def __init__(self, settings: RunConfig, *_: object, graces: dict[str, float]) -> None:
            began.append(settings)
            given.update(graces)

        main, report = None, lambda _: 0

    monkeypatch.setattr("azselfplay.lab.launcher.Launcher", NoLauncher)
    monkeypatch.setattr("azselfplay.host.aio.run", lambda _: None)
    tables = changed("server.settings.workers", 0)
    del tables["run"]["recipe"]
    tables["run"] |= {"game": "chess", "runs": str(tmp_path), "port": free_base_port()}
    tables["server"]["gpus"] = tables["places"]["hub"]["gpus"] = 1
    cluster = on_one_machine(cluster_in(tables))
    azcluster._up(cluster, planned(cluster))
    assert [(one.workers, one.game, one.net) for one in began] == [(0, "chess", "small")]
    assert given == {"server": 60, "trainer": 180, "client-box-1": 30, "client-box-2": 30}


def test_a_recipe_brings_the_settings_of_both_programs_and_a_rate_that_does_not_fall() -> None:
    tables = changed("run", {"name": "a", "recipe": "chess_two_cores", "server_key": "K"})
    parts = parts_of(tables)
    assert "--self-play.search.simulations" in parts["server"].command
    assert "--optimizer.batch" in parts["trainer"].command
    assert "--optimizer.cosine-minutes 0.0" in " ".join(parts["trainer"].command)
    check(list(parts.values()))


def test_a_recipe_serves_a_variant_of_its_game_as_for_azrun() -> None:
    tables = changed("run", {"name": "a", "recipe": "go_gpu", "game": "go_9x9", "server_key": "K"})
    assert "--game go_9x9 " in " ".join(parts_of(tables)["server"].command)


WRONG = {
    "unknown key": ("trainer.gpu", 2, "'gpu' is not a key of [trainer]; the nearest is 'gpus'"),
    "unknown setting": ("trainer.settings.optimizer.bach", 2, "the nearest is 'optimizer.batch'"),
    "unknown place": ("trainer.places", ["box-9"], "there is no place 'box-9'; the nearest is 'box-"),
    "two trainers": ("trainer", [{}, {}], "a run has one trainer"),
    "two servers": ("server.places", ["hub", "box-1"], "a run has one azserver"),
    "too many GPUs": ("trainer.gpus", 4, "place 'box-1' has 8 GPUs, and its parts ask for 10 (trainer 4"),
    "no number": ("trainer.gpus", "two", "trainer.gpus must be a whole number of at least 0, not 'two'"),
    "no number in settings": ("clients.0.settings.workers", "x", "clients.settings.workers must be a whole"),
    "no base port": ("run.port", 0, "run.port must be a whole number from 1 to 65534, not 0"),
    "no list": ("trainer.places", "box-1", "trainer.places must be a list of texts, not 'box-1'"),
    "no key": ("run.server_key", "", "[run] needs server_key"),
    "no game": ("run.recipe", "", "[run] needs a game or a recipe"),
    "another game": ("run.game", "shogi", "run.recipe 'chess_gpu' is for chess, not for shogi"),
    "unknown recipe": ("run.recipe", "ches", "there is no recipe and no game 'ches'"),
    "said twice": ("server.settings.port", 1, "settings.port follows from the rest of the file"),
    "place twice": ("clients.0.places", ["box-1", "box-1"], "each once"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_with_one_sentence_and_2(what: str) -> None:
    path, value, sentence = WRONG[what]
    with pytest.raises(Fatal, match=re.escape(sentence)) as refused:
        planned(cluster_in(changed(path, value)))
    assert refused.value.code == Exit.USAGE
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read"),
        ("[run", "is not TOML"),
        ("[run]\nname = 'a'", "'places' is missing"),
        ("[run]\n[places]\n[server]\n[trainer]", "'name' is missing of [run]"),
        ("run = 1\n[places]\n[server]\n[trainer]", "run must be a table, [run]"),
    ],
)
def test_the_command_says_which_file_is_wrong(
    text: str | None, sentence: str, monkeypatch, tmp_path, capsys
) -> None:
    file = tmp_path / "cluster.toml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["azcluster", "up", str(file)])
    assert azcluster.main() == Exit.USAGE
    said = capsys.readouterr().err
    assert sentence in said
    assert str(file) in said


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "file").touch()
    flags = ["render", str(FILE), "--for", "prometheus", "--out", str(tmp_path / "file")]
    monkeypatch.setattr(sys, "argv", ["azcluster", *flags])
    assert azcluster.main() == Exit.DISK
    assert f"cannot write {tmp_path}/file/targets.json" in capsys.readouterr().err


def test_a_relative_folder_is_refused_where_others_start_it() -> None:
    with pytest.raises(Fatal, match="must be an absolute path"):
        rendered(cluster_in(changed("run.runs", "runs")), "systemd")


@pytest.mark.parametrize(
    ("image", "of_clients"),
    [
        ("azselfplay", "azselfplay-client"),
        ("registry:5000/az", "registry:5000/az-client"),
        ("registry:5000/az:1", "registry:5000/az-client:1"),
    ],
)
def test_clients_without_evaluators_have_an_image_of_their_own(image: str, of_clients: str) -> None:
    tables = changed("run.image", image)
    tables["server"]["gpus"], tables["places"]["hub"]["gpus"], tables["clients"][0]["gpus"] = 1, 1, 0
    files = rendered(cluster_in(tables), "kubernetes")
    assert f"image: {of_clients}\n" in files["azclient.yaml"]
    assert f"image: {image}\n" in files["azserver.yaml"]
    tables["run"]["image"] = f"{image}@sha256:0"
    with pytest.raises(Fatal, match="has a digest"):
        rendered(cluster_in(tables), "kubernetes")


def test_skypilot_asks_for_gpus_of_a_kind() -> None:
    assert "  accelerators: H100:2\n" in rendered(cluster_in(example()), "skypilot")["trainer.yaml"]
    with pytest.raises(Fatal, match="needs the kind of the GPUs of trainer"):
        rendered(cluster_in(changed("places.box-1.gpu", "")), "skypilot")


def test_skypilot_starts_a_part_again_after_a_fault_but_not_after_a_wrong_setting(tmp_path: Path) -> None:
    task = yaml.safe_load(rendered(cluster_in(example()), "skypilot")["trainer.yaml"])
    codes = tmp_path / "codes"
    codes.write_text("75\n137\n78\n0\n")
    stand_in = 'code=$(head -n1 "$CODES"); sed -i 1d "$CODES"; exit "$code"'
    for name, text in (("python", stand_in), ("sleep", "")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    script = task["run"].replace("$HOME/azselfplay/bin", str(tmp_path))
    assert subprocess.run(["bash", "-c", script], env=os.environ | {"CODES": str(codes)}).returncode == 78
    assert codes.read_text() == "0\n"


def test_prometheus_reads_the_list_of_targets_with_the_jobs_of_our_alerts(tmp_path: Path) -> None:
    text = rendered(cluster_in(example()), "prometheus")["targets.json"]
    (tmp_path / "targets.json").write_text(text)
    jobs = [{"job_name": "azselfplay", "file_sd_configs": [{"files": [str(tmp_path / "targets.json")]}]}]
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))
    assert "SUCCESS" in by_promtool("check", "config", str(tmp_path / "prometheus.yml"))
    found = json.loads(text)
    of_alerts = ["azserver", "trainer", "trainer", "azclient", "azclient"]
    assert [one["labels"]["job"] for one in found] == of_alerts
    assert found[0]["targets"] == ["10.0.0.1:9600"]
    assert {one["labels"]["run"] for one in found} == {"chess-1"}


@pytest.mark.parametrize("is_old", [True, False])
def test_down_signals_no_process_of_an_earlier_up(is_old: bool, tmp_path, monkeypatch, capsys) -> None:
    """This `up` has its lock, but has not yet written its process id."""
    lock = tmp_path / "lock"
    monkeypatch.setattr(azcluster, "_lock", lambda _: lock)
    if is_old:
        lock.with_suffix(".pid").write_text(str(os.getpid()))
        os.utime(lock.with_suffix(".pid"), (1e9, 1e9))
    monkeypatch.setattr(sys, "argv", ["azcluster", "down", str(FILE), "--on", "local"])
    monkeypatch.setattr(os, "kill", Mock(side_effect=AssertionError))
    with RunLock(lock):
        assert azcluster.main() == Exit.TRY_AGAIN
    assert "comes up just now" in capsys.readouterr().err
