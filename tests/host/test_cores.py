"""The processors and the memory that may be used, read from folders as the kernel shows them."""

import math
import os
from pathlib import Path

import pytest

from azselfplay.host.hardware import (
    DEVICE_FILES,
    DRIVERS,
    cpu_quota,
    may_have_gpus,
    memory_left,
    usable_cores,
)


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    path = tmp_path / "membership"
    path.write_text("12:cpu,cpuacct:/docker/ab\n3:memory:/docker/ab\n0::/user.slice/session.scope\n")
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_a_driver_without_device_files_counts_unless_all_gpus_are_hidden(tmp_path, monkeypatch) -> None:
    """A container without a GPU sees the driver, too: after torch was asked, it does not count."""
    assert (DRIVERS[0], "/proc" in str(DEVICE_FILES)) == ("/proc/driver/nvidia/version", False)
    driver = (str(tmp_path),)
    for visible, may_have in (("1,0", True), ("", False), ("-1", False)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert may_have_gpus(driver) == may_have
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert may_have_gpus(driver)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "200000 100000"}, 2.0),  # under `docker run --cpus 2`, with control groups of version 2
        ({"user.slice/cpu.max": "150000 100000", "user.slice/session.scope/cpu.max": "max 100000"}, 1.5),
        *(  # version 1
            ({f"{group}/cpu.cfs_quota_us": "350000", f"{group}/cpu.cfs_period_us": "100000"}, 3.5)
            for group in ("cpu,cpuacct", "cpu,cpuacct/docker/ab", "cpu")
        ),
    ],
)
def test_the_smallest_quota_of_all_groups_counts(files, quota: float, tmp_path, membership: Path) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    assert cpu_quota(tmp_path, membership) == quota


@pytest.mark.parametrize("text", ["max 100000", "-1 100000", "", "nonsense"])
def test_without_a_quota_all_processors_count(text: str, tmp_path: Path, membership: Path) -> None:
    write(tmp_path / "cpu.max", text)
    assert cpu_quota(tmp_path, membership) == math.inf
    assert usable_cores(tmp_path, membership) == len(os.sched_getaffinity(0))
    assert usable_cores(tmp_path / "nothing", tmp_path / "nothing") == len(os.sched_getaffinity(0))


def test_a_part_of_a_processor_is_one(tmp_path: Path, membership: Path) -> None:
    """Whole processors are counted, because the processes are busy all the time."""
    write(tmp_path / "cpu.max", "50000 100000")
    assert usable_cores(tmp_path, membership) == 1


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("user.slice", ("memory.max", "memory.current", "active_file")),
        ("memory/docker/ab", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file")),
    ],
)
def test_memory_is_what_the_groups_leave_and_cached_files_count_as_free(
    group: str, names: tuple[str, str, str], tmp_path: Path, membership: Path
) -> None:
    assert memory_left(tmp_path, membership, tmp_path / "none") == math.inf
    write(tmp_path / "meminfo", "MemFree: 1 kB\nMemAvailable: 2 kB")
    assert memory_left(tmp_path, membership, tmp_path / "meminfo") == 2048
    limit, used, cached = names
    write(tmp_path / group / limit, "2000")
    write(tmp_path / group / used, "1500")
    assert memory_left(tmp_path, membership) == 500
    write(tmp_path / group / "memory.stat", f"anon 1100\n{cached} 400")
    write(tmp_path / "memory.max", "max")
    assert memory_left(tmp_path, membership) == 900
