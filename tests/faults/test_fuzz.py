"""Decoders accept any bytes: they return a value or raise their own exception, quickly and with little
memory."""

import pytest
from fuzz import TARGETS, Target, fuzz
from scaled_examples import scaled

EXECUTIONS = 4000
DEAR = {"network": 400, "games": 1500}
"""Decoders with fewer executions, because they take longer."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_bytes_do_more_than_be_refused(target: Target) -> None:
    report = fuzz(target, scaled(DEAR.get(target.name, EXECUTIONS)), seed=1)
    assert not report.failures, report.failures[0]
    assert report.refused < report.executions, "nothing was ever taken: the inputs are too far from right"
