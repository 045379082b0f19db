"""Optional packages: which extra installs which, and the message of a command without them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from azselfplay.host import exits
from azselfplay.host.exits import Exit, Fatal, guarded

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED_AS = {"pynacl": "nacl", "pyzmq": "zmq"}


def packages(requirements: list[str]) -> set[str]:
    names = {re.split(r"[\[><=]", one)[0] for one in requirements}
    return {IMPORTED_AS.get(name, name) for name in names} - {"azselfplay"}


def test_the_table_of_extras_is_that_of_the_project() -> None:
    declared = PROJECT["optional-dependencies"]
    for extra, names in exits.EXTRAS.items():
        assert packages(declared[extra]) == set(names)


def test_all_and_dev_contain_every_extra_but_those_for_people_with_a_bucket_or_a_ray_cluster() -> None:
    declared = PROJECT["optional-dependencies"]
    (everything,) = declared["all"]
    assert everything == f"azselfplay[{','.join(list(exits.EXTRAS)[:-2])}]"
    assert "azselfplay[all]" in declared["dev"]


def test_client_workers_and_games_import_no_optional_package() -> None:
    code = (
        "import importlib, sys\n"
        "from azselfplay.games import GAME_NAMES, get_game\n"
        "for name in ('client.main', 'client.worker', 'client.sources', 'azselfplay.lab.azplay'):\n"
        "    importlib.import_module(name)\n"
        "for name in GAME_NAMES:\n"
        "    get_game(name)\n"
        "files = {n: getattr(m, '__file__', None) or '' for n, m in sys.modules.items() if '.' not in n}\n"
        "print(*(name for name, file in files.items() if 'site-packages' in file))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert {"numba", "zmq"} <= found
    assert found & {package for packages in exits.EXTRAS.values() for package in packages} == set()


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("torch", "import server.app, server.main"),
        ("torch", "from net.architectures.registry import check_name; check_name('6x64se')"),
        ("obstore", "from azselfplay.store.archive import open_archive; open_archive(sys.argv[1])"),
        ("ray", "from azselfplay.lab import azcluster; sys.argv = AZCLUSTER; azcluster._main()"),
    ],
)
def test_a_package_is_imported_only_where_it_is_needed(package: str, code: str, tmp_path: Path) -> None:
    words = ["azcluster", "plan", "examples/cluster.toml"]
    code = f"import sys; AZCLUSTER = {words}; {code}; sys.exit({package!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_one_line_with_the_command_that_installs_it(monkeypatch, capsys) -> None:
    def main() -> int:
        raise ModuleNotFoundError("No module named 'torch'", name="torch.nn")

    monkeypatch.setattr(exits, "is_installed", lambda _package: False)
    assert guarded(main) == Exit.CONFIG
    said = capsys.readouterr().err
    assert "(torch): pip install 'azselfplay[train]'" in said
    assert "Traceback" not in said


def test_a_missing_module_of_our_own_stays_a_fault_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise ModuleNotFoundError("No module named 'searhc'", name="searhc")

    assert guarded(main) == Exit.INTERNAL
    assert "Traceback" in capsys.readouterr().err


def test_what_is_required_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exits, "is_installed", lambda package: package not in ("torch", "apsw"))
    with pytest.raises(Fatal, match=r"azserver needs .* \(apsw, torch\): pip install 'azselfplay\[train\]'"):
        exits.require("train", "azserver")
    exits.require("onnx", "azplay export")
