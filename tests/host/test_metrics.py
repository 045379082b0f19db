"""/metrics, /livez and /readyz: what they answer, and that no request can hold the process up."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from free_ports import free_base_port
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from azselfplay.host import metrics
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.metrics import Metric, Monitor, Watched, families, histogram, respond

HERE = "127.0.0.1"


async def ask(port: int, request: bytes) -> bytes:
    """Return everything that comes back until the connection ends."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(HERE, port)
        writer.write(request)
        answer = b""
        try:
            while data := await reader.read(65_536):
                answer += data
        except ConnectionError:
            pass
        writer.close()
        return answer


async def get(port: int, path: str) -> tuple[int, str]:
    answer = await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@asynccontextmanager
async def beside(not_ready: Callable[[], str] = str) -> AsyncIterator[int]:
    """Give the port of a Monitor."""
    port = free_base_port()
    with Monitor(HERE, port) as monitor:
        monitor.watched = Watched((), dict, not_ready)
        yield port


def fine(path: str) -> metrics.Reply:
    return HTTPStatus.OK, path.encode() + b"\n", metrics.TEXT


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /x?y=1 HTTP/1.1", 200),
        (b"HEAD /x HTTP/1.0", 200),
        (b"POST /x HTTP/1.1", 405),
        (b"GET /x", 400),
        (b"\x16\x03\x01 \xff\xff\xff HTTP/1.1", 400),
        (b"GET /x SPDY/3", 400),
        (b"", 400),
    ],
)
def test_a_request_is_answered_by_its_first_line(request_line: bytes, status: int) -> None:
    head, _, body = respond(request_line + b"\r\nHost: x\r\n\r\n", fine).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert (body == b"") == request_line.startswith(b"HEAD")
    if status == HTTPStatus.OK and body:
        assert body == b"/x\n"


def test_figures_become_counters_gauges_and_histograms() -> None:
    ranges = histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        ranges.observe(value)
    table = (
        Metric("az_a_total", "deep.a", "Counts."),
        Metric("az_b_seconds", "b", "Lasts."),
        Metric("az_c", "c", "Labelled.", label="kind"),
        Metric("az_d", "d", "Ranges.", is_histogram=True),
        Metric("az_e", "missing", "Not there."),
    )
    figures = {"deep": {"a": 3}, "b": 0.25, "c": {"x": True, "y": None}, "d": ranges}

    class Source:
        def collect(self) -> object:
            return families(table, figures)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Source())  # type: ignore[arg-type]
    text = generate_latest(registry).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {(s.name, *s.labels.values()): s.value for family in found.values() for s in family.samples}
    assert samples == {
        ("az_a_total",): 3,
        ("az_b_seconds",): 0.25,
        ("az_c", "x"): 1,
        ("az_d_bucket", "1.0"): 2,
        ("az_d_bucket", "2.0"): 3,
        ("az_d_bucket", "+Inf"): 4,
        ("az_d_count",): 4,
        ("az_d_sum",): 12,
    }
    assert {name: family.type for name, family in found.items()}["az_a"] == "counter"
    assert "# TYPE az_e gauge" in text


async def test_a_process_is_alive_while_it_is_not_ready_and_its_figures_are_fresh() -> None:
    port = free_base_port()
    reason, games = ["no evaluator is up"], [7]
    with Monitor(HERE, port) as monitor:
        assert await get(port, "/readyz") == (503, "it is starting\n")
        table = (Metric("az_games", "games", "Games."),)
        monitor.watched = Watched(table, lambda: {"games": games[0]}, lambda: reason[0])
        assert await get(port, "/livez") == (200, "ok\n")
        assert await get(port, "/readyz") == (503, "no evaluator is up\n")
        status, text = await get(port, "/metrics")
        assert status == HTTPStatus.OK
        assert "\naz_games 7.0\n" in text
        assert "\naz_ready 0.0\n" in text
        assert 'az_build_info{version="' in text
        assert "process_resident_memory_bytes" in text
        reason[0] = ""
        assert await get(port, "/readyz") == (200, "ok\n")
        assert (await get(port, "/"))[0] == HTTPStatus.NOT_FOUND


async def test_metrics_are_made_once_however_often_they_are_asked_for(monkeypatch) -> None:
    monkeypatch.setattr("azselfplay.host.metrics.CACHE_SECONDS", 3600.0)
    made = []
    port = free_base_port()
    with Monitor(HERE, port) as monitor:
        monitor.watched = Watched((), lambda: made.append(1) or {}, lambda: "")  # type: ignore[func-returns-value]
        texts = {(await get(port, "/metrics"))[1] for _ in range(10)}
        assert len(texts) == 1
    assert len(made) == 1


def test_a_port_in_use_is_an_error_that_names_the_flag() -> None:
    with socket.socket() as other:
        other.bind((HERE, 0))
        other.listen()
        with pytest.raises(Fatal, match=r"--metrics-port") as caught:
            Monitor(HERE, other.getsockname()[1])
    assert caught.value.code == Exit.TRY_AGAIN


def test_a_process_that_stood_still_says_so_in_a_figure_and_a_line(caplog: pytest.LogCaptureFixture) -> None:
    monitor, now, beats = Monitor(HERE, 0), [0.0], []
    loop: Any = SimpleNamespace(time=lambda: now[0], call_at=lambda _due, beat: beats.append(beat))
    monitor._next_beat(loop)
    now[0] = metrics.BEAT_SECONDS + 8.0
    beats.pop()()
    (lag,) = (one for one in monitor.collect() if one.name == "az_loop_lag_seconds")
    assert lag.samples[0].value == 8.0
    assert "stood still for 8 s" in caplog.text


async def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "PATIENCE", 0.05)
    async with beside() as port:
        assert await ask(port, b"GET / HT") == b""


async def test_a_request_without_end_is_refused() -> None:
    async with beside() as port:
        assert (await ask(port, b"GET / HTTP/1.1\r\n" + b"a" * (2 * metrics.MOST_HEAD))).split()[1] == b"431"


@pytest.mark.parametrize("name", ["MOST_CONNECTIONS", "MOST_OF_ADDRESS"])
async def test_a_crowd_is_turned_away_and_who_comes_after_it_is_answered(name: str, monkeypatch) -> None:
    monkeypatch.setattr(metrics, name, 3)
    async with beside() as port:
        crowd = [await asyncio.open_connection(HERE, port) for _ in range(5)]
        async with asyncio.timeout(60):
            ends = [asyncio.create_task(reader.read()) for reader, _ in crowd]
            done, _ = await asyncio.wait(ends[3:])
            assert [task.result() for task in done] == [b"", b""]
            assert not any(task.done() for task in ends[:3])
            for _, writer in crowd:
                writer.close()
            answer = b""
            while not answer:  # until the loop has seen that they are gone
                answer = await ask(port, b"GET /livez HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        await asyncio.gather(*ends)


async def test_a_fault_of_ours_in_a_figure_ends_nothing() -> None:
    def faulty() -> str:
        raise KeyError("figure")

    async with beside(faulty) as port:
        for _ in range(2):
            assert (await get(port, "/readyz"))[0] == HTTPStatus.INTERNAL_SERVER_ERROR
        assert (await get(port, "/livez"))[0] == HTTPStatus.OK
