"""The conclusions of `tests.faults shares` from known figures."""

from __future__ import annotations

from key_shares import HONEST, KEYS, Shares, broken


def shares_with(part: float) -> Shares:
    """Seven rounds in which one honest client gets `part` of its share, and the others all of theirs."""
    turn = [part * 1000 / KEYS] + [1000 / KEYS] * (HONEST - 1)
    return Shares(alone=[1000.0] * 7, quiet=[[50.0] * HONEST] * 7, beside=[turn] * 7, taken=[0.1] * 7)


def test_one_client_with_less_than_its_part_breaks_the_promise() -> None:
    assert not broken(shares_with(0.96))
    assert "1 honest clients had less" in broken(shares_with(0.94))


def test_a_round_in_which_the_machine_did_something_else_does_not_count_for_all() -> None:
    shares = shares_with(1.0)
    shares.beside[3] = [0.0] * HONEST
    assert not broken(shares)
    assert shares.interval().least == 0.0
