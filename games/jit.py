"""How this project compiles with Numba: one decorator, one cache rule, one way to join kernels and rules.

Numba's own disk cache looks only at the file a function stands in, so a change in the rules would
leave an old search in the cache. We therefore key the cache folder by the contents of every package
that holds jitted code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

JITTED_PACKAGES = ("games", "protocol", "search", "net", "trainer", "evaluation")
"""`protocol` for the constants that kernels take from it."""
KEPT_CACHES = 4

CompiledFunction = Callable[..., Any]


def _source_key(root: Path) -> str:
    """Hash of all sources that jitted code may come from, and of the Numba that compiles them and how."""
    checked = bool(
        numba.config.BOUNDSCHECK
    )  # NUMBA_BOUNDSCHECK=1; else checked runs would load unchecked code
    digest = hashlib.sha256(f"{numba.__version__} {checked=}".encode())
    for package in JITTED_PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """The folder compiled code is cached in (`AZ_JIT_CACHE`, else under the user's cache folder)."""
    home = os.environ.get("AZ_JIT_CACHE") or Path.home() / ".cache" / "azselfplay" / "jit"
    return Path(home) / _source_key(Path(__file__).resolve().parent.parent)


def _prepare_cache() -> Path:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    older = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in older[KEPT_CACHES:]:
        shutil.rmtree(path, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)
    return folder


CACHE = _prepare_cache()


def jit(function: Callable[..., Any], **options: bool) -> CompiledFunction:
    """Compile `function` on first call, cached on disk, releasing the GIL while it runs."""
    compiled: CompiledFunction = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    return compiled


signed: Any = np.int64
"""For counts and indices in jitted code: Numba makes float64 of int64 and uint64 together."""


class Unbound(int):
    """Stands in a module of kernels for a number, until `bind` puts the number there.

    Each is an object of its own, as a plain 0 is not.
    """


Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Mark a plain function for `bind`, and leave it as it is."""
    function.is_kernel = True  # type: ignore[attr-defined]
    return function


def bind(
    modules: Sequence[types.ModuleType],
    bindings: Sequence[tuple[Any, Any]],
    tag: str,
    *,
    allocates: bool = False,
) -> types.SimpleNamespace:
    """Compile the kernels of some modules once for one game (and whatever else `tag` names).

    `bindings` are pairs (stands in the modules, is to be used instead): the stubs of `games.stubs` and the
    rules of a game, say. Wherever a module has imported such a stub, or a kernel of another one of these
    modules, under whatever name, it calls what is bound. Each kernel is copied for that, so that Numba can
    inline the rules into the search without the search knowing a game, and compiled under a name that
    holds `tag`, so that every game has its own cache entry.

    A stub is a function, an array or an `Unbound`.

    Unless a kernel `allocates`, all are compiled without Numba's counts of references (`_nrt`): for arrays
    that travel in tuples it does not remove the atomic additions, which took as long as the search itself.
    """
    kernels = [
        value
        for module in modules
        for value in vars(module).values()
        if getattr(value, "is_kernel", False) and value.__module__ == module.__name__
    ]
    namespaces = {module.__name__: dict(vars(module)) for module in modules}
    instead = {id(stub): real for stub, real in bindings}
    for function in kernels:
        copy = types.FunctionType(function.__code__, namespaces[function.__module__], function.__name__)
        copy.__qualname__ = f"{function.__name__}__{tag}"
        copy.__module__ = function.__module__
        instead[id(function)] = jit(copy, _nrt=allocates)
    for namespace in namespaces.values():
        for name, value in namespace.items():
            bound = instead.get(id(value), value)
            namespace[name] = instead.get(
                id(bound), bound
            )  # what takes a stub's place may be a kernel of these modules
    return types.SimpleNamespace(**{function.__name__: instead[id(function)] for function in kernels})
