"""`azplay COMMAND`: the commands that use a trained network. Only the requested command is imported. At
the end: the completion of all our commands in a shell."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional

from azselfplay.games.names import near
from azselfplay.host.config import load, version
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
    "completion": (
        "azselfplay.lab.azplay:completion",
        "print a script that makes your shell complete all this",
    ),
}
"""Name: (module, or module:function, what it is for). The function (`main`) reads sys.argv."""

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
    return guarded(_main)


# ---- azplay completion bash|zsh: a script with which the shell completes our commands (docs/install.md) ----

COMPLETIONS = (
    "azplay completion bash > ~/.local/share/bash-completion/completions/azplay",
    "source <(azplay completion bash)                  (in this shell only)",
    "source <(azplay completion zsh)                   (in ~/.zshrc, after compinit)",
)
# Flags that every command has besides its settings.
EVERYWHERE = ("--help", "--version", "--config", "--print-config")
PROGRAMS = ("azrun", "azcluster", "azserver", "azclient")

BASH = """\
_azselfplay() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[0]##*/}}" flags="" words="" run
    if [[ $command == azplay ]]; then
        if (( COMP_CWORD == 1 )); then
            COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
            return
        fi
        command="azplay ${{COMP_WORDS[1]}}"
    elif [[ ${{COMP_WORDS[1]}} == doctor ]]; then
        command+=" doctor"
    fi
    case "$command" in
{cases}
    esac
    if [[ $current == -* ]]; then
        words="$flags"
    else
        for run in runs/*/run.json; do
            [[ -e $run ]] || continue
            run="${{run%/run.json}}"
            words+=" ${{run#runs/}}"
        done
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _azselfplay azplay {programs}
"""


@dataclass(frozen=True)
class CompletionConfig:
    """A script by which your shell completes commands, flags and the names of runs."""

    shell: Positional[Literal["bash", "zsh"]]
    """The shell to complete for."""


def completion() -> int:
    """Entry point of `azplay completion`: print the script for the chosen shell."""
    print(script(load(CompletionConfig, command="azplay completion", examples=COMPLETIONS).shell), end="")
    return int(Exit.OK)


def script(shell: str) -> str:
    """Return the completion script for bash or zsh. It knows the commands of azplay, the flags of every
    command, and the runs in `runs/`. Commands and flags are written into it, so that pressing Tab does not
    start Python."""
    from azselfplay.lab.generated_pages import COMMANDS as SETTINGS
    from azselfplay.lab.generated_pages import settings_of

    cases = []
    for command, (module, name) in SETTINGS.items():
        # Others, such as `python -m trainer`, are not found by a program's name and the word after it.
        if len(command.split()) > 2:
            continue
        settings = settings_of(getattr(importlib.import_module(module), name))
        flags = " ".join([*EVERYWHERE, *(one.name for one in settings if not one.positional)])
        cases.append(f'        "{command}") flags="{flags}" ;;')
    text = BASH.format(commands=" ".join(COMMANDS), cases="\n".join(cases), programs=" ".join(PROGRAMS))
    # zsh can run completions written for bash after `bashcompinit`.
    return text if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{text}"


if __name__ == "__main__":
    raise SystemExit(main())
