"""How this project compiles with Numba: the decorator, the disk cache, and the binding of kernels to rules.

`jit` compiles a function on its first call. `bind` compiles kernels (marked with `kernel`) together with the
rules of a game: the search is written once, over stubs (`games.stubs`), and each game gets a copy of it into
which its rules are inlined.

Numba's own disk cache only checks the file in which a function is, so a change in the rules would leave an
old search in the cache. We therefore key the cache folder by the contents of all modules that compiled code
can come from: those with jitted functions and everything they import, because constants are compiled in. The
bindings of a kernel are part of the compiled function's name. Games of other packages have a key of their own
(`foreign_key`), so a change in one of them recompiles nothing else.

Jitted functions that call each other are joined by `games.inlining`, which needs private classes of Numba.
With untried versions of Numba, everything is compiled by plain `numba.njit` instead. The results are the
same, but compiling takes twice as long.
"""

from __future__ import annotations

import dis
import hashlib
import os
import re
import secrets
import shutil
import sys
import time
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from azselfplay.games.home import home

PACKAGES = ("azselfplay", "net", "protocol", "trainer", "bench")
"""All packages with jitted functions, and those whose constants they use."""

# Search the text, because importing all modules to inspect their functions would take seconds.
_COMPILED = re.compile(r"^@(jit|kernel)\b|\bjit\(|\(CPUDispatcher\)", re.MULTILINE)
"""Finds modules with compiled code, and `games.inlining`, which determines how code is compiled."""
_IMPORT = re.compile(r"^(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
"""Finds unindented imports only, because no constant comes from an import inside a function or under
TYPE_CHECKING."""

KEPT_CACHES, KEPT_OF_OTHERS = 4, 8
"""Cache folders that are kept: of our sources (`source_key`), and in each of them of other packages
(`foreign_key`), which are edited more often."""
UNUSED_SECONDS = 2 * 86400
"""A cache folder that a process began to use within this time is kept in any case: the process may still
compile into it."""
_PROCESS = secrets.token_hex(6)
"""Stands for the sources of rules that were typed in, which no other process shares."""

CompiledFunction = Callable[..., Any]


# ---- Cache ---------------------------------------------------------------------------------------


def source_key(root: Path) -> str:
    """Return a hash of all sources that jitted code may come from, and of Numba's version and options."""
    # NUMBA_BOUNDSCHECK=1 is part of the key: otherwise checked runs would load unchecked code.
    checked = bool(numba.config.BOUNDSCHECK)
    digest = hashlib.sha256(f"{numba.__version__} {checked=}".encode())
    for name, text in sources(root).items():
        # The length is hashed too, so that no two sets of files give the same bytes.
        digest.update(f"{name} {len(text)} {text}".encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder in which compiled code is cached (`AZ_JIT_CACHE`, else under the user's cache
    folder)."""
    caches = os.environ.get("AZ_JIT_CACHE") or home() / ".cache" / "azselfplay" / "jit"
    return Path(caches) / source_key(Path(__file__).resolve().parents[2])


def prepare_folder(folder: Path, kept: int) -> Path:
    """Create a cache folder, and remove those beside it that were not used for UNUSED_SECONDS, the least
    recently used ones first, so that `kept` remain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Mark the folder as used now, because the least recently used caches are removed.
        os.utime(folder)
    except OSError as error:
        text = f"{error.strerror} (AZ_JIT_CACHE names the folder of compiled code)"
        raise OSError(error.errno, text, str(folder)) from error
    # Only after marking this folder as used, so that it is not removed.
    remove_old_caches(folder.parent, re.compile(f"[0-9a-f]{{{len(folder.name)}}}"), kept)
    return folder


def remove_old_caches(parent: Path, named: re.Pattern[str], kept: int) -> None:
    """Remove the folders that are `named` so and unused for UNUSED_SECONDS, but keep the `kept` most recently
    used ones. Nothing else in `parent` is touched: `AZ_JIT_CACHE` may name a folder that holds other things,
    such as runs."""
    ages = {}
    for path in parent.iterdir():
        with suppress(OSError):  # another process may remove the folder at this moment
            if named.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                ages[path] = path.stat().st_mtime
    for path in sorted(ages, key=lambda path: ages[path], reverse=True)[kept:]:
        if ages[path] < time.time() - UNUSED_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def sources(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return by module name, sorted, the text of all modules below `root` that affect compiled code."""
    texts: dict[str, str] = {}
    for package in packages:
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            if path.is_file():  # editors leave links that lead nowhere beside open files
                texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    found: dict[str, str] = {}
    # Start with the modules with compiled code and follow their imports: imported constants are compiled in.
    todo = [name for name, text in texts.items() if _COMPILED.search(text)]
    while todo:
        name = todo.pop()
        if name in texts and name not in found:
            found[name] = texts[name]
            for imported, listed, module in _IMPORT.findall(texts[name]):
                # Take every name that may be a module: for `from a import b` both `a` and `a.b`.
                todo += [module or imported, *(f"{imported}.{one}" for one in re.findall(r"\w+", listed))]
    return dict(sorted(found.items()))


@cache
def foreign_key(module: str, file: str) -> str:
    """Return a hash of the sources of another package with jitted functions, such as a game; "" for our own
    packages. `module` is one of the package's modules, and `file` its file ("" for code that was typed in).

    All its `.py` files count, whether or not they contain compiled code, but no other package that it imports
    (docs/add_a_game.md says so). For a module outside of a package, those beside it count.
    """
    if module.partition(".")[0] in PACKAGES:
        return ""
    if not file:
        return _PROCESS
    path = Path(file)
    # Go up to the folder of the outermost package.
    levels = module.count(".") + (path.stem == "__init__")
    files = path.parents[levels - 1].rglob("*.py") if levels else path.parent.glob("*.py")
    digest = hashlib.sha256()
    for one in sorted(files):
        with suppress(OSError):
            digest.update(f"{one.name} ".encode() + one.read_bytes())
    return digest.hexdigest()[:12]


def foreign_key_of(function: Any) -> str:
    """Return the `foreign_key` of the package that `function` is from."""
    file = getattr(sys.modules.get(function.__module__), "__file__", "") or ""
    return foreign_key(function.__module__, file)


@cache
def folder_for(key: str) -> Path:
    """Return the folder for compiled code with this `foreign_key`."""
    return prepare_folder(CACHE / key, KEPT_OF_OTHERS) if key else CACHE


CACHE = prepare_folder(cache_folder(), KEPT_CACHES)
numba.config.CACHE_DIR = str(CACHE)


# ---- Functions and kernels -----------------------------------------------------------------------


INLINES = (0, 61) <= numba.version_info.short <= (0, 68)
"""Whether `games.inlining` was tried with this Numba."""


def jit(function: Callable[..., Any], *, key: str | None = None, **options: bool) -> CompiledFunction:
    """Compile `function` on first call, cached on disk, releasing the GIL while it runs. `key`: of the other
    package whose code it calls (`foreign_key`); None for the package that it is from."""
    # With error_model "numpy", a division by zero gives inf instead of branching to an exception.
    chosen: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}
    # Numba reads the cache folder's name when the function is created.
    numba.config.CACHE_DIR = str(folder_for(foreign_key_of(function) if key is None else key))
    try:
        if INLINES:
            from azselfplay.games.inlining import EntryPoint  # another Numba may lack what it imports

            return EntryPoint(function, **chosen)
        compiled: CompiledFunction = numba.njit(cache=True, **chosen)(function)
        return compiled
    finally:
        numba.config.CACHE_DIR = str(CACHE)


def direct(function: CompiledFunction) -> CompiledFunction:
    """Return `function` without Numba's dispatch on the types of the arguments.

    Dispatch takes 27 us for the arrays of a forest, the call itself 1 us. The types of the first call apply
    to all later calls and **are not checked again**: arrays must have the same dtypes and dimensions each
    time, and be contiguous. With NUMBA_BOUNDSCHECK=1 other types raise TypeError."""
    entry: Callable[..., Any] | None = None
    first: Any = None

    def call(*arguments: Any) -> Any:
        nonlocal entry
        if entry is None:
            # Compile or load at the first call, when the types are known.
            entry = function.compile(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined]
        return entry(*arguments)

    def checked(*arguments: Any) -> Any:
        nonlocal first
        found = kind(arguments)
        if first is not None and found != first:
            raise TypeError(f"{function.__name__} is called with {found}, and was first with {first}")
        first = found
        return call(*arguments)

    def kind(value: Any) -> Any:
        # The properties that `numba.typeof` distinguishes, in a twentieth of its time.
        if isinstance(value, np.ndarray):
            return value.dtype, value.ndim, value.flags.c_contiguous, value.flags.writeable
        return (type(value), *map(kind, value)) if isinstance(value, tuple) else type(value)

    return checked if numba.config.BOUNDSCHECK else call


@jit
def copy(source: Any, out: Any) -> None:
    """Copy `source [n]` to `out [n]` in jitted code. `out[:] = source` would also compile the message of an
    error about shapes, which takes four seconds in each process that compiles."""
    for i in range(len(source)):
        out[i] = source[i]


signed: Any = np.int64
"""For counts and indices in jitted code: Numba turns int64 combined with uint64 into float64."""


class Unbound(int):
    """Placeholder for a number in a module of kernels, which `bind` replaces.

    Each one is a distinct object; plain zeros would all be the same object.
    """


Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Mark a plain function for `bind`, without changing it."""
    function.is_kernel = True  # type: ignore[attr-defined]
    return function


Bindings = Sequence[tuple[Any, Any]]
"""Pairs (object in the modules, its replacement), such as the stubs of `games.stubs` and the rules of a game.
A stub is a function, an array or an `Unbound`."""


def bind(
    modules: Sequence[types.ModuleType], bindings: Mapping[str, Bindings], *, allocates: bool = False
) -> types.SimpleNamespace:
    """Return the kernels of some modules, compiled with `bindings` (named sets of pairs).

    If a kernel's module has imported a stub or another kernel, under any name, the compiled kernel calls the
    bound function instead. For that each kernel is copied. So Numba can inline the rules into the search, and
    the search needs to know no game. The copy is compiled under a name that includes its bindings, so that it
    has its own cache entry. Only bindings that a kernel reaches, directly or through other kernels, count:
    code that games and selections share is compiled once.

    Set `allocates` if a kernel allocates memory. Otherwise all are compiled without Numba's reference counts
    (`_nrt`): for arrays in tuples Numba does not optimise the atomic additions away, and they took as long as
    the search itself.
    """
    binder = _Binder(bindings, allocates)
    kernels = [
        value
        for module in modules
        for value in vars(module).values()
        if getattr(value, "is_kernel", False) and value.__module__ == module.__name__
    ]
    return types.SimpleNamespace(**{function.__name__: binder.bound(function) for function in kernels})


# ---- Binding -------------------------------------------------------------------------------------


_compiled: dict[tuple[Any, ...], CompiledFunction] = {}
"""Compiled functions by kernel, the bindings it reaches, and the compiler options."""


class _Binder:
    """One call of `bind`."""

    def __init__(self, bindings: Mapping[str, Bindings], allocates: bool) -> None:
        self._set_of = {id(stub): name for name, pairs in bindings.items() for stub, _ in pairs}
        self._instead = {id(stub): (stub, real) for pairs in bindings.values() for stub, real in pairs}
        self._allocates = allocates

    def bound(self, function: Any) -> CompiledFunction:
        """Return the kernel `function`, compiled; the same object for the same bindings."""
        # Only reached stubs are part of the name, so that kernels that reach no rules are shared by all
        # games.
        stubs = [stub for stub in self._instead if stub in self._reached(function, set())]
        reals = [self._instead[stub] for stub in stubs]
        # Use names and values: objects differ from process to process, but the cached code must be found
        # again.
        said: list[tuple[str, str]] = []
        foreign = foreign_key_of(function)
        for stub, real in reals:
            if callable(real):
                key_of_real = foreign_key_of(real)
                said.append((stub.__name__, f"{real.__module__}.{real.__qualname__}{key_of_real}"))
                foreign = foreign or key_of_real
                if key_of_real == _PROCESS:  # a name typed in twice may mean two things
                    said.append(("", str(id(real))))
            else:
                array = np.asarray(real)
                said.append(("", f"{array.dtype} {array.shape} {array.tobytes().hex()}"))
        # Include the functions themselves, which also keeps their ids from being used again.
        key = (function, self._allocates, *said, *(real for _, real in reals if callable(real)))
        if key not in _compiled:
            sets = dict.fromkeys(self._set_of[stub] for stub in stubs)
            tag = "_".join([*sets, f"{zlib.crc32(repr(said).encode()):x}"])
            # Copied, because the module's own globals must stay unbound for the next game.
            namespace = dict(function.__globals__)
            copy = types.FunctionType(function.__code__, namespace, function.__name__)
            copy.__qualname__ = f"{function.__name__}__{tag}"
            copy.__module__ = function.__module__
            # Before its globals, because it may call itself.
            _compiled[key] = jit(copy, key=foreign, _nrt=self._allocates)
            for name in _global_names(function.__code__):
                if name in namespace:
                    _, real = self._instead.get(id(namespace[name]), (None, namespace[name]))
                    namespace[name] = self.bound(real) if hasattr(real, "is_kernel") else real
        return _compiled[key]

    def _reached(self, function: Any, seen: set[int]) -> set[int]:
        """Return the ids of all globals, among them all stubs, that `function` reaches, directly or through
        kernels."""
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)  # None for a builtin: no bindings
            _, real = self._instead.get(id(value), (value, value))
            if id(value) not in seen:
                seen.add(id(value))
                if hasattr(real, "is_kernel"):
                    self._reached(real, seen)
        return seen


@cache
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of the globals that `code` reads, including builtins."""
    read = (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    return tuple(dict.fromkeys(read))
