"""`azserver`: the command line.

The first word chooses between serving a run, `doctor` and the commands for keys. Slow imports happen only
after the flags are read, so that `--help` and a mistyped flag are answered at once.
"""

from __future__ import annotations

import sys

from azselfplay.host.exits import Exit, guarded, require
from azselfplay.host.folders import check_folders
from server.config import load

KEY_COMMANDS = ("keygen", "allow", "keys", "revoke")


def _main() -> int:
    if sys.argv[1:2] == ["doctor"]:
        from server.doctor import main as check_machine

        return check_machine(sys.argv[2:])
    if sys.argv[1:2] and sys.argv[1] in KEY_COMMANDS:
        from server.keys import main as change_keys

        return change_keys(sys.argv[1:])
    settings = load()
    require("train", "azserver")
    check_folders(settings.runs, "--runs")
    from azselfplay.host import aio, logs
    from server.app import App

    # Log to stderr only: the run's folder, which has the log file, is opened later.
    logs.set_up("azserver", form=settings.log_format)
    app = App(settings)
    aio.run(app.run)
    return int(Exit.OK)


def main() -> int:
    """Entry point of `azserver`."""
    return guarded(_main)


if __name__ == "__main__":
    sys.exit(main())
