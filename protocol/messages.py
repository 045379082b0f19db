"""Every message, as a typed struct. Frame 0 is one of these in MessagePack; arrays follow as raw frames.

`docs/protocol.md` describes the messages for people: who sends each message, its frames, and its guarantees.
Unknown fields are ignored and missing ones take their default, so a newer peer may add fields at the end.

A header is decoded only once it is known that its sender may send this type: `tag_of` reads the type, and
`outline` a few plain entries. Until then the work is bounded by construction: other entries, however deep or
wide, are skipped and not built (`msgspec.Raw`). A peer with another protocol version may send fields that we
do not know. Then only the outline of its HELLO can be read, and the version must be checked before anything
else.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar, Union

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

PROTOCOL_VERSION = 5

MAX_ROWS = 4096
"""Most leaves in one EVALUATE."""
CHUNK = 512 * 1024
"""Most bytes of weights in one message."""
MAX_RECORD = 4 * 1024 * 1024
"""Most bytes in one game record: 19x19 Go, 722 plies with 362 visited actions at each, needs 1 MB."""
MAX_FRAME = MAX_RECORD + 1024 * 1024
"""Most bytes in one frame to the server. A record slightly too long still fits, so that it gets an answer."""
MAX_START = 4096
"""Most characters in a start position, enough to write out any board of future games."""
MAX_HEADER = 64 * 1024
"""Most bytes in frame 0 to the server; a longer one is refused unread."""
MAX_HELLO = 4 * 1024
"""Most bytes in frame 0 from a peer without a session, which can only be HELLO: 2 kB with the longest
names."""
MAX_REQUEST = 2**63 - 1
LONGEST_WORD = 200
"""Most bytes of an entry that `outline` reads as text; every type and role is shorter."""
ROLES = ("worker", "client", "trainer", "watcher")

Name = Annotated[str, Meta(max_length=120)]
Text = Annotated[str, Meta(max_length=2000)]
Uid = Annotated[bytes, Meta(min_length=16, max_length=16)]
RunId = Annotated[bytes, Meta(max_length=16)]
Sha256 = Annotated[bytes, Meta(min_length=32, max_length=32)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Rows = Annotated[int, Meta(ge=0, le=MAX_ROWS)]
RequestId = Annotated[int, Meta(ge=0, le=MAX_REQUEST)]
Scalar = int | float | str | bool | None
Figure = Scalar | list[Scalar] | dict[str, Scalar]
"""A figure in the trainer's status. It nests no deeper than this, so its length bounds the work of reading
it."""
Seconds = Annotated[float, Meta(ge=0, le=1e6)]
Secret = Annotated[bytes, Meta(max_length=64)]


class Message(Struct, frozen=True, tag_field="type", omit_defaults=False):
    """Base of all messages; on the wire, the entry `type` names the class."""


# ---- Joining and leaving (leaves port and bulk port alike) -------------------------------------


class Hello(Message, frozen=True, tag="hello"):
    """First message of every connection. Answered by WELCOME or GOODBYE."""

    protocol: Annotated[int, Meta(ge=0, le=2**16)]
    role: Annotated[str, Meta(pattern=f"^({'|'.join(ROLES)})\\Z")]
    """`worker` is azserver's own process, `client` runs on another machine; both play games."""
    name: Name = ""
    """Host and process, for people to read."""
    software: Name = ""
    join: Count = 0
    """Grows each time the peer loses its session. It tells a resent HELLO from one for a new session."""
    secret: Secret = b""
    """Random bytes that a trainer draws once per process. By them the server recognises the trainer on
    another connection. They are neither logged nor told to anybody."""

    def __repr__(self) -> str:
        return f"Hello({self.protocol}, {self.role!r}, {self.name!r}, {self.software!r}, {self.join})"


