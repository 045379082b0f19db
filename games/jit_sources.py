"""Which source files compiled code can come from.

These are the modules with jitted functions and everything they import, because constants are compiled in.
What is bound to kernels (`games.jit.bind`) is in the names of the compiled functions instead. Games of other
packages have a key of their own (`foreign_key`), so a change in one recompiles nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

PACKAGES = ("games", "protocol", "search", "net", "trainer", "evaluation", "bench")
"""All packages with jitted functions, and those whose constants they use."""

_COMPILED = re.compile(r"^@(jit|kernel)\b|\bjit\(", re.MULTILINE)
_IMPORT = re.compile(r"^(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
"""Only unindented imports: no constant comes from an import inside a function or under TYPE_CHECKING."""


def sources(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Text by module name, sorted by name, for a tree of source files below `root`."""
    texts: dict[str, str] = {}
    for package in packages:
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    found: dict[str, str] = {}
    todo = [name for name, text in texts.items() if _COMPILED.search(text)]
    while todo:
        name = todo.pop()
        if name in texts and name not in found:
            found[name] = texts[name]
            todo += _imported(texts[name])
    return dict(sorted(found.items()))


@cache
def foreign_key(module: str, file: str) -> str:
    """Hash of the sources of another package with jitted functions, such as a game; "" for our own packages
    and for code without a file. `module` is one of the package's modules.

    All files of the package count, whether or not they contain compiled code.
    """
    if module.partition(".")[0] in PACKAGES or not file:
        return ""
    path = Path(file)
    levels = module.count(".") + (path.stem == "__init__")
    files = sorted(path.parents[levels - 1].rglob("*.py")) if levels else [path]
    digest = hashlib.sha256()
    for one in files:
        with contextlib.suppress(OSError):  # code typed in, or run with -c
            digest.update(f"{one.name} ".encode() + one.read_bytes())
    return digest.hexdigest()[:12]


def _imported(text: str) -> list[str]:
    """Names that may be modules: from `from a import b`, both `a` and `a.b`."""
    names: list[str] = []
    for package, listed, module in _IMPORT.findall(text):
        names += [module or package, *(f"{package}.{one}" for one in re.findall(r"\w+", listed))]
    return names
