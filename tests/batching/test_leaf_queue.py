"""The queue of leaves: who comes next, and which slots are computed together."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from azselfplay.batching.queue import FairQueue, LeafQueue
from azselfplay.batching.ring import SLOT_ROWS


@dataclass(frozen=True)
class Slot:
    name: str
    rows: int
    owner: str = "a"
    ring: int = 0
    starts: int = 0


def filled(*slots: Slot) -> LeafQueue:
    queue: LeafQueue = LeafQueue()
    for slot in slots:
        queue.put(slot)
    return queue


def names(slots: list[Slot]) -> str:
    return " ".join(slot.name for slot in slots)


def test_a_busy_device_waits_for_half_as_many_rows_as_it_has() -> None:
    queue = filled(Slot("x", 15))
    assert queue.next_batch(64, busy_rows=32) == []
    queue.put(Slot("y", 1))
    assert names(queue.next_batch(64, busy_rows=32)) == "x y"


def test_a_busy_device_waits_for_half_of_its_target_at_most() -> None:
    assert names(filled(Slot("x", 32)).next_batch(64, busy_rows=500)) == "x"


def test_a_batch_holds_whole_slots_up_to_the_target_but_at_least_one() -> None:
    queue = filled(Slot("x", 30), Slot("y", 30), Slot("z", 30), Slot("large", 100))
    assert names(queue.next_batch(64, 0)) == "x y"
    assert names(queue.next_batch(64, 0)) == "z"
    assert names(queue.next_batch(64, 0)) == "large"
    assert queue.rows == 0


def test_an_owner_with_small_slots_may_spend_as_many_rows_as_one_with_large_slots() -> None:
    small = [Slot("s", 16, "small") for _ in range(100)]
    queue = filled(*small, *(Slot("L", SLOT_ROWS, "large") for _ in range(10)))
    taken = Counter(slot.owner for slot in queue.next_batch(8 * SLOT_ROWS, 0) for _ in range(slot.rows))
    assert taken["small"] == taken["large"] == 4 * SLOT_ROWS


def test_slots_that_an_evaluator_ended_over_are_tried_first_and_each_alone() -> None:
    queue = filled(Slot("new", 2), Slot("s1", 2, starts=1), Slot("s2", 2, starts=1))
    assert names(queue.next_batch(64, 0)) == "s1"
    assert queue.next_batch(64, busy_rows=2) == []
    assert names(queue.next_batch(64, 0)) == "s2"
    assert queue.next_batch(64, busy_rows=2) == []
    assert names(queue.next_batch(64, 0)) == "new"


def test_a_suspect_waits_until_the_device_is_free() -> None:
    assert filled(Slot("s", 2, starts=1), Slot("new", 9)).next_batch(64, busy_rows=5) == []


def test_what_came_from_a_ring_that_is_gone_is_dropped() -> None:
    queue = filled(Slot("gone", 2, ring=1), Slot("here", 2), Slot("s", 2, ring=1, starts=1))
    queue.drop(1)
    assert (queue.rows, names(queue.next_batch(64, 0))) == (2, "here")


Items = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, SLOT_ROWS)), max_size=40)


@given(Items, st.lists(st.integers(0, 400), max_size=60))
def test_every_item_comes_out_once_in_its_owners_order(
    items: list[tuple[str, int]], rooms: list[int]
) -> None:
    queue: FairQueue[Slot] = FairQueue()
    for number, (owner, rows) in enumerate(items):
        queue.append(Slot(f"{number:02}", rows, owner))
    taken: list[Slot] = []
    for room in [*rooms, *[SLOT_ROWS] * len(items)]:
        some = queue.take(room)
        assert len(some) <= 1 or sum(one.rows for one in some) <= room
        taken += some
        assert queue.rows == sum(rows for _, rows in items) - sum(one.rows for one in taken)
    assert sorted(one.name for one in taken) == [f"{number:02}" for number in range(len(items))]
    for owner in "abc":
        mine = [one.name for one in taken if one.owner == owner]
        assert mine == sorted(mine)


@given(st.lists(st.integers(1, SLOT_ROWS), min_size=30, max_size=60), st.integers(1, 512))
def test_two_owners_that_always_wait_are_served_alike(sizes: list[int], room: int) -> None:
    """At no time is one owner more than two slots ahead of the other."""
    queue: FairQueue[Slot] = FairQueue()
    for owner, of in (("a", sizes), ("b", [SLOT_ROWS] * len(sizes))):
        for rows in of:
            queue.append(Slot(owner, rows, owner))
    served = Counter({"a": 0, "b": 0})
    while len(queue._waiting) == 2:
        assert abs(served["a"] - served["b"]) <= 2 * SLOT_ROWS
        for one in queue.take(room):
            served[one.owner] += one.rows


def test_an_item_that_comes_back_goes_before_the_others_of_its_owner() -> None:
    queue: FairQueue[Slot] = FairQueue()
    queue.append(Slot("x", 5))
    queue.append(Slot("back", 5), first=True)
    assert names(queue.take(10)) == "back x"
