"""The metrics of azserver, and when it reports that it is ready."""

from __future__ import annotations

from front_bench import Bench, Play, Worker

from protocol.messages import Bye
from runtime.metrics import families
from server.metrics import METRICS, NO_PROGRESS, figures, not_ready


def samples(bench: Bench) -> dict[str, float]:
    """Return the samples by name and label."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families(METRICS, figures(bench.front))
        for sample in family.samples
    }


def test_every_metric_of_a_server_at_work_has_a_value(play: Play) -> None:
    """Those of a gate that does not exist are the exception; leaves, batches and latencies agree with each
    other."""

    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker = Worker(bench, 1)
        await worker.join("client")
        for request, rows in enumerate((7, 20)):
            worker.ask(request, rows)
        await worker.get_all()
        found = samples(bench)
        silent = {m.name for m in METRICS if not any(key.startswith(m.name) for key in found)}
        no_keys = {"az_key_stored_bytes", "az_allowed_keys"}
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

    play(scenario)


def test_it_is_ready_while_an_evaluator_works_and_answers(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        front = bench.front
        now = front.figures.started
        assert "no evaluator" in not_ready(front, now)
        evaluator = await bench.evaluator()
        assert not_ready(front, now) == ""
        evaluator.holding = True
        worker = Worker(bench, 1)
        await worker.join("client")
        worker.ask(1, 5)
        await evaluator.got_batch.wait()
        sent = front.figures.progress_at
        assert not_ready(front, sent + NO_PROGRESS / 2) == ""
        assert not_ready(front, sent + 2 * NO_PROGRESS).startswith("5 leaves wait")
        evaluator.answer_all()
        await worker.get_all()
        assert not_ready(front, sent + 2 * NO_PROGRESS) == ""
        front.say_goodbye()
        assert "stopping" in not_ready(front, now)

    play(scenario)
