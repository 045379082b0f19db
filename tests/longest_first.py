"""The test files that run first: those that take longest.

A worker that begins a file of a minute when all others have finished delays the end. To renew the list, add
up the times of `make test ARGS=--durations=0` by file.
"""

LONGEST = (
    "learn_end_to_end", "every_combination", "loop", "commands_run", "full_disk", "wheel", "search",
    "one_run", "killed_rank", "sparse", "hostile", "rolling_restart", "killed_processes",
    "crash_points", "go_rules", "add_a_game", "repeatable", "match_players", "solver", "keys_end_to_end",
    "web_browser", "conformance", "leaf_parallel", "inference", "pitfalls_training", "simulation",
    "gtp_process", "analyse_service", "usi_process", "stopped_evaluator", "learn_parts", "games_command",
    "dots_and_boxes", "foreign_client", "plugins",
)  # fmt: skip
"""Files `test_NAME.py` that take more than 20 seconds with nothing compiled before, longest first."""


def rank(name: str) -> int:
    """Return the place of a file in the order; all quicker files share the last place."""
    short = name.removeprefix("test_").removesuffix(".py")
    return LONGEST.index(short) if short in LONGEST else len(LONGEST)
