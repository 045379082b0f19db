"""After a power loss at any moment, whichever unsynced writes reached the disk, nothing promised is
missing."""

from pathlib import Path
from unittest import mock

import pytest
from power_loss import (
    check_spool,
    check_store,
    check_weights,
    crash_everywhere,
    spool_log,
    store_log,
    weights_log,
)
from write_log import Synced

import client.spool
from client.spool import Spool

pytestmark = pytest.mark.nightly

SUBSETS = 3


def test_no_finished_game_leaves_the_spool_unheard(tmp_path: Path) -> None:
    assert crash_everywhere(spool_log(tmp_path), check_spool, subsets=SUBSETS, seed=1) > 100


def test_weights_in_use_are_whole(tmp_path: Path) -> None:
    assert crash_everywhere(weights_log(tmp_path), check_weights, subsets=SUBSETS, seed=1) > 50


def test_no_acknowledged_game_leaves_the_store(tmp_path: Path) -> None:
    """SQLite's own writes are recorded through a VFS."""
    assert crash_everywhere(store_log(tmp_path), check_store, subsets=SUBSETS, seed=1) > 100


def test_a_spool_that_does_not_sync_files_is_caught(tmp_path: Path) -> None:
    log = spool_log(tmp_path)
    log.entries = [entry for entry in log.entries if not (isinstance(entry, Synced) and entry.inode)]
    with pytest.raises(AssertionError, match="P1"):
        crash_everywhere(log, check_spool, subsets=SUBSETS, seed=1)


def test_a_spool_that_does_not_sync_its_folder_is_caught(tmp_path: Path) -> None:
    with mock.patch.object(client.spool, "sync_folder"):
        log = spool_log(tmp_path, Spool)
    with pytest.raises(AssertionError, match="P1"):
        crash_everywhere(log, check_spool, subsets=SUBSETS, seed=1)


def test_weights_that_are_not_synced_are_caught(tmp_path: Path) -> None:
    log = weights_log(tmp_path)
    log.entries = [entry for entry in log.entries if not (isinstance(entry, Synced) and entry.inode)]
    with pytest.raises(AssertionError, match="P6"):
        crash_everywhere(log, check_weights, subsets=SUBSETS, seed=1)


def test_a_store_that_does_not_wait_for_the_disk_is_caught(tmp_path: Path) -> None:
    log = store_log(tmp_path, pragma="PRAGMA synchronous=NORMAL")
    with pytest.raises(AssertionError, match="P1"):
        crash_everywhere(log, check_store, subsets=SUBSETS, seed=1)
