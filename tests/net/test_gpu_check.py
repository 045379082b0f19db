"""`make gpu-check`, run on the CPU: right answers pass, wrong ones do not."""

import numpy as np
import pytest

import trainer.train_step
from bench.gpu_check import (
    check,
    check_overflow,
    check_sparse,
    check_step,
    differences,
    figures_of,
    plain_answers,
    scrambled,
)
from bench.inference import chess_like_batch


def test_right_answers_pass():
    assert check("tiny", "cpu") + check_sparse("cpu") + check_overflow("cpu") == []


def test_a_step_with_another_loss_does_not_pass(monkeypatch):
    assert check_step("cpu") == []
    scale = iter((1.0, 30.0))
    losses = trainer.train_step.losses
    monkeypatch.setattr(
        trainer.train_step, "losses", lambda policy, *others: losses(next(scale) * policy, *others)
    )
    assert len(check_step("cpu")) == 1


def test_what_would_begin_too_late_is_left_out_and_said(monkeypatch, capsys):
    monkeypatch.setattr("bench.gpu_check.LIMIT_SECONDS", 29.0)
    assert figures_of("cpu") == {}
    assert "training steps: left out, it could take 30 s more" in capsys.readouterr().out


@pytest.mark.nightly
def test_all_figures_are_there_and_azserver_itself_serves(monkeypatch):
    """On a CPU, the figures are measured in a small form."""
    for name in ("SECONDS_A_SIZE", "STEP_SECONDS", "SETTLING_SECONDS"):
        monkeypatch.setattr(f"bench.gpu_check.{name}", 0.0)
    monkeypatch.setattr("bench.gpu_check.SYSTEM_SECONDS", 2.0)
    monkeypatch.setenv("AZ_CUDA_KERNELS", "")
    found = figures_of("cpu")
    assert list(found) == ["served by azserver --gpus cpu", "training steps", "positions/s of tiny plain"]
    served, steps, rates = found.values()
    assert list(rates) == ["target_rows", "64", "128", "256", "512"], "all sizes that evaluators use"
    assert served["evals_per_s"] > 0
    assert 1 <= served["rows_a_batch"] <= served["target_rows"]
    assert steps["step_ms"] >= steps["of_that_drawing_ms"] > 0


def test_answers_of_other_rows_do_not_pass():
    network = scrambled("tiny")
    features, counts, actions = chess_like_batch(64)
    right = plain_answers(network, (features, counts, actions))
    wrong = plain_answers(network, (np.ascontiguousarray(features[::-1]), counts, actions))
    assert differences("tiny", right, right) == []
    assert len(differences("tiny", wrong, right)) == 1
