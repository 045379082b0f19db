"""Everything that stops azclient waits longer than azclient drains; otherwise games in progress would be
lost."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FLAG = r"--drain[\", ]+(\d+)"
WAITS = {
    "kubernetes/client.yaml": r"terminationGracePeriodSeconds: (\d+)",
    "slurm/azclient.sbatch": r"#SBATCH --signal=B:TERM@(\d+)",
    "docker/compose.yaml": r"--drain[\s\S]*?stop_grace_period: (\d+)s",
}
MARGIN = 20
"""Seconds for the end itself: the workers need eight, and a busy machine needs more."""


def number(pattern: str, text: str) -> int:
    (found,) = re.findall(pattern, text)
    return int(found)


@pytest.mark.parametrize("file", WAITS)
def test_the_recipe_waits_longer_than_the_drain_that_it_asks_for(file: str) -> None:
    text = (DEPLOY / file).read_text()
    assert number(WAITS[file], text) >= number(FLAG, text) + MARGIN


def test_systemd_waits_longer_than_the_drain_of_the_settings() -> None:
    unit = (DEPLOY / "systemd" / "azclient.service").read_text()
    settings = tomllib.loads((DEPLOY / "systemd" / "azclient.toml").read_text())
    assert number(r"TimeoutStopSec=(\d+)", unit) >= settings["drain"] + MARGIN
