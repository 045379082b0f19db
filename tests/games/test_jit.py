"""How kernels are compiled and bound, and which sources the key of the code cache depends on."""

import linecache
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import types
from numba.core.registry import CPUDispatcher

from azselfplay.games.jit import PACKAGES, Unbound, bind, jit, kernel, prepare_folder, source_key, sources

LIMIT = Unbound()
ROOT = Path(__file__).resolve().parents[2]


def weight(x: int) -> int:
    raise RuntimeError("a stub")


@kernel
def twice(x: int) -> int:
    return 2 * x


@kernel
def weighed(x: int) -> int:
    return weight(twice(x)) + LIMIT


@kernel
def factorial(n: int) -> int:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@jit
def plus_one(x: int) -> int:
    return x + 1


@jit
def plus_two(x: int) -> int:
    return x + 2


@jit
def first_and_small(values: np.ndarray) -> int:  # type: ignore[type-arg]
    return plus_one(values[0]) + plus_one(7)


HERE = [sys.modules[__name__]]


def test_a_kernel_calls_what_is_bound_in_the_place_of_its_stubs() -> None:
    one = bind(HERE, {"one": [(weight, plus_one), (LIMIT, 10)]})
    two = bind(HERE, {"two": [(weight, plus_two), (LIMIT, 20)]})
    assert (one.weighed(3), two.weighed(3)) == (17, 28)
    assert one.factorial(5) == 120


def test_kernels_that_reach_nothing_bound_are_compiled_once_for_all() -> None:
    one = bind(HERE, {"one": [(weight, plus_one), (LIMIT, 10)]})
    two = bind(HERE, {"two": [(weight, plus_two), (LIMIT, 20)]})
    assert one.twice is two.twice
    assert one.weighed is not two.weighed
    assert one.weighed is bind(HERE, {"one": [(weight, plus_one), (LIMIT, 10)]}).weighed


def test_names_of_compiled_kernels_differ_with_a_bound_number() -> None:
    names = {bind(HERE, {"a": [(weight, plus_one), (LIMIT, n)]}).weighed.__qualname__ for n in (1, 2)}
    assert len(names) == 2


def test_integers_of_all_sizes_share_one_inlined_compilation() -> None:
    assert first_and_small(np.array([4], np.int32)) == first_and_small(np.array([4], np.int64)) == 13
    inlined = plus_one._numba_type_.dispatcher  # type: ignore[attr-defined]
    for kind in (types.int32, types.int64, types.literal(7)):
        inlined.get_call_template((kind,), {})
    assert len(inlined.overloads) == 1
    assert not plus_one.overloads, "nobody has called it from Python"  # type: ignore[attr-defined]


PARTS = """
import sys
from azselfplay.games.jit import jit

@jit
def inner(x):
    return 3 * x

@jit
def first(x):
    return inner(x) + 1

@jit
def second(x):
    return inner(x) + 2

print(globals()[sys.argv[1]](5), sum(inner._inlined.stats.cache_hits.values()))
"""


def test_what_two_entry_points_call_is_compiled_once_for_both_even_in_two_copies_of_the_sources(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "AZ_JIT_CACHE": str(tmp_path / "jit")}

    def said(name: str) -> str:
        copy = tmp_path / name
        copy.mkdir()
        (copy / "parts.py").write_text(PARTS)
        command = [sys.executable, str(copy / "parts.py"), name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert [said("first"), said("second")] == ["16 0\n", "17 1\n"]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_file_of_the_cache_that_a_power_cut_tore_is_made_again(tmp_path: Path, kind: str) -> None:
    environment, parts = {**os.environ, "AZ_JIT_CACHE": str(tmp_path / "jit")}, tmp_path / "parts.py"
    parts.write_text(PARTS)

    def said() -> str:
        command = [sys.executable, str(parts), "first"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert said() == "16 0\n"
    torn = list((tmp_path / "jit").rglob(f"*.{kind}"))
    for path in torn:
        path.write_bytes(path.read_bytes()[: 8 if kind == "nbc" else 0])
    assert torn
    assert said() == "16 0\n"


def test_functions_that_were_typed_in_under_one_name_are_not_taken_for_each_other(monkeypatch) -> None:
    """As in a notebook, whose module has no file, and each of whose cells has a name of its own."""
    notebook, found = ModuleType("notebook_of_test"), []
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    for factor in (2, 3):
        text, cell = f"def typed(x):\n    return {factor} * x\n", f"/tmp/ipykernel_1/{factor}.py"
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
        exec(compile(text, cell, "exec"), vars(notebook))
        typed = jit(notebook.typed)
        found.append(bind(HERE, {"typed": [(weight, typed), (LIMIT, 0)]}).weighed(5))
    assert found == [20, 30]


def test_another_version_of_numba_compiles_without_its_private_classes(monkeypatch) -> None:
    monkeypatch.setattr("azselfplay.games.jit.INLINES", False)
    monkeypatch.setitem(sys.modules, "azselfplay.games.inlining", None)  # importing it would fail
    compiled = bind(HERE, {"plain": [(weight, plus_one), (LIMIT, 30)]}).weighed
    assert compiled(3) == 37
    assert type(compiled) is CPUDispatcher


def test_only_folders_unused_for_days_are_removed_because_a_process_may_still_compile_into_others(
    tmp_path: Path,
) -> None:
    for name in ("a1", "a2", "b1", "b2"):
        prepare_folder(tmp_path / name, 1)
    for days, name in ((3, "b1"), (4, "b2")):
        before = time.time() - 86400 * days
        os.utime(tmp_path / name, (before, before))
    prepare_folder(tmp_path / "c1", 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a1", "a2", "b1", "c1"]


# ---- The key of the cache -----------------------------------------------------------------------

TREE = {
    "azselfplay/games/__init__.py": "",
    "azselfplay/games/kernel.py": "from protocol.limits import (\n    LIMIT,\n)\n\n\n@kernel\ndef f(): ...\n",
    "protocol/limits.py": "from protocol import far\n\nLIMIT = far.FAR\n",
    "protocol/far.py": "FAR = 3\n",
    "trainer/loop.py": "from azselfplay.games.kernel import f\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("changed", ["azselfplay/games/kernel.py", "protocol/limits.py", "protocol/far.py"])
def test_a_kernel_and_constants_that_it_imports_even_from_afar_are_in_the_key(
    tree: Path, changed: str
) -> None:
    before = source_key(tree)
    (tree / changed).write_text(TREE[changed] + "# changed\n", encoding="utf-8")
    assert source_key(tree) != before


def test_every_module_of_the_project_with_compiled_code_is_in_a_package_that_is_looked_at() -> None:
    folders = [path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"]
    assert set(PACKAGES) < set(folders)
    assert sources(ROOT, folders).keys() == sources(ROOT).keys()
    assert {
        "azselfplay.search.step_kernel",
        "azselfplay.games.chess.rules",
        "azselfplay.search.layout",
        "azselfplay.games.inlining",
    } < sources(ROOT).keys()
