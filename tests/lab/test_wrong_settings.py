"""Wrong settings are reported before anything is started."""

from collections.abc import Callable

import pytest

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.processes import python_module
from azselfplay.lab import azplay, azrun_config
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.lab.experiments import recipe
from server import doctor
from server.config import ServerConfig
from server.config import load as azserver
from trainer.__main__ import load as trainer


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (lambda: ServerConfig(game="ches").check(), "--game: unknown game 'ches' .the nearest is chess."),
        (lambda: doctor.main(["--game", "ches"]), "--game: unknown game 'ches'"),
        (lambda: ServerConfig(net="sparse100").check(), "--net: .* must be a multiple of 16"),
        (
            lambda: azrun_config.check_parts(
                azrun_config.make_commands(RunConfig(game="go", net="sparse512"), 5600)
            ),
            "--net: go has no sparse features, so the network sparse512 cannot play it; it has the "
            "networks tiny, small, medium",
        ),
        (
            lambda: azrun_config.check_parts(
                {
                    **azrun_config.make_commands(RunConfig(game="chess", net="sparse"), 5600),
                    "trainer": python_module("trainer", "--loss.heads", "ownership:0.1"),
                }
            ),
            "trainer: --loss.heads: networks of the family sparse have no auxiliary heads: leave out "
            "ownership",
        ),
        (
            lambda: recipe.from_settings("r", {"title": "", "game": "go", "minutes": 1.0, "net": "sparse"}),
            "recipe r: go has no sparse features",
        ),
        (lambda: azserver(["--workers", "-1"]), "--workers must be a whole number of at least 0, not -1"),
        (lambda: azserver(["--gate.games", "1"]), "--gate.games must be a whole number of at least 2"),
        (lambda: azserver(["--port", "0"]), "--port must be a whole number from 1 to 65534, not 0"),
        (lambda: trainer(["--metrics-port", "65536"]), "--metrics-port must be .* to 65535, not 65536"),
    ],
)
def test_a_wrong_setting_is_named(check: Callable[[], object], what: str) -> None:
    with pytest.raises(Fatal, match=what) as found:
        check()
    assert found.value.code is Exit.CONFIG


def test_an_unknown_command_is_told_the_nearest_last(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["azplay", "paly"])
    assert azplay.main() == Exit.USAGE
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "azplay: unknown command 'paly': did you mean `azplay play`?"
