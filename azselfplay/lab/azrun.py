"""`azrun`: the whole loop on one machine, with one command. `launcher` carries it out."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import replace

from azselfplay.host.exits import Exit, guarded, require
from azselfplay.host.folders import check_folders, own_folder
from azselfplay.host.ports import check_web_port, claimed_base_port
from azselfplay.host.processes import python_module
from azselfplay.lab.azrun_config import (
    LIST,
    basis_of,
    check,
    check_joining,
    check_parts,
    for_one_process,
    load,
    make_commands,
    shown_recipes,
)


def _main() -> int:
    settings = load()
    # Check this before reading anything from disk: without torch, no part would start.
    require("train", "azrun")
    if settings.recipe == LIST:
        print(shown_recipes())
        return int(Exit.OK)
    if settings.repeatable:
        settings = for_one_process(settings)
    basis = basis_of(settings)
    settings = basis.settings
    check(settings)
    check_folders(settings.runs, "--runs")
    # These imports are slow, so they come only after the flags have been checked.
    from azselfplay.host.aio import run
    from azselfplay.lab.launcher import GRACE, Launcher

    # Port and folder are kept until the parts have ended.
    with contextlib.ExitStack() as stack:
        port = settings.port or stack.enter_context(claimed_base_port())
        folder = stack.enter_context(own_folder())
        basis.write(folder)
        commands = make_commands(settings, port, folder)
        # Each part would find its own wrong settings, too, but only after other parts have begun.
        server, drain = check_parts(commands)
        if not settings.repeatable:
            check_joining(server, port)
        if settings.web:
            check_web_port(settings.web, port)
        print(basis.line(server), file=sys.stderr, flush=True)
        if settings.repeatable:
            from azselfplay.lab.repeatable import Repeatable
            from trainer.__main__ import load as load_trainer

            # Read the trainer's flags as its own process would read them.
            words = commands["trainer"][len(python_module("")) :]
            alone = Repeatable(server, load_trainer(words, {}), settings.repeatable, settings.minutes)
            run(alone.main)
            print(json.dumps(alone.summary), flush=True)
            return int(Exit.OK)
        # If no number of workers was given, azserver has chosen one. The client waits for these workers.
        settings = replace(settings, workers=server.workers)
        launcher = Launcher(settings, port, commands, {"client": GRACE + drain})
        run(launcher.main)
    return launcher.report()


def main() -> int:
    """Entry point of `azrun`."""
    return guarded(_main)


if __name__ == "__main__":
    raise SystemExit(main())
