"""Which source files compiled code can come from.

These are the modules with jitted functions, and all that they import, as constants are compiled in. What is
bound to kernels (`games.jit.bind`) stands in the names of the compiled functions instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("games", "protocol", "search", "net", "trainer", "evaluation", "bench")
"""All packages with jitted functions, and those whose constants these use."""

_COMPILED = re.compile(r"^@(jit|kernel)\b|\bjit\(", re.MULTILINE)
_IMPORT = re.compile(r"^(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
"""At the margin only: no constant comes by an import inside a function or under TYPE_CHECKING."""


def sources(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Text by module name, in order of names, for a tree of source files below `root`."""
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


def _imported(text: str) -> list[str]:
    """What may be modules: of `from a import b` both `a` and `a.b`."""
    names: list[str] = []
    for package, listed, module in _IMPORT.findall(text):
        names += [module or package, *(f"{package}.{one}" for one in re.findall(r"\w+", listed))]
    return names
