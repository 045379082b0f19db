"""The codes that refusals carry, so that a program can act on them and a person can look them up.

They appear in GOODBYE (a session), in REFUSED (one request) and as the first word of a GAME_ACK's reason (a
game). The sentence that goes with a code is written at the place of the refusal, and says what to do next.
"""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why something was refused."""

    # ---- sessions (GOODBYE) ----
    PROTOCOL_TOO_OLD = "protocol_too_old"
    """The client speaks an older protocol than the server: upgrade the client."""
    PROTOCOL_TOO_NEW = "protocol_too_new"
    """The client speaks a newer protocol than the server: upgrade the server."""
    HELLO_REQUIRED = "hello_required"
    """The peer has no session: it never said HELLO, its lease ran out, or the server restarted. It may say
    HELLO at once."""
    ROLE_NOT_ALLOWED = "role_not_allowed"
    """This role may not use this port, or not send this message."""
    TRAINER_ALREADY_PRESENT = "trainer_already_present"
    """The server already has a trainer; it accepts only one."""
    KEY_REVOKED = "key_revoked"
    """The key that this session joined with is no longer allowed."""
    STOPPING = "stopping"
    """The server is shutting down."""

    # ---- requests (REFUSED) ----
    BUSY = "busy"
    """There is no capacity now; come back after `retry_after`."""
    OVER_CREDIT = "over_credit"
    """The session has more leaves in flight than WELCOME, or a later GRANT, allows."""
    BAD_MESSAGE = "bad_message"
    """Frame 0 is not a message that is allowed here."""
    BAD_FRAMES = "bad_frames"
    """The array frames do not fit the message."""
    POISON = "poison"
    """These rows crashed two evaluators, or twice got answers that are not probabilities; they are not tried
    again."""
    NO_EVALUATOR = "no_evaluator"
    """The server evaluates nothing: the run's network is part of the players' own search, or clients bring
    their evaluators. Also a GOODBYE on the port for leaves."""
    NO_TRAINER = "no_trainer"
    """No trainer accepts games at the moment; keep them."""
    TRAINER_BUSY = "trainer_busy"
    """The trainer accepts no more games at the moment; keep them."""
    NO_WEIGHTS = "no_weights"
    """The run has no weights yet."""
    UNKNOWN_WEIGHTS = "unknown_weights"
    """No file with this hash is kept (any more): ask for the current weights."""
    WEIGHTS_REFUSED = "weights_refused"
    """The offered weights are not accepted: wrong hash, game or shape, or a number that is not finite."""

    # ---- games (GAME_ACK, status `rejected`) ----
    BAD_RECORD = "bad_record"
    """The bytes are not a valid record."""
    BAD_HASH = "bad_hash"
    """The bytes do not match the message's sha256."""
    WRONG_GAME = "wrong_game"
    """The record is of another game than the run's."""
    WRONG_RUN = "wrong_run"
    """The game was played for another run, perhaps of the same name."""
    WRONG_SETTINGS = "wrong_settings"
    """The game was played under other settings than the run's."""
    BAD_START = "bad_start"
    """The start position cannot be read."""
    ILLEGAL_ACTION = "illegal_action"
    WRONG_OUTCOME = "wrong_outcome"
    WRONG_REASON = "wrong_reason"
    BAD_VISITS = "bad_visits"
    """Visits of illegal actions, or sums that are impossible under the settings."""
    BAD_VALUES = "bad_values"
    """Root values that are not finite or not in [-1, 1]."""
    TOO_LONG = "too_long"
    """More plies than the cap, or more bytes than a record may have."""
    PLAYED_ON = "played_on"
    """The game was over before its last action."""
    UNKNOWN_VERSION = "unknown_version"
    """A weights version that has not been published."""
    UNFINISHED = "unfinished"
    """The game is not over after the last action."""

    INTERNAL = "internal"
    """An internal error on the other side; its log has details."""
