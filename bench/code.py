"""`python -m bench code`: measures how large the code is, and how hard it is to navigate.

Everything is read from the files that git tracks, with `ast`; nothing is imported. "Source" is every Python
file that is not below `tests/`: the program, these benches, the examples, and each `__init__.py`, though most
of these are empty. A *line of code* is neither blank nor a comment nor part of a docstring. A module's
*importers* are the other source modules that import it, or a name from it. A private function (`_name`) has
*one caller* if its module uses its name once: such a function is only a paragraph with a heading, but the
reader has to jump to it. A *circle* is a set of modules in one folder that reach each other by imports; a
nested folder, such as `azselfplay/lab/web`, counts as a separate folder. The size of the tests and of the
texts is counted, too, because people read them as well.
"""

from __future__ import annotations

import ast
import io
import statistics
import subprocess
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SMALL = 60
"""A file with fewer lines counts as a sliver."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """The counts of one file."""

    name: str
    lines: int
    code: int
    comments: int
    functions: list[int] = field(default_factory=list)
    """Lines of each function."""
    private: list[str] = field(default_factory=list)
    """Names of its private functions and methods."""
    docstrings: list[int] = field(default_factory=list)
    """Words of each docstring."""
    names: Counter[str] = field(default_factory=Counter)
    """How often each name is used, as a variable, an attribute or an import."""
    imports: set[str] = field(default_factory=set)
    """Dotted names of its imports, as written in the file."""


def tracked(pattern: str) -> list[Path]:
    """Return the files that git tracks and that match `pattern`, a glob."""
    found = subprocess.run(["git", "ls-files", pattern], capture_output=True, text=True, check=True).stdout
    return [path for path in map(Path, found.splitlines()) if path.is_file()]


def dotted(path: Path) -> str:
    """Return the module name of a path: `a/b/__init__.py` becomes `a.b`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def read(path: Path) -> Module:
    """Count one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said: set[int] = set()  # lines of docstrings, and of texts below a field or a constant
    module = Module(dotted(path), text.count("\n"), 0, 0)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (docstring := ast.get_docstring(node)):
            module.docstrings.append(len(docstring.split()))
        if isinstance(node, Function):
            module.functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
            if node.name.startswith("_") and not node.name.startswith("__"):
                module.private.append(node.name)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            said.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Name):
            module.names[node.id] += 1
        elif isinstance(node, ast.Attribute):
            module.names[node.attr] += 1
        elif isinstance(node, ast.Import):
            module.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            module.imports.add(base)
            module.imports.update(f"{base}.{alias.name}" for alias in node.names)
    coded: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            module.comments += 1
        elif token.string.strip():  # not a line's end, nor its indentation
            coded.update(range(token.start[0], token.end[0] + 1))
    module.code = len(coded - said)
    return module


def importers(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return for each module the other modules that import it."""
    found: dict[str, set[str]] = {name: set() for name in modules}
    for one in modules.values():
        for name in one.imports & modules.keys() - {one.name}:
            found[name].add(one.name)
    return found


def circles(modules: dict[str, Module]) -> list[list[str]]:
    """Return the sets of modules in one folder that reach each other by imports."""
    reach: dict[str, set[str]] = {}
    for name in modules:
        seen, waiting = set[str](), [name]
        while waiting:
            for to in modules[waiting.pop()].imports & modules.keys() - seen:
                if to.split(".")[:-1] == name.split(".")[:-1]:
                    seen.add(to)
                    waiting.append(to)
        reach[name] = seen
    found = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in modules if a in reach[a]}
    return [list(names) for names in sorted(found) if len(names) > 1]


def settings() -> int:
    """Return the number of rows on the generated page of settings: one for each field."""
    page = Path("docs/settings.md")
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")] if page.exists() else []
    return len(rows)


def run() -> dict[str, Any]:
    """Count, print the table, and return its figures."""
    files = tracked("*.py")
    tests = [path for path in files if path.parts[0] == "tests"]
    modules = {one.name: one for one in map(read, (path for path in files if path not in tests))}
    lines = [one.lines for one in modules.values()]
    by = importers(modules)
    once = sum(one.names[name] == 1 for one in modules.values() for name in one.private)
    functions = [count for one in modules.values() for count in one.functions]
    words = [count for one in modules.values() for count in one.docstrings]
    pages = [path for path in tracked("*.md") if path.parts[0] not in ("results", "bench")]
    figures = {
        "files outside tests": len(modules),
        "lines": sum(lines),
        "lines of code": sum(one.code for one in modules.values()),
        f"files under {SMALL} lines": sum(0 < count < SMALL for count in lines),
        "median file, lines": int(statistics.median(lines)),
        "longest function, lines": max(functions),
        "modules with one importer, %": round(
            100 * sum(len(users) == 1 for users in by.values()) / len(by), 1
        ),
        "functions": len(functions),
        "private functions with one caller": once,
        "the same, % of all functions": round(100 * once / len(functions), 1),
        "comment lines in 100": round(100 * sum(one.comments for one in modules.values()) / sum(lines), 1),
        "words in a docstring": round(statistics.mean(words), 1),
        "circles of imports inside a room": len(circles(modules)),
        "lines of tests": sum(path.read_text().count("\n") for path in tests),
        "words outside results/ and bench/": sum(len(path.read_text().split()) for path in pages),
        "rows of docs/settings.md": settings(),
    }
    for what, figure in figures.items():
        print(f"{what:40} {figure:>10,}")
    for names in circles(modules):
        print("circle:", ", ".join(names))
    return figures
