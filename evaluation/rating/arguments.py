"""The one argument without a name that these commands take."""

from __future__ import annotations

import sys

from runtime.exits import Exit


def take_path(argv: list[str], name: str, usage: str) -> str:
    """Remove the leading path from `argv` and return it; exits with USAGE if there is none.

    With --help or --print-config it may be missing, as nothing is done then.
    """
    if argv and not argv[0].startswith("-"):
        return argv.pop(0)
    if not {"--help", "-h", "--print-config"} & set(argv):
        print(f"{name} is missing, or does not come first. {usage}", file=sys.stderr)
        raise SystemExit(Exit.USAGE)
    return ""
