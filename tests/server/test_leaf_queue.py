"""The leaf queue: which rows go where, checked by equality of instructions."""

from __future__ import annotations

from leaf_queue_parts import joined, leaves, marked, plan, ready_queue

from protocol.errors import Code
from server.leaf_queue import MAX_DEATHS, MAX_WRONG_ANSWERS, QUANTUM, LeafQueue
from server.pieces import Answer, Refuse, SendBatch


def test_a_free_device_gets_whatever_there_is_at_once() -> None:
    assert plan(ready_queue().request("a", 1, leaves(3), 0.0)) == [("gpu", 1, [("a", 1, 0, 3)])]


def test_a_busy_device_collects_half_of_what_it_computes_before_it_gets_a_second_batch() -> None:
    queue = ready_queue()
    queue.request("a", 1, leaves(100), 0.0)
    assert queue.request("a", 2, leaves(49), 0.0) == []
    assert plan(queue.request("b", 1, leaves(1), 0.0)) == [("gpu", 2, [("a", 2, 0, 49), ("b", 1, 0, 1)])]


def test_a_full_pipeline_keeps_rows_in_the_queue_until_a_batch_is_done() -> None:
    queue = ready_queue(pipeline=1)
    queue.request("a", 1, leaves(2), 0.0)
    assert queue.request("a", 2, leaves(200), 0.0) == []
    assert plan(queue.batch_done("gpu", 1, 0.1)) == [
        Answer("a", 1, 0, 2, 0, 0, 3),
        ("gpu", 2, [("a", 2, 0, 128), ("a", 2, 128, 72)]),
    ]


def test_a_request_larger_than_a_batch_is_split_and_answered_in_parts() -> None:
    queue = ready_queue(target_rows=4, pipeline=1)
    assert plan(queue.request("a", 9, leaves(6), 0.0)) == [("gpu", 1, [("a", 9, 0, 4)])]
    assert plan(queue.batch_done("gpu", 1, 0.0)) == [
        Answer("a", 9, 0, 4, 0, 0, 7),
        ("gpu", 2, [("a", 9, 4, 2)]),
    ]
    assert queue.batch_done("gpu", 2, 0.0) == [Answer("a", 9, 4, 2, 0, 0, 5)]
    assert not queue.knows("a", 9)


def test_answers_say_where_in_the_batch_each_request_lies() -> None:
    queue = ready_queue(pipeline=1)
    queue.request("x", 0, leaves(1), 0.0)
    queue.request("a", 1, leaves(2), 0.0)
    queue.request("b", 1, leaves(3), 0.0)
    queue.batch_done("gpu", 1, 0.0)
    assert queue.batch_done("gpu", 2, 0.0) == [Answer("a", 1, 0, 2, 0, 0, 3), Answer("b", 1, 0, 3, 2, 3, 9)]


def test_sessions_take_turns_so_that_a_greedy_one_starves_nobody() -> None:
    queue = ready_queue(target_rows=2 * QUANTUM, pipeline=1)
    queue.request("x", 0, leaves(1), 0.0)
    queue.request("greedy", 1, leaves(1000), 0.0)
    queue.request("modest", 1, leaves(QUANTUM), 0.0)
    (_, (_, _, pieces)) = plan(queue.batch_done("gpu", 1, 0.0))
    assert pieces == [("greedy", 1, 0, QUANTUM), ("modest", 1, 0, QUANTUM)]


def test_two_devices_share_the_rows_and_the_least_loaded_comes_first() -> None:
    queue = LeafQueue()
    queue.evaluator_ready("gpu0", 4, 2, 0.0)
    queue.evaluator_ready("gpu1", 4, 2, 0.0)
    assert [send[:2] for send in plan(queue.request("a", 1, leaves(20), 0.0))] == [
        ("gpu0", 1), ("gpu1", 2), ("gpu0", 3), ("gpu1", 4),
    ]  # fmt: skip


def test_a_resent_request_in_work_is_ignored() -> None:
    queue = ready_queue()
    queue.request("a", 1, leaves(3), 0.0)
    assert queue.knows("a", 1)
    assert queue.request("a", 1, leaves(3), 10.0) == []
    assert queue.batch_done("gpu", 1, 11.0) == [Answer("a", 1, 0, 3, 0, 0, 6)]


def test_answers_to_unknown_batches_are_ignored_and_counted() -> None:
    queue = ready_queue()
    queue.request("a", 1, leaves(3), 0.0)
    assert queue.batch_done("gpu", 77, 0.0) == []
    assert queue.batch_done("ghost", 1, 0.0) == []
    assert len(queue.batch_done("gpu", 1, 0.0)) == 1
    assert queue.batch_done("gpu", 1, 0.0) == []
    assert queue.counts.late_batches == 3


