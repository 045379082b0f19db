"""The metrics of azserver, and when it reports that it is ready."""

from front_bench import Bench, Worker, beside_front

from azselfplay.host.metrics import families
from protocol.messages import Bye, EvaluatorReport
from server.front import NO_PROGRESS
from server.metrics import METRICS, MOST_PER_SECOND, Figures, OwnEvaluations


def samples(bench: Bench) -> dict[str, float]:
    """Return the samples by name and label."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families(METRICS, bench.front.metrics())
        for sample in family.samples
    }


@beside_front
async def test_every_metric_of_a_server_at_work_has_a_value(bench: Bench) -> None:
    """Those of a gate that does not exist are the exception; leaves, batches and latencies agree with each
    other."""
    await bench.evaluator()
    worker = await bench.worker(1)
    for request, rows in enumerate((7, 20)):
        worker.ask(request, rows)
    await worker.get_all()
    found = samples(bench)
    silent = {m.name for m in METRICS if not any(key.startswith(m.name) for key in found)}
    no_keys = {"az_allowed_keys"}
    assert silent == {"az_gate_promoted_total", "az_gate_rejected_total"} | no_keys
    assert found["az_eval_leaves_total 0"] == found["az_eval_batch_size_sum"] == 27
    batches = found["az_eval_batches_total"]
    assert found["az_eval_batch_size_count"] == found["az_eval_latency_seconds_count queue"] == batches
    assert found["az_eval_latency_seconds_count device"] == batches
    assert found["az_clients clients"] == 1
    assert (found["az_evaluators"], found["az_evaluators_expected"]) == (1, 1)
    worker.send(Bye())
    await Worker(bench, 2).join("watcher")
    assert samples(bench)["az_client_disconnects_total left"] == 1


@beside_front
async def test_the_mean_batch_is_compared_with_the_target_of_one_evaluator(bench: Bench) -> None:
    for index, target in enumerate((32, 64)):
        await bench.evaluator(index, target_rows=target)
    assert bench.front.status()["target_rows"] == samples(bench)["az_eval_batch_target"] == 48


@beside_front
async def test_it_is_ready_while_an_evaluator_works_and_answers(bench: Bench) -> None:
    front = bench.front
    now = front.figures.started
    assert "no evaluator" in front.not_ready(now)
    evaluator = await bench.evaluator()
    assert front.not_ready(now) == ""
    evaluator.holding = True
    worker = await bench.worker(1)
    worker.ask(1, 5)
    await evaluator.got_leaves.wait()
    report = EvaluatorReport(0, [5], [0.001], [], sent_rows=5)
    front.figures.reported(0, report, front.figures.progress_at + 1.0)
    sent = front.figures.progress_at
    assert front.not_ready(sent + NO_PROGRESS / 2) == ""
    assert front.not_ready(sent + 2 * NO_PROGRESS).startswith("5 leaves wait")
    evaluator.answer_all()
    await worker.get_all()
    assert front.not_ready(sent + 2 * NO_PROGRESS) == ""
    front.say_goodbye()
    assert "stopping" in front.not_ready(now)


def test_a_rate_is_that_of_the_last_seconds_and_falls_to_zero_when_nothing_happens() -> None:
    """A client may begin long after the server."""
    figures = Figures(started=0.0)
    figures.reported(0, EvaluatorReport(0, [], [], []), 70.0)
    for second in range(71, 131):
        figures.reported(0, EvaluatorReport(500, [], [], []), second + 0.5)
    assert 450 <= figures.as_dict(130.9)["evals_per_s"] <= 550
    assert figures.as_dict(160.0)["evals_per_s"] == 0


def test_figures_start_at_zero_and_count_batches() -> None:
    """The wait is the mean over rows."""
    figures = Figures(started=10.0)
    assert figures.as_dict(10.0)["evals_per_s"] == 0
    figures.reported(1, EvaluatorReport(64, [64, 32], [0.001, 0.004], [0.01], 5, 32, 3, 2, 1, 1), 12.0)
    shown = figures.as_dict(13.0)
    assert (shown["evals"], shown["batches"], shown["mean_batch"], shown["queue_wait_ms"]) == (64, 2, 48, 2)
    counted = [shown[name] for name in ("redone_rows", "wrong_rows", "bad_batches", "poisoned")]
    assert (counted, figures.rows_of_evaluators) == ([3, 2, 1, 1], (5, 32))
    assert figures.evals_by_evaluator == {1: 64}


def test_evaluations_in_players_searches_are_counted_once_whatever_they_tell() -> None:
    """Each number is a total since the session began. A lower one counts nothing, an impossible one counts as
    the most that is possible, and a session that ended is no longer at work."""
    own = OwnEvaluations()
    assert own.report(1, joined_at=100.0, evaluations=50_000, now=101.0) == 50_000
    assert own.report(1, joined_at=100.0, evaluations=50_000, now=101.0) == 0
    assert own.report(1, joined_at=100.0, evaluations=150_000, now=103.0) == 100_000
    assert own.report(2, joined_at=102.0, evaluations=30_000, now=105.0) == 30_000
    assert own.per_second == 50_000 + 10_000
    own.forget(2)
    assert own.per_second == 50_000
    assert own.report(1, joined_at=100.0, evaluations=7, now=104.0) == 0
    assert own.report(1, joined_at=100.0, evaluations=2**60, now=106.0) == 2 * MOST_PER_SECOND
