"""P8: each fault shows in a metric and in a log line."""

from collections.abc import Iterator

import pytest
from keyed_parts import KeyedParts
from signals import GUEST, INJECTIONS, SIGNALS, Signal, shown

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedParts]:
    with KeyedParts(tmp_path_factory.mktemp("signals"), guests=[GUEST]) as made:
        yield made


@pytest.mark.parametrize("one", SIGNALS, ids=lambda one: one.name)
def test_each_fault_shows_in_a_metric_and_in_a_line_of_a_log(system: KeyedParts, one: Signal) -> None:
    system.wait_until_whole()
    shown(system, one)


def test_each_row_is_done() -> None:
    assert {one.name for one in SIGNALS} == set(INJECTIONS)
