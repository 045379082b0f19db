"""`azclient keygen`: makes a key for this machine, which the server's user must then allow."""

from __future__ import annotations

import argparse
import re
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from runtime.exits import Exit
from runtime.keys import as_text, default_folder, new_pair, write_pair


def main(argv: Sequence[str]) -> int:
    """Print the public key and what to do with it."""
    options = parser().parse_args(argv)
    role = "trainer" if options.trainer else "client"
    path: Path = options.key or default_folder() / f"{role}.key"
    pair = new_pair()
    write_pair(path, pair, f"Key of an azselfplay {role}. Keep it secret.")
    print(f"the key is in {path}; on the server's machine, let it join:")
    print(f"  azserver allow {role} {_suggested_name(role)} {shlex.quote(as_text(pair.public))}")
    return int(Exit.OK)


def _suggested_name(role: str) -> str:
    """Return a name for the key, made from this machine's. A trainer's differs from that of a client beside
    it."""
    host = re.sub("[^A-Za-z0-9]", "-", socket.gethostname().partition(".")[0]).strip("-")[:50] or "NAME"
    return host if role == "client" else f"{host}-{role}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words after `azclient keygen`."""
    whole = argparse.ArgumentParser(
        prog="azclient keygen", description="Makes a key for this machine (docs/security.md)."
    )
    whole.add_argument("--trainer", action="store_true", help="for `python -m trainer`, not for azclient")
    place = f"client.key or trainer.key in {default_folder()}"
    whole.add_argument("--key", type=Path, help=f"file of the key (default: {place})")
    return whole
