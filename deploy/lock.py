#!/usr/bin/env python3
"""Writes requirements.lock anew: every package of every extra, in one version, with the hashes of its files.

    make lock

uv resolves for the oldest supported Python. The sections are in the order of the extras, each with what it
adds to those before, so `deploy/install.sh` installs the file down to a section. PyTorch has no hash, because
its build (CPU or CUDA) is the user's: the first line names its version, and what every build of it needs is
locked like everything else. Packages of NVIDIA, which only some builds need, are pinned by PyTorch itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
TORCH = "2.13.0"
OF_TORCH = ("filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions")
BUILD = ("setuptools>=77",)
SECTIONS = ("client", "train", "web", "all", "dev")
"""The extras, each of which contains those before it; `client` stands for the project without extras."""


def resolve(uv: str, folder: Path, section: str, known: Path | None) -> dict[str, str]:
    """Return name -> lines (version and hashes) of all packages that `section` needs. `known`: versions to
    keep to."""
    needed, excluded = folder / "needed.in", folder / "excluded.in"
    needed.write_text("\n".join(BUILD if section == "client" else (*BUILD, *OF_TORCH)))
    excluded.write_text("torch")
    command = [
        *(uv, "pip", "compile", "--quiet", "--python-version", "3.11", "--generate-hashes", "--no-annotate"),
        *("--no-header", "--excludes", str(excluded)),
        *(() if section == "client" else ("--extra", section)),
        *(() if known is None else ("--constraint", str(known))),
        *("pyproject.toml", str(needed)),
    ]
    text = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {block.partition("==")[0]: block for block in re.findall(r"^\S+==.*(?:\n    .*)*\n", text, re.M)}


def main(uv: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, known = resolve(uv, folder, SECTIONS[-1], None), folder / "known.txt"
        known.write_text("".join(block.split()[0] + "\n" for block in whole.values()))
        text = (
            f"# torch=={TORCH}\n"
            "# Written by `make lock` (deploy/lock.py); installed by deploy/install.sh. Do not edit.\n"
        )
        listed: set[str] = set()
        for section in SECTIONS:
            found = resolve(uv, folder, section, known)
            text += f"\n# section: {section}\n" + "".join(found[one] for one in sorted(found.keys() - listed))
            listed |= found.keys()
    LOCK.write_text(text)
    print(f"{LOCK.name}: {len(listed)} packages, and torch {TORCH}; commit it")


if __name__ == "__main__":
    main(sys.argv[1])
