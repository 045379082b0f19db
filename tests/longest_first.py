"""The test files that run first: those that take longest.

A worker that begins a file of a minute when all others have finished delays the end. To renew the list, add
up the times of `make test ARGS=--durations=0` by file.
"""

LONGEST = (
    "test_learn_end_to_end.py",
    "test_every_combination.py",
    "test_loop.py",
    "test_commands_run.py",
    "test_full_disk.py",
    "test_wheel.py",
    "test_search.py",
    "test_one_run.py",
    "test_killed_rank.py",
    "test_sparse.py",
    "test_hostile.py",
    "test_rolling_restart.py",
    "test_trainer_moves.py",
    "test_killed_processes.py",
    "test_crash_points.py",
    "test_go_rules.py",
    "test_add_a_game.py",
    "test_repeatable.py",
    "test_match_players.py",
    "test_solver.py",
    "test_keys_end_to_end.py",
    "test_web_browser.py",
    "test_conformance.py",
    "test_leaf_parallel.py",
    "test_inference.py",
    "test_pitfalls_training.py",
    "test_simulation.py",
    "test_gtp_process.py",
    "test_analyse_service.py",
    "test_usi_process.py",
    "test_stopped_evaluator.py",
    "test_learn_parts.py",
    "test_games_command.py",
    "test_dots_and_boxes.py",
    "test_foreign_client.py",
    "test_plugins.py",
)
"""Files that take more than 20 seconds with nothing compiled before, longest first."""


def rank(name: str) -> int:
    """Return the place of a file in the order; all quicker files share the last place."""
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
