"""One live run of azserver, trainer and azclient, seen through its metrics with dashboard and rules, and
the pages."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy_commands import by_promtool
from free_ports import free_base_port
from parts import PATIENCE, RUN, Parts

from azselfplay.host.metrics import EVERYWHERE
from client.metrics import METRICS as CLIENT
from server.metrics import METRICS as SERVER
from trainer.figures import METRICS as TRAINER

ROOT = Path(__file__).resolve().parents[1]
GRAFANA = ROOT / "deploy" / "grafana"
TABLES = {"server": SERVER, "trainer": TRAINER, "client.main": CLIENT}
NAME = re.compile(r"\b(?:az|process)_[a-z0-9_]+\b")

pytestmark = pytest.mark.timeout(1200)


class Watched(Parts):
    """All three with metrics; azserver has pages too, and plays no games of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        base = free_base_port()
        self.metrics = {name: base + at for at, name in enumerate(TABLES)}
        self.web = base + len(TABLES)

    def _is_busy(self) -> bool:
        return self.trained().get("step", 0) > 0

    def _server_flags(self) -> list[str]:
        flags = super()._server_flags()
        flags[flags.index("--workers") + 1] = "0"
        return [*flags, "--web", str(self.web), "--metrics-port", str(self.metrics["server"])]

    def _trainer_flags(self) -> list[str]:
        return [*super()._trainer_flags(), "--metrics-port", str(self.metrics["trainer"])]

    def _client_flags(self) -> list[str]:
        return [*super()._client_flags(), "--metrics-port", str(self.metrics["client.main"])]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Yield a run that trains."""
    with Watched(tmp_path_factory.mktemp("run")) as parts:
        yield parts


# ---- metrics -----------------------------------------------------------------------------------


def without_suffix(name: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", name)


def panels() -> list[str]:
    """Return the expressions of the dashboard."""
    board = json.loads((GRAFANA / "azselfplay.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(found) > 40
    return found


def test_names_are_as_prometheus_wants_them_and_all_on_the_page() -> None:
    names = [metric.name for table in (*TABLES.values(), EVERYWHERE) for metric in table]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not re.fullmatch(r"az_[a-z0-9_]+", name)] == []
    told = re.findall(r"`(az_[a-z0-9_]+)", (ROOT / "docs" / "metrics.md").read_text())
    assert {without_suffix(name) for name in told} == set(names)


def test_rules_and_panels_are_expressions(tmp_path: Path) -> None:
    rules = [{"record": "a", "expr": one.replace("$__rate_interval", "1m")} for one in panels()]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    for file in (GRAFANA / "alerts.yml", tmp_path / "panels.yml"):
        assert "SUCCESS" in by_promtool("check", "rules", "--lint=none", str(file))


def read(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def test_a_live_run_has_every_metric_that_dashboard_and_rules_name(run: Watched) -> None:
    texts = {name: read(port, "metrics") for name, port in run.metrics.items()}
    known: set[str] = set()
    for name, text in texts.items():
        there = set(re.findall(r"^# TYPE (\S+) ", text, re.M))
        assert {metric.name for metric in (*TABLES[name], *EVERYWHERE)} <= there
        assert read(run.metrics[name], "livez") == "ok\n"
        assert read(run.metrics[name], "readyz") == "ok\n"
        known |= there
    alerts = re.findall(r"^ *expr: (.+)$", (GRAFANA / "alerts.yml").read_text(), re.M)
    assert len(alerts) > 10
    named = {without_suffix(name) for one in (*panels(), *alerts) for name in NAME.findall(one)}
    assert named - known == set()


def test_promtool_finds_nothing_in_our_metrics(run: Watched) -> None:
    """It does complain about the metrics that prometheus_client adds, which are left out here."""
    for port in run.metrics.values():
        said = by_promtool("check", "metrics", text=read(port, "metrics"))
        assert [line for line in said.splitlines() if line.startswith("az_")] == []


# ---- pages -------------------------------------------------------------------------------------


def test_a_server_shows_its_own_run_with_its_live_figures(run: Watched) -> None:
    url = f"http://127.0.0.1:{run.web}/api/run/{RUN}/events"
    with urllib.request.urlopen(url, timeout=PATIENCE) as stream:
        for line in stream:
            found = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            if found.get("live"):
                break
    assert found["server"] == ""
    assert found["summary"]["running"]
    assert found["live"]["sessions"]["trainer"] == 1
    assert f"http://127.0.0.1:{run.web}/run/{RUN}" in (run.folder / "server.log").read_text()


def test_every_check_is_on_the_page() -> None:
    """The names of checks are found in the code by the calls that begin a finding."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    sources = [*ROOT.glob("azselfplay/diagnostics/doctor/*.py"), *ROOT.glob("*/*doctor.py")]
    found = {
        name
        for path in sources
        for name in re.findall(r'\b(?:ok|warning|fault)\(\s*"([^"]+)"', path.read_text())
    }
    assert {"compiled code", "clock", "games", "ports", "spool"} <= found
    assert [name for name in found if f"`{name}`" not in page] == []