def test_a_lost_session_is_neither_sent_to_a_device_nor_answered() -> None:
    queue = ready_queue(target_rows=2, pipeline=1)
    queue.request("gone", 1, leaves(4), 0.0)
    queue.request("here", 1, leaves(2), 0.0)
    queue.cancel("gone")
    assert queue.queued_rows == 2
    assert plan(queue.batch_done("gpu", 1, 0.0)) == [("gpu", 2, [("here", 1, 0, 2)])]


def test_rows_of_a_dead_device_go_first_and_alone_on_the_next() -> None:
    queue = LeafQueue()
    queue.request("a", 1, leaves(2), 0.0)
    queue.request("b", 1, leaves(2), 0.0)
    queue.evaluator_ready("old", 8, 1, 0.0)
    queue.request("c", 1, leaves(2), 0.0)
    assert queue.evaluator_died("old", 1.0) == []
    assert plan(queue.evaluator_ready("new", 8, 2, 2.0)) == [("new", 2, [("a", 1, 0, 2)])]
    assert plan(queue.batch_done("new", 2, 2.0))[1:] == [("new", 3, [("b", 1, 0, 2)])]
    assert plan(queue.batch_done("new", 3, 2.0))[1:] == [("new", 4, [("c", 1, 0, 2)])]


def test_a_request_that_kills_two_devices_is_refused_as_poison_and_its_neighbour_is_not() -> None:
    queue = LeafQueue()
    queue.request("neighbour", 1, leaves(2), 0.0)
    queue.request("killer", 5, leaves(6), 0.0)
    queue.evaluator_ready(0, 6, 1, 0.0)
    queue.evaluator_died(0, 1.0)
    queue.evaluator_ready(1, 6, 1, 1.0)
    answered = queue.batch_done(1, 2, 1.0)
    assert answered[0] == Answer("neighbour", 1, 0, 2, 0, 0, 3)
    assert plan(answered[1:]) == [(1, 3, [("killer", 5, 0, 4)])]
    reason = f"{MAX_DEATHS} evaluators failed on this request"
    assert queue.evaluator_died(1, 2.0) == [Refuse("killer", 5, Code.POISON, reason, 6)]
    assert queue.queued_rows == 0


def test_a_useless_answer_gives_its_rows_a_second_try() -> None:
    queue = ready_queue()
    queue.request("a", 1, leaves(2), 0.0)
    assert plan(queue.batch_failed("gpu", 1, 0.0)) == [("gpu", 2, [("a", 1, 0, 2)])]


def test_rows_beside_a_wrong_answer_are_answered_at_once_and_only_that_row_is_tried_again() -> None:
    queue = LeafQueue()
    queue.request("honest", 1, leaves(2), 0.0)
    queue.request("odd", 5, leaves(4), 0.0)
    queue.request("modest", 1, leaves(1), 0.0)
    queue.evaluator_ready("gpu", 8, 1, 0.0)
    assert plan(queue.batch_done("gpu", 1, 1.0, marked(7, 3))) == [
        Answer("honest", 1, 0, 2, 0, 0, 3),
        Answer("odd", 5, 0, 1, 2, 3, 4),
        Answer("odd", 5, 2, 2, 4, 6, 10),
        Answer("modest", 1, 0, 1, 6, 10, 11),
        ("gpu", 2, [("odd", 5, 1, 1)]),
    ]
    assert queue.batch_done("gpu", 2, 2.0) == [Answer("odd", 5, 1, 1, 0, 0, 2)]
    assert (queue.counts.wrong_rows, queue.counts.redone_rows, queue.knows("odd", 5)) == (1, 1, False)


def test_a_row_that_gets_two_wrong_answers_is_refused_after_its_neighbours_are_answered() -> None:
    queue = ready_queue(pipeline=1)
    queue.request("odd", 5, leaves(3), 0.0)
    queue.request("honest", 1, leaves(2), 0.0)
    queue.batch_done("gpu", 1, 1.0, marked(3, 0, 1))
    reason = f"the answer to row 0 was not a probability, {MAX_WRONG_ANSWERS} times"
    assert plan(queue.batch_done("gpu", 2, 2.0, marked(4, 2))) == [
        Answer("honest", 1, 0, 2, 0, 0, 3),
        Answer("odd", 5, 1, 1, 3, 4, 6),
        Refuse("odd", 5, Code.POISON, reason, 1),
    ]
    assert queue.queued_rows == 0


