"""A live run as Prometheus sees it: the real scraper, and the names in dashboard, rules and docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from free_ports import free_base_port

from azselfplay.host.metrics import EVERYWHERE
from client.metrics import METRICS as CLIENT
from server.metrics import METRICS as SERVER
from trainer.figures import METRICS as TRAINER

ROOT = Path(__file__).resolve().parents[1]
GRAFANA = ROOT / "deploy" / "grafana"
PATIENCE = 400.0
"""Seconds until processes are up and at work; torch starts slowly on a busy machine."""
TABLES = {"azserver": SERVER, "azclient": CLIENT, "trainer": TRAINER}
NAME = re.compile(r"\b(?:az|process)_[a-z0-9_]+\b")

pytestmark = pytest.mark.timeout(1200)


def names_of_tables() -> set[str]:
    return {metric.name for table in (*TABLES.values(), EVERYWHERE) for metric in table}


def without_suffix(name: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", name)


def expressions() -> list[str]:
    """Return the expressions of the dashboard and of the rules."""
    board = json.loads((GRAFANA / "azselfplay.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = re.findall(r"^ *expr: (.+)$", (GRAFANA / "alerts.yml").read_text(), re.M)
    assert len(panels) > 40
    assert len(rules) > 10
    return panels + rules


def test_names_are_as_prometheus_wants_them_and_each_is_told_by_one_process() -> None:
    names = [metric.name for table in (*TABLES.values(), EVERYWHERE) for metric in table]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not re.fullmatch(r"az_[a-z0-9_]+", name)] == []


def test_every_metric_is_on_the_page_and_every_name_on_the_page_is_one() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    told = re.findall(r"`(az_[a-z0-9_]+)", page)
    assert {without_suffix(name) for name in told} == names_of_tables()


def test_the_rules_are_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here (Debian: prometheus)")
    said = subprocess.run(
        [promtool, "check", "rules", GRAFANA / "alerts.yml"], capture_output=True, check=False
    )
    assert said.returncode == 0, said.stderr


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def until(condition: Callable[[], object], what: str) -> None:
    """Poll `condition`, as any observer from outside has to."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")


@pytest.fixture
def program() -> str:
    """Return the path of a real Prometheus."""
    found = shutil.which("prometheus")
    if found is None:
        pytest.skip("there is no prometheus here (Debian: prometheus)")
    return found


@pytest.fixture
def run(program: str, tmp_path: Path) -> Iterator[dict[str, int]]:
    """Run tic-tac-toe as three processes; yield their metrics ports by name."""
    base = free_base_port()
    ports = {"azserver": base + 2, "azclient": base + 3, "trainer": base + 4}
    small = ["--cpu-threads", "1", "--runs", str(tmp_path / "runs")]
    server = ["--game", "tic_tac_toe", "--net", "tiny", "--gpus", "cpu", "--workers", "0"]
    trainer = ["--window.min-positions", "100", "--optimizer.batch", "32"]
    client = ["--device", "remote", "--workers", "1", "--games", "8", "--spool", str(tmp_path / "spool")]
    dial = ["--server", f"127.0.0.1:{base}"]
    search = ["--self-play.search.simulations", "8"]
    commands = {
        "azserver": ["server.main", "--port", str(base), *server, *search, *small],
        "trainer": ["trainer", *dial, *trainer, *small],
        "azclient": ["client.main", *dial, *client, "--max-wait", "0"],
    }
    processes = []
    try:
        for name, words in commands.items():
            with (tmp_path / f"{name}.log").open("wb") as log:
                argv = [sys.executable, "-m", *words, "--metrics-port", str(ports[name])]
                processes.append(subprocess.Popen(argv, stdout=log, stderr=log, cwd=ROOT))
        yield ports
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def prometheus(program: str, run: dict[str, int], tmp_path: Path) -> Iterator[str]:
    """Yield the address of a real Prometheus that scrapes the run."""
    shutil.copy(GRAFANA / "alerts.yml", tmp_path)
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for name, port in run.items()
    ]
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(json.dumps({**config, "rule_files": ["alerts.yml"]}))
    address = f"127.0.0.1:{free_base_port()}"
    flags = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *flags, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(60)


def test_prometheus_scrapes_a_live_run_and_dashboard_and_rules_find_their_metrics(
    run: dict[str, int], prometheus: str
) -> None:
    def ask(expression: str) -> list[dict[str, object]]:
        query = urllib.parse.urlencode({"query": expression})
        found = json.loads(read(f"{prometheus}/api/v1/query?{query}"))
        assert found["status"] == "success", (expression, found)
        return list(found["data"]["result"])

    def is_at_work() -> bool:
        return all(
            ask(expression)
            for expression in (
                "az_eval_leaves_total > 100",
                "az_client_games_stored_total > 10",
                "az_train_steps_total > 0",
                "count(az_ready == 1) == 3",
            )
        )

    until(is_at_work, "games are played, stored and trained on, and Prometheus has seen it")
    texts = {name: read(f"http://127.0.0.1:{port}/metrics") for name, port in run.items()}
    for name, text in texts.items():
        there = set(re.findall(r"^# TYPE (\S+) ", text, re.M))
        assert {metric.name for metric in (*TABLES[name], *EVERYWHERE)} <= there
        for question in ("livez", "readyz"):
            url = f"http://127.0.0.1:{run[name]}/{question}"
            until(lambda url=url: read(url) == "ok\n", f"{question} of {name}")
        check_by_promtool(text)
    known = {name for text in texts.values() for name in re.findall(r"^# TYPE (\S+) ", text, re.M)}
    for expression in expressions():
        missing = {without_suffix(one) for one in NAME.findall(expression)} - known
        assert not missing, (expression, missing)
        ask(expression.replace("$__rate_interval", "1m"))
    rules = json.loads(read(f"{prometheus}/api/v1/rules"))["data"]["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


def check_by_promtool(text: str) -> None:
    """Check that promtool's linter finds nothing in our metrics (it does find something in those of
    prometheus_client)."""
    promtool = shutil.which("promtool")
    assert promtool is not None
    said = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    complaints = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("az_")]
    assert complaints == []
