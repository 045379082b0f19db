"""A front refuses a frame 0 that a peer may not send before it decodes it."""

from front_bench import Bench, beside_front
from raw_zmtp import wide_lists

from protocol.errors import Code
from protocol.messages import MAX_HEADER, Ping, Pong, Refused

STATUS = b"\x82\xa4type\xaetrainer_status\xa7figures"
"""A map of two entries that ends before the second one's value."""


@beside_front
async def test_a_header_of_the_longest_length_is_read_and_one_byte_more_is_refused(bench: Bench) -> None:
    peer = await bench.peer("leaves", "watcher")
    ping = b"\x82\xa4type\xa4ping\xa1x\xc5"
    for size in (MAX_HEADER, MAX_HEADER + 1):
        filler = size - len(ping) - 2
        assert peer.channel.send([ping + filler.to_bytes(2, "big") + bytes(filler)])
    await peer.receive(Pong)
    refused = (await peer.receive(Refused))[0]
    assert refused.reason == f"frame 0 has {MAX_HEADER + 1} bytes, expected at most {MAX_HEADER}"


@beside_front
async def test_a_role_is_looked_at_before_the_message_is_decoded(bench: Bench) -> None:
    """So only a trainer can make the front decode figures."""
    await bench.evaluator()
    worker = await bench.worker(1, "worker")
    client = await bench.peer("bulk", "client")
    assert client.channel.send([STATUS + wide_lists(60_000, 1, "a")])
    refused = (await client.receive(Refused))[0]
    assert (refused.code, refused.reason) == (Code.ROLE_NOT_ALLOWED, "a client may not send trainer_status")
    worker.send(Ping())
    await worker.receive(Pong)
