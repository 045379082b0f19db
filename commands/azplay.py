"""`azplay COMMAND`: the commands that use a trained network. Only the command asked for is imported."""

from __future__ import annotations

import importlib
import sys

from games.nearest import nearest
from runtime.exits import Exit, guarded
from runtime.version import version

COMMANDS = {
    "play": ("engine.play.command", "play against a network in the terminal"),
    "uci": ("engine.uci.command", "chess engine for GUIs and match runners (UCI)"),
    "gtp": ("engine.gtp.command", "Go engine for GUIs and match runners (GTP)"),
    "usi": ("engine.usi.command", "shogi engine for GUIs and match runners (USI)"),
    "analyse": ("engine.analysis.command", "positions in, evaluations out, as JSON lines"),
    "match": ("evaluation.match.command", "two players against each other, with Elo and its error"),
    "ladder": ("evaluation.rating.commands:ladder", "a run's networks on one scale, Elo over training"),
    "scaling": ("evaluation.rating.commands:scaling", "Elo over simulations per move"),
    "openings": ("evaluation.rating.openings", "common human openings in self-play over training"),
    "games": ("report.games.command", "list, show, export, verify and count a run's games"),
    "players": ("report.players.command", "who plays for a run, whose games are odd; quarantine"),
    "status": ("report.status_command", "how a live run is, for scripts: exit status 3 on alerts"),
    "report": ("report.command", "one page on how a run is going, with alerts"),
    "web": ("web.command", "the runs of a folder as pages in a browser: watch, look at games, play"),
    "truth": ("evaluation.truth.command", "errors against positions whose result is known"),
    "mistakes": ("evaluation.truth.mistakes_command", "results that a run's own games throw away"),
    "export": ("engine.onnx_command", "a network as an ONNX model for other programs"),
    "backup": ("commands.backup.command:backup", "a copy of a run, also while it goes on"),
    "restore": ("commands.backup.command:restore", "a run from its backup, every file and game verified"),
    "known": ("evaluation.truth.make", "make the known truth: solver labels, endgame tables"),
    "completion": ("commands.completion", "a script by which your shell completes all of this"),
}
"""Name: (module, or module:function, what it is for). The function (`main`) reads sys.argv."""

EXAMPLES = (
    "azplay uci chess-tiny --nodes 800",
    "azplay match net:chess-tiny@200 alphabeta:2 --games 100",
    "azplay ladder chess-tiny",
)


def usage() -> str:
    lines = [
        "examples:",
        *(f"  {example}" for example in EXAMPLES),
        "",
        "usage: azplay COMMAND [--help]   (azplay --version)",
        "",
    ]
    return "\n".join(lines + [f"  {name:10} {what}" for name, (_, what) in COMMANDS.items()])


def _main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(usage())
        return int(Exit.OK if len(sys.argv) > 1 else Exit.USAGE)
    command = sys.argv[1]
    if command == "--version":
        print(f"azplay {version()}")
        return int(Exit.OK)
    if command not in COMMANDS:
        hint = f"azplay: unknown command {command!r}: did you mean `azplay {nearest(command, COMMANDS)}`?"
        print(f"{usage()}\n\n{hint}", file=sys.stderr)
        return int(Exit.USAGE)
    sys.argv = [f"azplay {command}", *sys.argv[2:]]
    module, _, function = COMMANDS[command][0].partition(":")
    return int(getattr(importlib.import_module(module), function or "main")())


def main() -> int:
    """Entry point of `azplay`."""
    return guarded(_main)


if __name__ == "__main__":
    raise SystemExit(main())
