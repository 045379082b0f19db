"""`azplay COMMAND`: the commands that use a trained network. Only the requested command is imported."""

from __future__ import annotations

import importlib
import sys

from azselfplay.games.names import near
from azselfplay.host.config import version
from azselfplay.host.exits import Exit, guarded

COMMANDS = {
    "play": ("azselfplay.play.terminal", "play against a network in the terminal"),
    "uci": ("azselfplay.play.uci:uci", "run a chess engine for GUIs and match runners (UCI)"),
    "gtp": ("azselfplay.play.gtp", "run a Go engine for GUIs and match runners (GTP)"),
    "usi": ("azselfplay.play.uci:usi", "run a shogi engine for GUIs and match runners (USI)"),
    "analyse": ("azselfplay.play.analyse", "evaluate positions: JSON lines in, JSON lines out"),
    "annotate": ("azselfplay.play.annotate", "annotate whole games: values, mistakes and better lines"),
    "match": ("azselfplay.play.match", "play two players against each other; Elo with its error"),
    "ladder": ("azselfplay.play.ladder:ladder", "rate the networks of a run: Elo over training"),
    "scaling": ("azselfplay.play.ladder:scaling", "rate a network: Elo over simulations per move"),
    "games": (
        "azselfplay.lab.report.games_command",
        "list, show, export, import, verify and count a run's games",
    ),
    "players": (
        "azselfplay.lab.report.players_command",
        "list who plays for a run and whose games stand out; quarantine",
    ),
    "status": (
        "azselfplay.lab.report.status_command",
        "say how a live run is; for scripts, exit status 3 on alerts",
    ),
    "report": ("azselfplay.lab.report.command", "write one HTML page on how a run is going, with alerts"),
    "web": ("azselfplay.lab.web.command", "watch runs, look at their games and play, in a browser"),
    "truth": ("azselfplay.play.truth", "measure a network on positions whose result is known"),
    "export": ("azselfplay.play.export", "write a network as an ONNX model, for other programs"),
    "backup": ("azselfplay.lab.backup_command:backup", "copy a run, also while it goes on"),
    "restore": (
        "azselfplay.lab.backup_command:restore",
        "restore a run from its backup, and verify all of it",
    ),
    "check-game": ("azselfplay.play.check_game", "check a game of your own, before it is trained"),
}
"""Name: (module, or module:function, what it is for). The function (`main`) reads sys.argv."""
SETTINGS = {
    name: (where.partition(":")[0], f"{name.title().replace('-', '')}Config")
    for name, (where, _) in COMMANDS.items()
}
"""Name: (module, dataclass) of its settings."""

EXAMPLES = (
    "azplay uci chess-tiny --nodes 800",
    "azplay match net:chess-tiny@200 alphabeta:2 --games 100",
    "azplay ladder chess-tiny",
)


def usage() -> str:
    examples = [f"  {example}" for example in EXAMPLES]
    commands = [f"  {name:10} {what}" for name, (_, what) in COMMANDS.items()]
    head = "usage: azplay COMMAND [--help]   (azplay --version)"
    return "\n".join(["examples:", *examples, "", head, "", *commands])


def _main() -> int:
    # Parsed here instead of with tyro, which would import all commands to describe them.
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(usage())
        return int(Exit.OK if len(sys.argv) > 1 else Exit.USAGE)
    command = sys.argv[1]
    if command == "--version":
        print(f"azplay {version()}")
        return int(Exit.OK)
    if command == "--tyro-print-completion":  # docs/install.md
        from azselfplay.host.flags import print_completion

        classes = {name: getattr(importlib.import_module(one[0]), one[1]) for name, one in SETTINGS.items()}
        print_completion(classes, sys.argv[1:])
    if command not in COMMANDS:
        meant = near(command, COMMANDS)
        hint = f"did you mean `azplay {meant}`?" if meant else "the commands are listed above"
        print(f"{usage()}\n\nazplay: unknown command {command!r}: {hint}", file=sys.stderr)
        return int(Exit.USAGE)
    # The command reads sys.argv as if it were a separate program.
    sys.argv = [f"azplay {command}", *sys.argv[2:]]
    module, _, function = COMMANDS[command][0].partition(":")
    return int(getattr(importlib.import_module(module), function or "main")())


def main() -> int:
    """Entry point of `azplay`."""
    code = guarded(_main)
    # After `guarded`, which prints errors. Most commands have not imported it, and have nothing to prepare.
    if (driver := sys.modules.get("azselfplay.play.driver")) is not None:
        driver.leave_if_preparing(code)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
