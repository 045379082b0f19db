"""The autoscaling example: its three files agree, and the rule asks for the right number."""

from typing import Any

import kubernetes_validate
import pytest
import yaml
from deploy_commands import DEPLOY, ROOT, by_promtool

FOLDER = DEPLOY / "kubernetes" / "autoscaling"


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def rules() -> dict[str, str]:
    """Return the recording rules' expressions by the name that they record."""
    return {rule["record"]: rule["expr"] for rule in read("rules.yml")["groups"][0]["rules"]}


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
    assert "SUCCESS" in by_promtool("test", "rules", str(file))
