"""NUMBA_BOUNDSCHECK=1 takes effect in all code that `games.jit` compiles, even if a version without it is
cached."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.jit import direct, jit

READS_BEHIND_THE_END = """
import numpy as np
from azselfplay.games.jit import jit

@jit
def read(values, index):
    return values[index]

try:
    read(np.zeros(4), 4)
    print("read")
except IndexError:
    print("refused")
"""


def test_code_that_was_cached_without_checks_is_not_used_with_them(tmp_path: Path) -> None:
    module = tmp_path / "reads_behind_the_end.py"
    module.write_text(READS_BEHIND_THE_END, encoding="utf-8")
    said = []
    for checks in ("0", "1", "0"):
        paths = {"AZ_JIT_CACHE": str(tmp_path / "jit"), "PYTHONPATH": str(Path.cwd())}
        environment = os.environ | paths | {"NUMBA_BOUNDSCHECK": checks}
        done = subprocess.run([sys.executable, module], env=environment, stdout=-1, text=True, check=True)
        said.append(done.stdout.strip())
    assert said == ["read", "refused", "read"]


@pytest.mark.skipif(not numba.config.BOUNDSCHECK, reason="only where checks are on (make test)")
def test_checks_are_on_in_this_process() -> None:
    game = get_game("connect_four")
    with pytest.raises(IndexError):
        game.rules.legal_actions(np.zeros((1, game.state_words), np.uint64), 1, np.zeros(3, np.uint16))


@jit
def last(values: np.ndarray) -> float:
    return float(values[-1])


def test_a_direct_call_gives_what_the_function_gives() -> None:
    call = direct(last)
    assert [call(np.arange(n, dtype=np.float64)) for n in (1, 5, 3)] == [0.0, 4.0, 2.0]


@pytest.mark.skipif(not numba.config.BOUNDSCHECK, reason="only where checks are on (make test)")
@pytest.mark.parametrize("other", [np.zeros(2, np.float32), np.zeros((2, 2)), np.zeros(4)[::2]])
def test_a_direct_call_with_other_types_than_the_first_is_refused_where_checks_are_on(
    other: np.ndarray,
) -> None:
    call = direct(last)
    call(np.zeros(2))
    with pytest.raises(TypeError, match="last is called with"):
        call(other)
