"""Compiles jitted functions so that functions that call each other are optimised together, and only once.

Numba makes a library of every jitted function. The library is optimised, has one wrapper for calls from
Python and another for calls from C, and its machine code contains everything that the function calls once
more. So a small kernel at the bottom of the search was optimised and translated a dozen times, though nobody
ever called it directly. Here every function has two compilers (`EntryPoint`). The one for calls from Python
does all of that, except for the wrapper for C. The one for calls from jitted code stops at unoptimised LLVM
code, which the caller links. So an entry point is optimised once, as a whole. Measured in turns, twice, on 26
November 2026 (search for Connect Four): an empty cache is filled in 9.1 and 10.4 s of processor time instead
of 20.7 and 21.0 s with plain `numba.njit`, and a core searches 434,000 leaves/s instead of 396,000 (means of
eight turns of 3 s on a busy machine, which were 350,000 to 474,000).

The plain LLVM code is cached on disk too. With a search of chess in the cache, those of two other selections
take 5.4 and 5.1 s of processor time in new processes, and took 18.8 and 15.4 s before (27 November 2026, one
turn each on a busy machine). This module uses private classes of Numba, so `games.jit` imports it only with
versions that were tried.
"""

from __future__ import annotations

import pickle
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core import caching, config
from numba.core import types as numba_types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.core.types import unliteral  # type: ignore[attr-defined]


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code that is only linked into callers. It is neither optimised nor translated, and has no
    addresses."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        # Numba's own method without optimisation and machine code.
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        return 0  # Numba's value for "not here"

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return the bitcode for the cache, because there is no object code."""
        found: tuple[str, str, bytes] = self.serialize_using_bitcode()
        return found

    @property
    def codegen(self) -> _Code:
        """The object on which Numba calls `set_env`."""
        return self

    def set_env(self, env_name: str, env: object) -> None:
        """Do nothing: only code that returns to the interpreter needs its environment, and kernels do not."""


class _Inlining(Compiler):  # type: ignore[misc]
    def __init__(self, typingctx: Any, targetctx: Any, _library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, _Code(targetctx.codegen(), "inlined"), *rest)


# In Numba 0.61 this class has a private name.
_in_folder = getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator


class _ByModule(_in_folder):  # type: ignore[misc, valid-type]
    """Names the folder of a module's compiled code after the module. Numba names it after the path of the
    sources, so a second copy of the sources would compile everything again. `games.jit` already keys the
    cache folder by the sources."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(Path(config.CACHE_DIR) / py_func.__module__)

    def get_source_stamp(self) -> str:
        """Return the same stamp for all: the cache folder's name already stands for the sources
        (`games.jit`)."""
        return ""


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ByModule, *CompileResultCacheImpl._locator_classes)


class _InlinedCacheImpl(_CacheImpl):
    """Keeps unoptimised LLVM code on disk, so that the rules of a game are compiled once, and not again in
    each process that compiles something that calls them."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.inlined"

    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        (name, _, bitcode), fndesc, env, signature, objectmode, lifted, annotation, init, envs = payload
        library = _Code(target_context.codegen(), name)
        library._final_module = parse_bitcode(bitcode)
        library._finalize_final_module()
        return CompileResult(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=env,
            entry_point=target_context.get_executable(library, fndesc, env),
            fndesc=fndesc,
            type_annotation=annotation,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            typing_error=None,
            call_helper=None,
            metadata=None,
            reload_init=init,
            referenced_envs=envs,
        )


class _TypedCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImpl

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a cached overload; if its types are not those of `sig`, it counts as not found. Two processes
        that compile a function for different types at the same moment may write to the same file, and Numba
        would run whatever it finds there."""
        try:
            found = super()._load_overload(sig, target_context)
        except (EOFError, ValueError, pickle.UnpicklingError):
            # Numba writes without fsync, so a power cut leaves files empty or torn. Begin the index anew.
            with suppress(OSError):
                self.flush()
            return None
        args, _ = normalize_signature(sig)
        return found if found is not None and found.signature.args == args else None


class _InlinedCache(_TypedCache):
    _impl_class = _InlinedCacheImpl


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Pass all signed integers, even literal ones, as int64, so that one compilation serves all of
        them."""
        plain = (unliteral(kind) for kind in args)
        wide = tuple(numba_types.int64 if kind in numba_types.signed_domain else kind for kind in plain)
        return super().get_call_template(wide, kws)


class EntryPoint(CPUDispatcher):  # type: ignore[misc]
    """`function`, compiled when it is first called with arguments of new types, and cached on disk."""

    def __init__(self, function: Any, **options: bool | str) -> None:
        options = {"nopython": True, "no_cfunc_wrapper": True, **options}
        super().__init__(function, targetoptions=options)
        inlined_options = {**options, "no_cpython_wrapper": True}
        # A second function object, because Numba detects recursion by the function object being compiled.
        code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
        twin = types.FunctionType(code, function.__globals__, function.__name__, defaults, closure)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        self._inlined = _Inlined(twin, targetoptions=inlined_options, pipeline_class=_Inlining)
        self._inlined._cache = _InlinedCache(twin)
        self._cache = _TypedCache(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba uses for this object where jitted code calls it."""
        return numba_types.Dispatcher(self._inlined)