class WeightsInfo(Message, frozen=True, tag="weights_info"):
    """Names weights. The server sends the current weights when they change, in WELCOME and on request. The
    trainer announces new ones, which the server then pulls. The server also tells the trainer which weights
    are the newest that it has."""

    version: Count
    """Grows by one with each publication; 0 is this run's untrained network."""
    step: Count
    sha256: Sha256
    size: Count
    game: Name
    architecture: Name = ""


class Welcome(Message, frozen=True, tag="welcome"):
    """The peer has joined. Contains everything a worker needs to know to play."""

    session: RequestId
    software: Name
    run: Name
    game: Name
    self_play: dict[str, Any]
    """`protocol.settings.SelfPlaySettings` as a map."""
    credits: Count
    """Leaves this session may have in flight."""
    games_in_flight: Count
    """Concurrent games the server would like one worker process to play."""
    heartbeat: Seconds
    """Seconds between two PINGs of a peer, whatever else it sends."""
    lease: Seconds
    """A session silent for this long is forgotten."""
    weights: WeightsInfo | None = None
    network: Name = ""
    """Preset of a network made from scratch (a trainer's default)."""
    trainer_present: bool = False
    gated: bool = False
    """Published weights play only after they have won against the best ones, so games may lag behind."""
    rings: Annotated[list[Text], Meta(max_length=1024)] = []
    """For azserver's own workers: the Unix sockets of its evaluators, by index (`azselfplay.batching`). Empty
    for others, whose leaves go over their connection."""
    run_id: RunId = b""
    """16 random bytes drawn when the run was created, so a later run of the same name has others. They go
    into the records of the games played for the run."""
    weights_url: Text = ""
    """Folder on a web server that also has the run's weights files; "": they come in chunks only."""


class Goodbye(Message, frozen=True, tag="goodbye"):
    """Refusal or end of a session; `code` is one of `protocol.errors.Code`."""

    code: Name
    reason: Text
    retry_after: Seconds = 0.0
    """Seconds; 0: do not repeat the same request."""


class Ping(Message, frozen=True, tag="ping"):
    """Keeps a session alive. Answered by PONG."""

    evaluations: Count = 0
    """Positions of the player's searches that were evaluated since this session began. The server uses this
    figure where it evaluates nothing itself."""


class Pong(Message, frozen=True, tag="pong"):
    """Shows that the server's event loop is alive."""

    version: Count = 0
    session: RequestId = 0
    """The session that the server has with this peer; a peer that believes in another one has to join again.
    0: not told."""


class Bye(Message, frozen=True, tag="bye"):
    """The peer leaves on purpose: its session ends now."""


# ---- Leaves: worker <-> front, leaves port ------------------------------------------------------


class Evaluate(Message, frozen=True, tag="evaluate"):
    """Leaves to evaluate. Frames: features u64[rows, words], counts u16[rows], actions u16[total]."""

    request: RequestId
    rows: Rows


class Evaluated(Message, frozen=True, tag="evaluated"):
    """Answer to rows `first .. first + rows` of a request; a request may be answered in parts.

    Frames: priors f16[sum of those rows' counts], wdl f32[rows, 3] (win, draw, loss, side to move).
    """

    request: RequestId
    first: Rows
    rows: Rows
    version: Count
    """Version of the weights that computed the answer."""


class Refused(Message, frozen=True, tag="refused"):
    """Says why a request is not answered. `retry_after` > 0: the same request may be sent again."""

    code: Name
    reason: Text
    request: RequestId = 0
    """The number of an EVALUATE, the offset of a GET_CHUNK, or the version of weights that a trainer has
    announced; 0 if there is none or it cannot be read."""
    retry_after: Seconds = 0.0


class Grant(Message, frozen=True, tag="grant"):
    """Changes the limits named in WELCOME because players joined or left. The new limits hold for what is
    sent from now on."""

    credits: Count
    games_in_flight: Count


# ---- Weights and figures: front <-> evaluator process, ipc only ---------------------------------


