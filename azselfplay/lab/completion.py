"""`azplay completion bash|zsh`: a script with which the shell completes our commands. docs/install.md.

It knows the commands of azplay, the flags of every command, and the runs in `runs/`. Commands and flags are
written into the script, so that pressing Tab does not start Python.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit
from azselfplay.lab.azplay import COMMANDS
from azselfplay.lab.generated_pages import COMMANDS as SETTINGS
from azselfplay.lab.generated_pages import settings_of

EXAMPLES = (
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


def script(shell: str) -> str:
    """Return the completion script for bash or zsh."""
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


def main() -> int:
    """Print the script for the chosen shell."""
    print(script(load(CompletionConfig, command="azplay completion", examples=EXAMPLES).shell), end="")
    return int(Exit.OK)
