"""The test files that run first: those that take longest.

A worker that begins a file of a minute when all others have finished keeps them waiting. To renew the list,
add up the times of `make test ARGS=--durations=0` by file.
"""

from __future__ import annotations

LONGEST = (
    "test_learn_end_to_end.py",
    "test_commands_run.py",
    "test_add_a_game.py",
    "test_every_combination.py",
    "test_search.py",
    "test_loop.py",
    "test_gtp_process.py",
    "test_examples.py",
    "test_judges.py",
    "test_full_disk.py",
    "test_rating_commands.py",
    "test_shogi_agreement.py",
    "test_killed_trainer.py",
    "test_wheel.py",
    "test_simulation.py",
    "test_crash_points.py",
    "test_signals.py",
    "test_hostile.py",
    "test_go_rules.py",
    "test_games_in_flight.py",
    "test_pitfalls_search.py",
    "test_one_run.py",
    "test_stopped_evaluator.py",
    "test_killed_processes.py",
    "test_rolling_restart.py",
    "test_trainer_moves.py",
    "test_conformance.py",
    "test_uci_process.py",
    "test_inference.py",
    "test_plugins.py",
    "test_analyse_command.py",
    "test_usi_process.py",
    "test_leaf_parallel.py",
    "test_go_truth.py",
    "test_ends_with_azrun.py",
    "test_pitfalls_training.py",
    "test_foreign_client.py",
    "test_dots_and_boxes.py",
    "test_web_browser.py",
    "test_report_command.py",
    "test_gumbel.py",
    "test_small_games.py",
    "test_analyse_service.py",
    "test_gatekeeper.py",
)
"""Files that take more than 20 seconds on two cores, longest first."""


def rank(name: str) -> int:
    """Return the place of a file in the order; all quicker files share the last place."""
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
