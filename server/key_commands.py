"""`azserver keygen`, `allow`, `keys` and `revoke`: the server's key and the list of allowed keys;
`quarantine` and `release`: the games that came with a key."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from games.names import near_or_all
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS
from runtime.keys import (
    ALLOWED_FILE,
    SERVER_FILE,
    as_text,
    default_folder,
    from_text,
    new_pair,
    read_server_pair,
    server_command,
    write_pair,
)

if TYPE_CHECKING:
    from server.allowed import Keys


def main(argv: Sequence[str]) -> int:
    """Run the command in `argv[0]`. A running azserver sees the change within a second."""
    options = parser().parse_args(argv)
    folder = options.keys or Path(os.environ.get("AZ_KEYS") or default_folder())
    match options.command:
        case "keygen":
            _keygen(folder)
        case "allow":
            _allow(folder, options.role, options.name, options.key)
        case "keys":
            _list(folder)
        case "revoke":
            _revoke(folder, options.name)
        case "quarantine" | "release":
            from server.quarantine_command import hold

            run = options.run, options.runs
            hold(options.name, folder / ALLOWED_FILE, *run, held=options.command == "quarantine")
    return int(Exit.OK)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words after `azserver`."""
    whole = argparse.ArgumentParser(prog="azserver", description="Keys of this server (docs/security.md).")
    commands = whole.add_subparsers(dest="command", required=True)
    about = {
        "keygen": "make this server's key, and an empty list of allowed keys",
        "allow": "let a key join; the key is what `azclient keygen` printed",
        "keys": "print this server's key and the allowed ones",
        "revoke": "take a key from the list; its sessions end within a second",
        "quarantine": "stop training on the games that came, and will come, with a key (docs/operate.md)",
        "release": "train on them again",
    }
    parts = {name: commands.add_parser(name, help=text, description=text) for name, text in about.items()}
    for part in parts.values():
        part.add_argument(
            "--keys", type=Path, help=f"folder of the keys (default: AZ_KEYS, or {default_folder()})"
        )
    parts["allow"].add_argument("role", choices=("client", "trainer"))
    parts["allow"].add_argument("name", help="for logs and figures; letters, digits and ._-")
    parts["allow"].add_argument("key", help="in single quotes")
    parts["revoke"].add_argument("name")
    for name in ("quarantine", "release"):
        parts[name].add_argument("name")
        parts[name].add_argument(
            "--run", default="", help="folder or name of the run (default: the one that is served here)"
        )
        parts[name].add_argument("--runs", type=Path, default=RUNS, help="folder of all runs")
    return whole


def _keygen(folder: Path) -> None:
    from server.allowed import write_allowed

    pair = new_pair()
    write_pair(
        folder / SERVER_FILE, pair, "Key of an azserver. Keep it secret: whoever has it can pose as it."
    )
    if not (folder / ALLOWED_FILE).exists():
        write_allowed(folder / ALLOWED_FILE, {})
    print(f"the key is in {folder / SERVER_FILE}")
    print(f"allow the keys of others:  {server_command(folder, 'allow')} client NAME KEY")
    print(f"they dial with:  azclient --server HOST --server-key {shlex.quote(as_text(pair.public))}")


def _allow(folder: Path, role: str, name: str, text: str) -> None:
    from server.allowed import NAME, changed_allowed

    key = from_text(text, "KEY")
    if not NAME.fullmatch(name):
        raise Fatal(
            f"{name!r} cannot be a name: use letters, digits and ._- , for example lab-3", Exit.CONFIG
        )
    with changed_allowed(folder / ALLOWED_FILE) as keys:
        _check_new(folder, keys, name, (role, key))
        keys[name] = ("client" if role == "client" else "trainer", key)
    print(f"{name} may join as {role}")


def _check_new(folder: Path, keys: Keys, name: str, entry: tuple[str, bytes]) -> None:
    """Fatal(CONFIG) if this cannot be a further entry of the list, or the same again."""
    key = entry[1]
    others = [other for other, (_, known) in keys.items() if known == key and other != name]
    if others:
        why = f"this key is there as {others[0]!r}, and a key has one name"
        raise Fatal(f"{why}; to rename it, {server_command(folder, 'revoke', others[0])} first", Exit.CONFIG)
    if name in keys and keys[name] != entry:
        revoke = server_command(folder, "revoke", name)
        raise Fatal(
            f"{name!r} is the name of another key ({keys[name][0]}): choose another name, or, if that key is "
            f"not used any more, {revoke} first",
            Exit.CONFIG,
        )
    if key == read_server_pair(folder).public:
        raise Fatal("this is the server's own key: `azclient keygen` makes one for a client", Exit.CONFIG)


def _list(folder: Path) -> None:
    from server.allowed import read_allowed

    print(f"server   {as_text(read_server_pair(folder).public)}  (--server-key)")
    for name, (role, key) in read_allowed(folder / ALLOWED_FILE).items():
        print(f"{role:8} {as_text(key)}  {name}")


def _revoke(folder: Path, name: str) -> None:
    from server.allowed import changed_allowed

    with changed_allowed(folder / ALLOWED_FILE) as keys:
        if name not in keys:
            hint = near_or_all(name, keys, "key") if keys else "no key is allowed"
            raise Fatal(f"there is no key of {name!r}: {hint}", Exit.CONFIG)
        del keys[name]
    print(f"{name} may not join any more; a running azserver ends its sessions within a second")