def test_rows_with_a_wrong_answer_wait_for_their_session_to_have_its_turn_again() -> None:
    queue = ready_queue(target_rows=QUANTUM, pipeline=1)
    queue.request("odd", 1, leaves(QUANTUM), 0.0)
    queue.request("odd", 2, leaves(QUANTUM), 0.0)
    queue.request("honest", 1, leaves(1), 0.0)
    sends = plan(queue.batch_done("gpu", 1, 1.0, marked(QUANTUM, 7)))[2:]
    half = QUANTUM // 2
    assert sends == [("gpu", 2, [("odd", 2, 0, half), ("honest", 1, 0, 1), ("odd", 2, half, half - 1)])]
    (third,) = plan(queue.batch_done("gpu", 2, 1.0))[-1:]
    assert third == ("gpu", 3, [("odd", 2, QUANTUM - 1, 1), ("odd", 1, 7, 1)])


def test_a_full_queue_says_busy_instead_of_growing() -> None:
    queue = LeafQueue(max_queued_rows=5)
    queue.request("a", 1, leaves(4), 0.0)
    (refused,) = queue.request("a", 2, leaves(2), 0.0)
    assert (refused.code, refused.rows, refused.retry_after > 0) == (Code.BUSY, 2, True)


def test_the_time_of_a_devices_oldest_batch_is_known() -> None:
    queue = ready_queue()
    assert queue.oldest() == {}
    queue.request("a", 1, leaves(2), 5.0)
    queue.request("a", 2, leaves(2), 6.0)
    assert queue.oldest() == {"gpu": 5.0}


def test_a_batch_joins_the_rows_of_its_pieces_in_order() -> None:
    queue = LeafQueue()
    queue.request("a", 1, leaves(3, tag=1), 0.0)
    queue.request("b", 1, leaves(2, tag=2), 0.0)
    (send,) = queue.evaluator_ready("gpu", 4, 1, 0.0)
    frames = joined(send)
    assert frames.features[:, 0].tolist() == [1000, 1001, 1002, 2000]
    assert frames.counts.tolist() == [1, 2, 3, 1]
    assert frames.actions.tolist() == [1000, 1001, 1001, 1002, 1002, 1002, 2000]


def test_rows_of_a_refused_request_that_wait_to_be_tried_alone_are_dropped() -> None:
    """One of them had a wrong answer for the second time; nobody needs the others any more."""
    queue = LeafQueue()
    queue.request("a", 1, leaves(3), 0.0)
    (first,) = queue.evaluator_ready("gpu", 3, 1, 0.0)
    (again,) = queue.batch_done("gpu", first.batch, 0.0, marked(3, 0, 1, 2))
    assert again.rows == 3
    assert queue.evaluator_died("gpu", 0.0) == []
    (alone,) = queue.evaluator_ready("gpu", 1, 1, 0.0)
    (refused,) = queue.batch_done("gpu", alone.batch, 0.0, marked(1, 0))
    assert (refused.session, refused.request) == ("a", 1)
    assert queue.queued_rows == 0


def test_a_device_that_describes_itself_anew_gets_batches_of_its_new_size() -> None:
    """It keeps the batches that it has; one that is not up is ignored."""
    queue = ready_queue(target_rows=100)
    queue.request("a", 1, leaves(100), 0.0)
    queue.request("a", 2, leaves(40), 0.0)
    assert plan(queue.evaluator_resized("gpu", 30, 0.0)) == [("gpu", 2, [("a", 2, 0, 30)])]
    assert plan(queue.batch_done("gpu", 2, 0.0)[1:]) == []
    assert plan(queue.batch_done("gpu", 1, 0.0)[1:]) == [("gpu", 3, [("a", 2, 30, 10)])]
    assert queue.evaluator_resized("another", 30, 0.0) == []


def test_of_two_devices_one_is_lost_for_good_and_no_row_is() -> None:
    """The other device computes all its rows, from two batches, once."""
    queue = LeafQueue()
    for name in ("gpu", "other"):
        queue.evaluator_ready(name, 8, 2, 0.0)
    sends = [one for number in range(8) for one in queue.request("a", number, leaves(8, number), 0.0)]
    lost = [one for one in sends if one.evaluator == "gpu"]
    todo = [one for one in sends if one.evaluator == "other"]
    assert len(lost) == len(todo) == 2
    todo += queue.evaluator_died("gpu", 0.0)
    answered: list[tuple[int, int]] = []
    while todo:
        batch = todo.pop(0)
        assert batch.evaluator == "other"
        done = queue.batch_done("other", batch.batch, 0.0)
        answers = [one for one in done if isinstance(one, Answer)]
        answered += [(one.request, one.first + row) for one in answers for row in range(one.rows)]
        todo += [one for one in done if isinstance(one, SendBatch)]
    assert sorted(answered) == [(number, row) for number in range(8) for row in range(8)]
