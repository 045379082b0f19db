"""The autoscaling example: its three files agree, and the rule asks for the right number."""

import math
import re
import shutil
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml
from deploy_commands import DEPLOY, ROOT

FOLDER = DEPLOY / "kubernetes" / "autoscaling"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool here (Debian: prometheus)"
)
TOLERANCE = 0.1
"""The tolerance of Kubernetes' autoscaler: a ratio this near to 1 changes nothing."""


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def rules() -> dict[str, str]:
    """Return the recording rules' expressions by the name that they record."""
    return {rule["record"]: rule["expr"] for rule in read("rules.yml")["groups"][0]["rules"]}


def clients_wanted(now: int, busy: float) -> int:
    """Return the number of clients that Kubernetes derives from the rule's result, for a target of 1."""
    found = re.fullmatch(
        r"(\S+) / clamp_min\(az:evaluators_busy:ratio, (\S+)\)", rules()["az:client_shortage:ratio"]
    )
    assert found is not None
    ratio = float(found[1]) / max(busy, float(found[2]))
    return now if abs(ratio - 1) <= TOLERANCE else math.ceil(now * ratio)


def test_the_autoscaler_fits_its_schema() -> None:
    kubernetes_validate.validate(read("hpa.yaml"), kubernetes_validate.latest_version(), strict=True)


def test_the_three_files_speak_of_the_same_metric() -> None:
    (served,) = read("adapter.yaml")["externalRules"]
    (asked,) = read("hpa.yaml")["spec"]["metrics"]
    assert served["name"]["as"] == asked["external"]["metric"]["name"]
    recorded = [name for name in rules() if f'"{name}"' in served["seriesQuery"]]
    assert recorded == ["az:client_shortage:ratio"]


@pytest.mark.parametrize("metric", ["az_eval_device_busy_seconds_total", "az_evaluators"])
def test_the_rule_uses_metrics_that_azserver_has(metric: str) -> None:
    assert metric in " ".join(rules().values())
    assert f"`{metric}`" in (ROOT / "docs" / "metrics.md").read_text()


@needs_promtool
@pytest.mark.parametrize(("busy", "shortage"), [(0.5, 1.9), (0.95, 1.0), (0.0, 5.0)])
def test_the_rule_says_how_many_clients_are_wanted_for_each(busy: float, shortage: float, tmp_path) -> None:
    """Simulate two evaluators that are busy for 2 * `busy` seconds in a second, together."""
    labels = '{namespace="azselfplay"}'
    check = {
        "rule_files": [str(FOLDER / "rules.yml")],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [
                    {"series": f"az_evaluators{labels}", "values": "2x40"},
                    {"series": f"az_eval_device_busy_seconds_total{labels}", "values": f"0+{60 * busy}x40"},
                ],
                "promql_expr_test": [
                    {
                        "expr": "round(az:client_shortage:ratio, 0.001)",
                        "eval_time": "15m",
                        "exp_samples": [{"labels": labels, "value": shortage}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump(check))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_clients_are_added_until_the_evaluators_are_busy_and_then_no_more() -> None:
    """Ten clients are enough to keep the evaluators busy here."""
    clients = 1
    for _ in range(20):
        clients = clients_wanted(clients, min(1.0, clients / 10))
    assert 9 <= clients <= 10