class EvaluatorReady(Message, frozen=True, tag="evaluator_ready"):
    """An evaluator process has started and wants weights, or has determined other sizes."""

    index: Count
    device: Name
    target_rows: Rows
    """Batch size at which the device is efficient: the evaluator aims at this many rows a batch."""
    max_rows: Rows
    pipeline: Annotated[int, Meta(ge=1, le=8)] = 2
    """Batches on the device at once (so that copying overlaps with computing), plus the one that is being
    gathered."""


class LoadWeights(Message, frozen=True, tag="load_weights"):
    """Swap to this file between two batches. Answered by WEIGHTS_LOADED or WEIGHTS_REFUSED."""

    version: Count
    sha256: Sha256
    path: Text


class WeightsLoaded(Message, frozen=True, tag="weights_loaded"):
    version: Count
    sha256: Sha256


class WeightsRefused(Message, frozen=True, tag="weights_refused"):
    """The evaluator rejects the file and keeps the old network."""

    version: Count
    reason: Text


class EvaluatorReport(Message, frozen=True, tag="evaluator_report"):
    """What an evaluator has done since its last report, about a second before."""

    rows: Count
    """Rows of all batches that were finished."""
    batches: list[Rows]
    """Rows of each batch that was begun."""
    waited: list[Seconds]
    """Mean time that the rows of each batch had waited."""
    busy: list[Seconds]
    """Time that the device spent on each batch that was finished."""
    queue_rows: Count = 0
    """Rows that wait now."""
    sent_rows: Count = 0
    """Rows on the device now."""
    redone_rows: Count = 0
    """Rows that were computed again, because an evaluator had died over them or their answer was wrong."""
    wrong_rows: Count = 0
    """Rows whose answer was not a probability."""
    bad_batches: Count = 0
    """Batches with such rows."""
    poisoned: Count = 0
    """Slots of which some rows were refused for good."""


# ---- Games: worker -> front -> trainer and back, bulk port --------------------------------------


class PutGame(Message, frozen=True, tag="put_game"):
    """A finished game. Frame: the record (`protocol.records`). Answered by GAME_ACK."""

    uid: Uid
    sha256: Sha256


class GameAck(Message, frozen=True, tag="game_ack"):
    """Reports the status of a game. Only `stored`, `duplicate`, `conflict` and `rejected` are final."""

    uid: Uid
    status: Annotated[str, Meta(pattern="^(stored|duplicate|conflict|rejected|retry)\\Z")]
    reason: Text = ""
    retry_after: Seconds = 0.0
    resign_value: Annotated[float, Meta(ge=-1, le=0)] | UnsetType = UNSET
    """Root value at or below which a side resigns; 0: never. Left out where nobody resigns, and in answers of
    the front itself, because only the trainer knows the value."""


class RelayGame(Message, frozen=True, tag="relay_game"):
    """PUT_GAME on its way to the trainer. Frame: the record."""

    peer: Annotated[bytes, Meta(max_length=255)]
    """Where the acknowledgement goes; opaque to the trainer. ZeroMQ's ids have up to 255 bytes."""
    uid: Uid
    sha256: Sha256
    source: Name
    """`workers` or `clients`."""
    key: Name = ""
    """Name of the key that the player has proved; "" where no keys are used."""


class RelayAck(Message, frozen=True, tag="relay_ack"):
    """Acknowledgements of one commit, each with the `peer` that it is for: as many as fit into
    `MAX_HEADER`."""

    acks: Annotated[list[tuple[bytes, GameAck]], Meta(max_length=1024)]


# ---- Weights: trainer -> front -> clients, bulk port --------------------------------------------


class Chunk(Message, frozen=True, tag="chunk"):
    """A piece of a weights file. Frame: the bytes, at most `CHUNK`."""

    sha256: Sha256
    offset: Count


class GetWeights(Message, frozen=True, tag="get_weights"):
    """Answered by WEIGHTS_INFO, or REFUSED when there are none yet."""


class GetChunk(Message, frozen=True, tag="get_chunk"):
    """From a player to the server, or from the server to the trainer. Answered by CHUNK, or REFUSED when that
    file is no longer kept."""

    sha256: Sha256
    offset: Count


