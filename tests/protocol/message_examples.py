"""One example of every message, strategies for all other messages, and a writer of the golden files.

`python tests/protocol/message_examples.py` writes the golden files that are missing. Existing ones stay: they
are what earlier versions sent, and must be understood for as long as the protocol number is the same.
"""

import typing
from pathlib import Path

import msgspec.inspect as inspect
from hypothesis import strategies as st

from protocol import messages as m

GOLDEN = Path(__file__).resolve().parent / "golden"
CLASSES: tuple[type[m.Message], ...] = tuple(m.TAGS.values())

_UID, _SHA = bytes(range(16)), bytes(range(32))
_INFO = m.WeightsInfo(version=3, step=1000, sha256=_SHA, size=1234567, game="chess", architecture="small")
_ACK = m.GameAck(uid=_UID, status="rejected", reason="illegal_action: ply 12", retry_after=0.0)
_FIGURES = {
    "games": 12,
    "loss": 0.5,
    "sessions": {"workers": 2},
    "trainer": None,
    "reasons": ["mate", "ply_cap"],
}

EXAMPLES: tuple[m.Message, ...] = (
    m.Hello(protocol=1, role="client", name="host/1", software="azselfplay 0.1.0", join=2),
    m.Welcome(
        session=2**62, software="azselfplay 0.1.0", run="first", game="chess",
        self_play={"history": 8, "search": {"simulations": 800, "selection": "puct"}}, credits=4096,
        games_in_flight=512, heartbeat=5.0, lease=60.0, weights=_INFO, network="small", trainer_present=True,
    ),
    m.Goodbye(code="busy", reason="the server has 1000 sessions, its limit", retry_after=30.0),
    m.Ping(),
    m.Pong(version=3),
    m.Bye(),
    m.Evaluate(request=77, rows=128),
    m.Evaluated(request=77, first=64, rows=64, version=3),
    m.Refused(code="over_credit", reason="128 leaves, 12 of 4096 credits left", request=77, retry_after=0.5),
    m.Grant(credits=277, games_in_flight=21),
    m.EvaluatorReady(index=0, device="cuda:0", target_rows=512, max_rows=1024, pipeline=2),
    m.LoadWeights(version=3, sha256=_SHA, path="runs/first/weights/aa.safetensors"),
    m.WeightsLoaded(version=3, sha256=_SHA),
    m.WeightsRefused(version=3, reason="layer 2 holds a number that is not finite"),
    m.EvaluatorReport(
        rows=512, batches=[256, 128], waited=[0.001, 0.002], busy=[0.0125], queue_rows=30, sent_rows=128,
        redone_rows=4, wrong_rows=1, bad_batches=1, poisoned=1,
    ),
    m.PutGame(uid=_UID, sha256=_SHA),
    _ACK,
    m.RelayGame(peer=b"\0peer", uid=_UID, sha256=_SHA, source="clients", key="lab-3"),
    m.RelayAck(acks=[(b"\0peer", _ACK), (b"\1", m.GameAck(uid=_UID, status="stored"))]),
    m.Chunk(sha256=_SHA, offset=524288),
    m.GetWeights(),
    _INFO,
    m.GetChunk(sha256=_SHA, offset=0),
    m.GetStatus(),
    m.Status(figures=_FIGURES),
    m.TrainerStatus(figures=_FIGURES),
)  # fmt: skip

_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def strategy_of(info: inspect.Type) -> st.SearchStrategy[typing.Any]:
    """Return a strategy for the values that a field of this type may have, by its own limits."""
    match info:
        case inspect.IntType(ge=least, le=most):
            return st.integers(-(2**63) if least is None else least, 2**64 - 1 if most is None else most)
        case inspect.FloatType(ge=least, le=most):
            return st.floats(least, most, allow_nan=False)
        case inspect.StrType(pattern=str() as pattern):
            return st.from_regex(pattern)
        case inspect.StrType(max_length=longest):
            return st.text(st.characters(codec="utf-8"), max_size=min(longest or 40, 40))
        case inspect.BytesType(min_length=least, max_length=most):
            return st.binary(min_size=least or 0, max_size=40 if most is None else most)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.ListType(item_type=item):
            return st.lists(strategy_of(item), max_size=4)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(strategy_of, items))
        case inspect.DictType(key_type=key, value_type=value):
            values = _plain if isinstance(value, inspect.AnyType) else strategy_of(value)
            return st.dictionaries(strategy_of(key), values, max_size=4)
        case inspect.UnionType(types=types):
            return st.one_of(*map(strategy_of, types))
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: strategy_of(field.type) for field in fields})
    raise TypeError(f"no strategy for {info}")


def messages() -> st.SearchStrategy[m.Message]:
    """Return a strategy for any message."""
    return st.one_of(*(strategy_of(inspect.type_info(cls)) for cls in CLASSES))


def golden_path(message: m.Message) -> Path:
    return GOLDEN / f"{message.__struct_config__.tag}.msgpack"


def write_missing() -> None:
    from record_strategies import example_record

    from protocol.records import to_bytes

    contents = {golden_path(message): m.encode(message) for message in EXAMPLES}
    contents[GOLDEN / "record.msgpack"] = to_bytes(example_record())
    for path, data in contents.items():
        if not path.exists():
            path.write_bytes(data)
            print(f"wrote {path}")


if __name__ == "__main__":
    write_missing()
