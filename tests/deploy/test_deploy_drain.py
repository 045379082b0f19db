"""Everything that stops azclient waits longer than azclient drains; otherwise games in progress would be
lost."""

import re

import pytest
from deploy_commands import DEPLOY, rendered_for

FLAG = r"--drain[\", ]+(\d+)"
WAITS = {
    "kubernetes/azclient.yaml": r"terminationGracePeriodSeconds: (\d+)",
    "slurm/azclient.sh": r"#SBATCH --signal=B:TERM@(\d+)",
    "systemd/box-1/azclient.service": r"TimeoutStopSec=(\d+)",
    "docker/compose.yaml": r"--drain[\s\S]*?stop_grace_period: (\d+)s",
}
MARGIN = 20
"""Seconds for the end itself: the workers need eight, and a busy machine needs more."""


def number(pattern: str, text: str) -> int:
    (found,) = re.findall(pattern, text)
    return int(found)


@pytest.mark.parametrize("file", WAITS)
def test_whatever_stops_it_waits_longer_than_the_drain_that_it_asks_for(file: str) -> None:
    engine, _, name = file.partition("/")
    text = (DEPLOY / file).read_text() if engine == "docker" else rendered_for(engine)[name]
    assert number(WAITS[file], text) >= number(FLAG, text) + MARGIN
