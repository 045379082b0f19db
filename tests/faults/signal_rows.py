# ruff: noqa: E501 (rows of a table)
"""Which metric and which log line shows which fault: promise P8. `results/faults.md` is generated from it.

`signals.py` causes each fault in a running system.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signal:
    """How one fault is shown."""

    name: str
    """Name of the action: a function of `signals.py`."""
    fault: str
    """Description for people."""
    part: str
    """The part whose metric and log it is: server, trainer or client.main."""
    metric: str
    """The metric as written, with labels."""
    log: str
    """Words of the log line."""
    least: float | None = None
    """The metric is at least this; None: it rises."""
    most: float | None = None
    """The metric is at most this."""

    def is_shown(self, before: float, now: float) -> bool:
        """Return whether the metric, which was `before`, shows it."""
        if self.most is not None:
            return now <= self.most
        return now > before if self.least is None else now >= self.least

    def rule(self) -> str:
        """Return the rule for the page."""
        if self.most is not None:
            return f"`{self.metric}` is {self.most:g}"
        return (
            f"`{self.metric}` rises" if self.least is None else f"`{self.metric}` is {self.least:g} or more"
        )


PARTS = {"server": "azserver", "trainer": "trainer", "client.main": "azclient"}

SIGNALS = (
    Signal("foreign_key", "a peer with a key that is not allowed connects", "server",
           'az_handshakes_refused_total{port="leaves"}', "its key is not allowed"),
    Signal("unreadable_list", "the list of allowed keys is damaged", "server",
           "az_allowed_keys", "nobody new may join", most=0),
    Signal("revoked_key", "a key is revoked while its client is connected", "server",
           'az_client_disconnects_total{reason="ended"}', "not allowed here any more"),
    Signal("garbage", "a message that cannot be read", "server", "az_protocol_errors_total", "dropped a message of"),
    Signal("long_frame", "a frame over the size limit", "server",
           'az_connections_cut_total{port="leaves"}', "cut a connection of"),
    Signal("over_credit", "more requests than were granted", "server",
           "az_credit_violations_total", "more than the"),
    Signal("dishonest_game", "a game that breaks the rules", "trainer",
           'az_game_rejects_total{code="bad_record"}', "refused a game"),
    Signal("bad_weights", "weights with a NaN in them", "server", "az_weights_refused_total", "refuses weights"),
    Signal("evaluator_killed", "an evaluator is killed", "server", "az_gpu_worker_restarts_total", "evaluator-0 ended"),
    Signal("evaluator_stopped", "an evaluator hangs", "server",
           'az_evaluator_silent_seconds{evaluator="0"}', "has said nothing for", least=20),
    Signal("server_stopped", "azserver hangs", "server", "az_loop_lag_seconds", "stood still for", least=5),
    Signal("worker_killed", "a worker of azclient is killed", "client.main",
           "az_client_worker_restarts_total", "starting it again"),
    Signal("client_killed", "azclient is killed", "server",
           'az_client_disconnects_total{reason="hung_up"}', "has left the leaves port"),
    Signal("damaged_spool", "a finished game is damaged in the spool", "client.main",
           'az_spool_rejected_total{worker="0"}', "set aside in", least=1),
    Signal("locked_store", "another program holds a lock on the store", "trainer",
           'az_games_received_total{status="retry"}', "games are NOT being stored"),
    Signal("trainer_killed", "the trainer is killed", "server", "az_trainer_present", "has left the bulk port", most=0),
    Signal("damaged_store", "a stored game is damaged", "trainer", "az_damaged_games", "is damaged and left out",
           least=1),
    Signal("server_killed", "azserver is killed", "trainer", "az_trainer_connected", "has ended; dialling again", most=0),
)  # fmt: skip


def signal_table() -> str:
    """Return the table for the page."""
    lines = ["| fault | shown by | metric | words of the log line |", "|---|---|---|---|"]
    lines += [f"| {one.fault} | {PARTS[one.part]} | {one.rule()} | {one.log} |" for one in SIGNALS]
    return "\n".join(lines)