# ---- Status: any session, leaves port or bulk port ----------------------------------------------


class GetStatus(Message, frozen=True, tag="get_status"):
    """Answered by STATUS."""


class Status(Message, frozen=True, tag="status"):
    """Figures for people and launchers; keys are listed in docs/protocol.md."""

    figures: dict[str, Any]


class TrainerStatus(Message, frozen=True, tag="trainer_status"):
    """The trainer's figures (games, positions, window, step, losses), shown by azserver."""

    figures: dict[str, Figure]


_encoder = msgspec.msgpack.Encoder()
_hello_decoder = msgspec.msgpack.Decoder(Hello)

_KINDS = tuple(Message.__subclasses__())
"""All messages: the classes above, in their order. A subclass that is defined elsewhere is not a message."""
TAGS: dict[str, type[Message]] = {str(kind.__struct_config__.tag): kind for kind in _KINDS}
"""All messages by their `type` on the wire."""
# msgspec refuses two messages with the same tag here, when this module is imported.
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Union[_KINDS])  # noqa: UP007

_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class BadMessage(ValueError):
    """The bytes are not a message of this protocol; the text says where they differ."""


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(header: bytes | memoryview) -> Message:
    """Return the message in frame 0. Raises BadMessage if it is not well formed."""
    try:
        return _decoder.decode(header)
    except _UNREADABLE as error:
        raise BadMessage(str(error)) from error


def decode_hello(header: bytes | memoryview) -> Hello:
    """Return the message in frame 0 like `decode`, where only a HELLO may come."""
    try:
        return _hello_decoder.decode(header)
    except _UNREADABLE as error:
        raise BadMessage(str(error)) from error


# ---- Before a header is decoded, or when it cannot be ---------------------------------------------

HELLO: str = Hello.__struct_config__.tag  # type: ignore[assignment]

_ABSENT = msgspec.Raw(b"\xc0")
_T = TypeVar("_T", int, str)


class Outline(NamedTuple):
    """The entries of a header that can be read before it is decoded."""

    type: str = ""
    """Empty if missing or not text; the same holds for `role`."""
    request: int = 0
    """The request's number; 0 if there is none or it cannot be read."""
    protocol: int | None = None
    role: str = ""


class _Entries(msgspec.Struct):
    type: msgspec.Raw = _ABSENT
    request: msgspec.Raw = _ABSENT
    protocol: msgspec.Raw = _ABSENT
    role: msgspec.Raw = _ABSENT


class _Tag(msgspec.Struct):
    type: str


_tag_decoder = msgspec.msgpack.Decoder(_Tag)
_entries_decoder = msgspec.msgpack.Decoder(_Entries)


def tag_of(header: bytes | memoryview) -> str | None:
    """Return the entry `type`, "" if it is missing or not text; None if the bytes are not a map with text
    keys."""
    try:
        return _tag_decoder.decode(header).type
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # The quick decoder needs a text as `type`; `outline` accepts anything.
        return None if (seen := outline(header)) is None else seen.type


def outline(header: bytes | memoryview) -> Outline | None:
    """Return what can be read of a map with text keys; None for other bytes, and for more than `MAX_HEADER`
    bytes."""
    if len(header) > MAX_HEADER:
        return None
    try:
        entries = _entries_decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    request = _scalar(entries.request, int)
    return Outline(
        _scalar(entries.type, str) or "",
        request if request is not None and 0 <= request <= MAX_REQUEST else 0,
        _scalar(entries.protocol, int),
        _scalar(entries.role, str) or "",
    )


def _scalar(raw: msgspec.Raw, kind: type[_T]) -> _T | None:
    """Return one number or text; None for anything else, which is recognised by its first byte."""
    # Check the length before decoding: an entry may be as long as the header.
    if len(bytes(raw)) > LONGEST_WORD:
        return None
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None
