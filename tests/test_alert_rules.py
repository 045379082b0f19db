"""The alerts for Prometheus: each fires for its own fault and for nothing else."""

import json
import re
from pathlib import Path

from deploy_commands import by_promtool

RULES = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "alerts.yml"
WELL = {
    "up": "1x60",
    "az_ready": "1x60",
    "az_evaluators": "2x60",
    "az_evaluators_expected": "2x60",
    "az_gpu_worker_restarts_total": "0x60",
    "az_trainer_present": "1x60",
    "az_games_relayed_total": "0+100x60",
    "az_games_acked_total": "0+100x60",
    "az_alert": "0x60",
    "az_game_rejects_total": "0x60",
    "az_weights_refused_total": "0x60",
    "az_faults_total": "0x60",
    "az_spool_games": "10x60",
    "az_disk_free_bytes": "50000000000x60",
    "az_loop_lag_seconds": "0.01x60",
}
"""An hour of a run without a fault, one value a minute, in promtool's notation."""
FAULTS = {
    "AzProcessDown": {"up": "0x60"},
    "AzNotReady": {"az_ready": "0x60"},
    "AzEvaluatorMissing": {"az_evaluators": "1x60"},
    "AzEvaluatorRestarts": {"az_gpu_worker_restarts_total": "0+1x60"},
    "AzNoTrainer": {"az_trainer_present": "0x60", "az_games_acked_total": "5x60"},
    # The trainer sends all games back, and each is handed to it again and again.
    "AzNoGames": {"az_games_acked_total": "5x60"},
    "AzDoesNotLearn": {"az_alert": "1x60"},
    "AzGamesRefused": {"az_game_rejects_total": "0+5x60"},
    "AzWeightsRefused": {"az_weights_refused_total": "0+1x60"},
    "AzFaults": {"az_faults_total": "0+1x60"},
    "AzSpoolGrows": {"az_spool_games": "9000x60"},
    "AzDiskNearlyFull": {"az_disk_free_bytes": "1000000000x60"},
    "AzSlowLoop": {"az_loop_lag_seconds": "3x60"},
}


def an_hour(name: str, changes: dict[str, str]) -> dict[str, object]:
    """Return a case for promtool: with these series only the alert `name` fires, or none if it is ""."""
    series = [
        {"series": f'{metric}{{job="azserver",run="one",part="server",instance="a"}}', "values": values}
        for metric, values in (WELL | changes).items()
    ]
    # The trainer may run in two places, and runs in one of them; the server of another run is up.
    others = (("one", "trainer", "b", 1), ("one", "trainer", "c", 0), ("two", "server", "d", 1))
    for run, part, instance, is_up in others:
        labels = f'job="trainer",run="{run}",part="{part}",instance="{instance}"'
        series.append({"series": f"up{{{labels}}}", "values": f"{is_up}x60"})
    firing = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else []
    asked = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "50m"}
    return {"interval": "1m", "input_series": series, "promql_expr_test": [{**asked, "exp_samples": firing}]}


def test_each_alert_comes_for_its_fault_alone_and_none_without(tmp_path: Path) -> None:
    assert re.findall(r"- alert: (\w+)", RULES.read_text()) == list(FAULTS)
    cases = [an_hour("", {}), *(an_hour(name, changes) for name, changes in FAULTS.items())]
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    assert "SUCCESS" in by_promtool("test", "rules", str(file))
