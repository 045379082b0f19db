"""Every command answers --help and --version at once: slow imports come later."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("aiohttp", "apsw", "matplotlib", "numba", "numpy", "torch", "zmq")
"""Packages that take a tenth of a second or more to import."""
ASK_ALL = f"""
import contextlib, importlib, io, sys
from azselfplay.lab.azplay import COMMANDS

calls = [["azplay", name] for name in COMMANDS]
calls += [[name, *words] for name in ("azserver", "azclient") for words in ([], ["doctor"], ["keygen"])]
calls += [["azrun"], ["trainer"], ["experiments"], ["experiments.ablation"]]
mains = {{"azplay": "azselfplay.lab.azplay", "azserver": "server.main", "azclient": "client.main",
         "azrun": "azselfplay.lab.azrun", "trainer": "trainer.__main__",
         "experiments": "azselfplay.lab.experiments.__main__",
         "experiments.ablation": "azselfplay.lab.experiments.ablation"}}
for name, *words in calls:
    module = importlib.import_module(mains[name])
    for flag in ("--help", "--version"):
        sys.argv = [name, *words, flag]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            with contextlib.suppress(SystemExit):
                (getattr(module, "main", None) or module._main)()
        if slow := [package for package in {SLOW} if package in sys.modules]:
            sys.exit(f"{{name}} {{' '.join(words)}} {{flag}}: {{slow}}")
"""


def test_no_command_imports_slow_packages_to_say_how_it_is_called() -> None:
    done = subprocess.run([sys.executable, "-c", ASK_ALL], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
