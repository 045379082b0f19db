"""What an engine does before its first search."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from azselfplay.host.exits import Fatal
from azselfplay.play.driver import prepare
from azselfplay.play.orders import Setup


def test_a_hash_that_the_system_refuses_is_a_setting_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine then keeps what it had, and does not end."""

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("azselfplay.search.forest.mmap.mmap", refused)
    with pytest.raises(Fatal, match="not enough memory for Hash 65536 MiB"):
        prepare(Setup(game="tic_tac_toe", hash_mib=65536), 0)
