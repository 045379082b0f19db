"""Settings that are wrong are named before anything is started."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client.main import main as azclient
from commands import azrun_config
from commands.azrun_config import RunConfig
from runtime.exits import Exit, Fatal
from server import doctor
from server.config import ServerConfig
from trainer.config import TrainerConfig


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (lambda: ServerConfig(game="ches").check(), "--game: unknown game 'ches' .the nearest is chess."),
        (lambda: doctor.main(["--game", "ches"]), "--game: unknown game 'ches'"),
        (lambda: ServerConfig(metrics_port=65_536).check(), "--metrics-port is 65536"),
        (lambda: ServerConfig(web=-1).check(), "--web is -1"),
        (lambda: azrun_config.check(RunConfig(web=65_536)), "--web is 65536"),
        (lambda: TrainerConfig(metrics_port=65_536).check(), "--metrics-port must be in 0..65535"),
    ],
)
def test_a_wrong_setting_is_named(check: Callable[[], object], what: str) -> None:
    with pytest.raises(Fatal, match=what) as found:
        check()
    assert found.value.code is Exit.CONFIG


def test_azclient_with_a_wrong_setting_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert azclient(["--server", "x", "--metrics-port", "-1"]) == Exit.CONFIG
    assert "--metrics-port is -1" in capsys.readouterr().err
