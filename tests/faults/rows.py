# ruff: noqa: E501 (rows of a table)
"""The fault plan row by row: what is done for each, by which command, and the result. `results/faults.md` is
generated from it.

A figure comes from `results.json` beside this file, which `python -m tests.faults` writes; nobody types one
here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "results" / "faults.md"
BEGIN, END = "<!-- rows of tests/faults/rows.py -->", "<!-- end of the rows -->"
BEGIN_SIGNALS, END_SIGNALS = "<!-- rows of tests/faults/signal_rows.py -->", "<!-- end of the signals -->"
FAULTS = "python -m tests.faults"


@dataclass(frozen=True)
class Row:
    """One row of the plan."""

    number: int
    fault: str
    done: str
    promise: str
    shown: str
    """Commands and tests, as written on the page."""
    measured: tuple[str, ...] = ()
    """Names of the results whose figures are shown."""
    missing: str = ""
    """What the row leaves out, and why."""


def tests(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


SIMULATE = f"`{FAULTS} simulate`"
POINTS = "faults/test_crash_points.py::test_a_process_killed_at_any_point_has_kept_what_it_promised"

ROWS: tuple[Row, ...] = (
    Row(1, "azclient killed", "SIGKILL at each crash point of spool, uploader and takeover, each time it is reached; "
        "kills at any step of the simulation", "P1 P2", f"`{FAULTS} crash`, {SIMULATE}, {tests(POINTS)}",
        ("crash", "simulate")),
    Row(2, "azserver's front killed, trainer killed around a commit", "SIGKILL at the crash points of store and "
        "weights; kills of the front at any step of the simulation", "P1 P2 P6", f"`{FAULTS} crash`, {SIMULATE}",
        ("crash", "simulate")),
    Row(3, "an evaluator killed or stopped", "kills in the simulation, where answers are hashes of the position; SIGSTOP of a "
        "real one", "P4", f"{SIMULATE}, {tests('server/test_stopped_evaluator.py::test_one_that_stays_stopped_is_killed_and_its_successor_works')}",
        ("simulate",)),
    Row(4, "CUDA out of memory, device assert", "simulated devices that raise torch's OutOfMemoryError at once or late, and one that fails "
        "for good; SIGKILL to an evaluator amid a batch, which another evaluates again", "P4", tests(
        "batching/test_evaluator_loop.py::test_without_memory_batches_become_smaller_once_and_no_row_is_lost", "net/test_inference.py::test_a_device_that_is_short_of_memory_gets_smaller_batches",
        "batching/test_evaluator_loop.py::test_a_device_that_has_failed_for_good_ends_its_process_and_answers_nothing", "server/test_front_leaves.py::test_rows_of_an_evaluator_that_ends_are_evaluated_by_another",
        "batching/test_killed_processes.py::test_evaluators_killed_under_load_lose_no_row_and_answer_none_wrongly"), missing="on a real GPU: the test machine has none"),
    Row(5, "weights with NaN published", "a file with NaN, Inf or a negative variance; the weights in use with one NaN in them, published to a "
        "running system, which keeps the old ones", "P6 P8", f"`{FAULTS} signals`, " + tests("net/test_weights.py::test_numbers_that_are_not_finite_are_refused",
        "faults/test_signals.py::test_each_fault_shows_in_a_metric_and_in_a_line_of_a_log")),
    Row(6, "trainer killed at every step of checkpoint and publication", "SIGKILL at the crash points of checkpoint, "
        "weights and atomic files", "P1 P6 P7", f"`{FAULTS} crash`, {tests('faults/test_crash_points.py::test_a_trainer_killed_behind_its_acknowledgements_has_the_games')}",
        ("crash",), "the samples after a restart are the same with azrun --repeatable only"),
    Row(7, "power loss with unsynced writes lost", "all writes of spool, weights and SQLite (through a VFS) are recorded; "
        "every prefix, with subsets of unsynced 512-byte pages, is laid out and opened", "P1 P2 P6", f"`{FAULTS} power`, "
        + tests("faults/test_power_loss.py::test_no_acknowledged_game_leaves_the_store"), ("power",),
        "the recorded writes replace LazyFS; creating or removing a folder counts as synced"),
    Row(8, "disk full", "a file system of a few MB below azserver, azclient and trainer is filled, then freed", "P1", tests(
        "test_full_disk.py::test_a_full_disk_stops_nothing_for_good_and_loses_no_acknowledged_game", "test_small_disk_parts.py::test_a_checkpoint_that_does_not_fit_leaves_the_one_before_and_no_parts")),
    Row(9, "half-open connections", "the simulation cuts connections, and one side notices 5 to 15 s later; an evaluator is stopped until "
        "its connection is cut", "P1 P2 P4 P6", f"{SIMULATE}, " + tests("server/test_stopped_evaluator.py::test_one_that_was_stopped_until_its_connection_was_cut_works_again"),
        ("simulate",)),
    Row(10, "slow readers", "attackers that read nothing, beside an honest client; keys beside one that has many sessions", "P5", tests(
        "server/test_chunk_queue.py::test_who_does_not_read_waits_and_holds_up_nobody",
        "server/test_owner_shares.py::test_each_honest_key_keeps_its_part_beside_one_with_ninety_nine_sessions") + ", `make hostile`"),
    Row(11, "latency 200 ms +- 100, resets, pieces of 7 bytes", "delays and cuts in the simulation; bytes in any "
        "pieces; records changed on their way, which are sent again", "P1", f"{SIMULATE}, " + tests(
        "protocol/test_curve.py::test_messages_come_out_whole_wherever_the_bytes_were_cut", "client/test_uploads.py::test_a_game_that_was_damaged_on_its_way_is_offered_again"), ("simulate",)),
    Row(12, "5 % each of messages lost and repeated", "100,000 fake games in the simulation, without kills", "P1 P2",
        f"`{FAULTS} games`", ("games",)),
    Row(13, "repeated and reordered uploads, another game under the same uid", "2 % of the simulation's games use the "
        "uid of another client's game", "P2 P3", SIMULATE, ("simulate",)),
    Row(14, "hostile bytes", "mutated inputs to each decoder, with limits on time and memory; raw ZMTP against a real "
        "server", "P3 P5", f"`{FAULTS} fuzz`, {tests('faults/test_fuzz.py::test_no_bytes_do_more_than_be_refused')}, `make hostile`", ("fuzz",)),
    Row(15, "oversized messages, credit overrun", "against a real server", "P5", tests(
        "host/test_door.py::test_an_unfinished_message_is_cut_off", "server/test_front_leaves.py::test_credits_are_exact")),
    Row(16, "dishonest games", "each kind of forged game; 5 % of the simulation's games have a wrong result", "P3",
        tests("trainer/test_verify.py::test_dishonest_games_are_refused") + f", {SIMULATE}", ("simulate",)),
    Row(17, "other versions", "older and newer protocols, unknown and missing fields", "P1 P2", tests("protocol/test_protocol_sessions.py::test_another_protocol_is_told_which_side_to_upgrade",
        "client/test_worker_ends.py::test_a_refused_protocol_version_ends_the_worker_with_the_servers_words", "protocol/test_protocol_messages.py::test_fields_of_a_newer_peer_are_ignored",
        "protocol/test_protocol_messages.py::test_fields_that_are_missing_take_their_default")),
    Row(18, "keys", "a wrong key, no key, a revoked key, a client's key used by a trainer, an unreadable list of keys", "P5", tests(
        "test_keys_end_to_end.py::test_clients_and_trainer_join_with_their_keys_until_one_is_revoked", "server/test_front_keys.py::test_a_key_joins_as_what_it_was_allowed_for_and_nothing_else", "server/test_front_keys.py::test_a_list_that_cannot_be_read_ends_no_session", "protocol/test_curve.py::test_what_was_changed_on_its_way_is_not_delivered")),
    Row(19, "clock jumps", "nothing that waits or gives up reads the wall clock", "P1 P2", tests("faults/test_simulation.py::test_only_dates_come_from_the_wall_clock")),
    Row(20, "1,000 clients at once, and again after a kill of azserver", "1,000 workers beside honest clients", "P5",
        "attack `thousand_workers` of `make hostile`, " + tests("server/test_shares.py::test_a_thousand_workers_get_a_share_each"), (),
        "from one address it takes longer, see below; instead of 24 hours of churn, `make soak MINUTES=120` runs two"),
    Row(21, "late announcements of weights", "an announcement that could not be sent to a player; the simulation's players fetch what a "
        "trainer publishes, with 5 % of all messages lost", "P6", tests("server/test_front_weights.py::test_a_player_that_could_not_be_told_of_new_weights_is_told_later") + f", {SIMULATE}", ("simulate",)),
    Row(22, "weights damaged in transit or on disk", "any losses; flipped bytes; kills of every process that sends, stores or fetches them", "P6", f"{SIMULATE}, " + tests(
        "host/test_weights_pull.py::test_any_losses_end_in_the_same_bytes", "host/test_weights_pull.py::test_damaged_bytes_are_thrown_away_and_fetched_again")),
    Row(23, "a process that hangs", "SIGSTOP of an evaluator until its connection is cut; SIGSTOP of azserver's front for 8 s", "P1 P2 P8", f"`{FAULTS} signals`, "
        + tests("server/test_stopped_evaluator.py::test_one_that_was_stopped_until_its_connection_was_cut_works_again", "faults/test_signals.py::test_each_fault_shows_in_a_metric_and_in_a_line_of_a_log")),
    Row(24, "a request that kills evaluators", "rows that end two evaluators are refused", "P4", tests(
        "batching/test_ring_client.py::test_rows_that_end_every_evaluator_are_refused_after_two_and_others_are_answered")),
    Row(25, "a store locked by another program, a large write-ahead log", "a foreign write lock; a slow reader; a log of 20 MB that is cut back", "P1 P8", f"`{FAULTS} signals`, " + tests(
        "store/test_store.py::test_a_foreign_write_lock_sends_games_back_until_it_ends", "store/test_store.py::test_the_log_of_the_store_begins_anew_beside_a_reader_that_takes_its_time",
        "store/test_store.py::test_the_log_of_the_store_is_cut_back_after_a_large_commit"), missing="a log of 5 GB"),
    Row(26, "out of memory", "kills of any part, as in rows 1 to 3: a process that the kernel ends for want of memory gets SIGKILL", "P1 P2 P5",
        f"{SIMULATE}, `{FAULTS} crash`, " + tests("test_loop.py::test_the_loop_goes_on_when_a_process_is_killed"), ("simulate", "crash")),
    Row(27, "clean stops", "SIGTERM to all, and to one part after the other under load", "P1 P2", tests(
        "test_loop.py::test_it_stops_cleanly_and_every_acknowledged_game_is_in_the_store", "test_rolling_restart.py::test_a_rolling_restart_under_load_loses_no_game_and_counts_none_twice"),
        missing="the time without evaluations is not measured"),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    figure: str
    command: str
    date: str


EVERYWHERE = ("soak", "signals")
"""Results without a row: the page has a sentence about `soak`, and a table for `signals`."""


def results() -> dict[str, Result]:
    """Return the results by name."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {name: Result(**entry) for name, entry in found.items()}


def note(name: str, result: Result) -> None:
    """Store a result, replacing the previous one."""
    all_results = {**results(), name: result}
    text = json.dumps({key: vars(one) for key, one in sorted(all_results.items())}, indent=1)
    RESULTS.write_text(text + "\n")


def table() -> str:
    """Return the rows as a table of the page, followed by the figures."""
    known = results()
    lines = ["| # | fault | what is done | promise | shown by | not done |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        figures = ", ".join(f"[{name}](#{name})" for name in row.measured if name in known)
        shown = "; figures: ".join(part for part in (row.shown, figures) if part)
        lines.append(f"| {row.number} | {row.fault} | {row.done} | {row.promise} | {shown} | {row.missing} |")
    lines.append("")
    for name, result in sorted(known.items()):
        lines += [f"### {name}", "", f"`{result.command}` ({result.date}): {result.figure}", ""]
    return "\n".join(lines)


def page_with(rows: str, signals: str) -> str:
    """Return the page with these rows instead of its present ones."""
    text = PAGE.read_text()
    for begin, end, new in ((BEGIN, END, rows), (BEGIN_SIGNALS, END_SIGNALS, f"{signals}\n")):
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{new}\n{end}{rest.split(end)[1]}"
    return text
