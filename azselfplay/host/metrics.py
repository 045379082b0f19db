"""Monitoring of a process over HTTP: /metrics, /livez and /readyz (docs/metrics.md).

A table of `Metric` names figures that the process counts anyway. prometheus_client formats them on request,
at most once in `CACHE_SECONDS`. The process's own event loop answers, with `asyncio.start_server`, so any
answer shows that the loop is running; a server in a thread would not show this. The connections, bytes and
seconds that a client can cost are bounded.

Names: prefix `az_`, base units (seconds, bytes), suffix `_total` for counters that only grow
(https://prometheus.io/docs/practices/naming/). No label has a value that a peer chose. prometheus_client is
imported only where it is needed: clients read the tables without it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from azselfplay.host.aio import Faults
from azselfplay.host.config import version
from azselfplay.host.exits import Fatal
from azselfplay.host.ports import listen, network_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Histogram
    from prometheus_client import Metric as Family

log = logging.getLogger(__name__)

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds of the buckets in a histogram of durations."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Upper bounds of the buckets in a histogram of batch sizes."""
CACHE_SECONDS = 1.0
"""Seconds for which the same metrics are returned to every request."""
BEAT_SECONDS = 1.0
LONG_LAG = 5.0
"""Seconds of event loop lag from which a warning is logged."""
BEATS = 60
"""The reported lag of the loop is the largest of this many beats."""
STARTING = "it is starting"
MOST_CONNECTIONS, MOST_OF_ADDRESS = 32, 8
"""Most connections at a time, in total and from one address; further connections are closed. So one address
cannot keep others out."""
MOST_HEAD = 8 * 1024
"""Most bytes in a request; a longer one is refused."""
PATIENCE = 5.0
"""Seconds from the connection to the last byte of the answer."""
TEXT = "text/plain; charset=utf-8"
Reply = tuple[HTTPStatus, bytes, str]
"""Status, body and content type of an answer."""


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    """A name that ends in `_total` is a counter, any other a gauge (or `is_histogram`)."""
    figure: str
    """Path of the figure, such as `sessions.trainer`. The metric has no sample while the figure is missing or
    None."""
    help: str
    label: str = ""
    """If set, the figure is a mapping: one sample for each key, with the key under this label."""
    is_histogram: bool = False
    """The figure is a `histogram()`, or a mapping to histograms."""


EVERYWHERE = (
    Metric("az_build_info", "build", "1, with the version of azselfplay.", label="version"),
    Metric("az_ready", "ready", "1 while this process can do its work (/readyz), else 0."),
    Metric("az_loop_lag_seconds", "lag", "Longest delay of the event loop within the last minute."),
    Metric("az_disk_free_bytes", "free", "Free bytes on the disk with this process's files."),
)
"""The metrics of every process."""


def histogram(bounds: Sequence[float] = SECONDS) -> Histogram:
    """Return a histogram outside prometheus_client's global registry. It is shown under the name of its
    `Metric`."""
    from prometheus_client import Histogram

    return Histogram("az", "see its Metric", registry=None, buckets=bounds)


class Rate:
    """Events a second over the last `seconds`, or since the first event if that is shorter. Begins with
    `total` events at the time `now`, on any one clock; `apart`: least seconds between two remembered
    totals."""

    def __init__(self, seconds: float, apart: float, total: float, now: float) -> None:
        self._seconds, self._apart = seconds, apart
        self._seen = deque([(now, total)])

    def note(self, total: float, now: float) -> None:
        """Note that there are `total` events now. Time before the first new one does not count."""
        if total == self._seen[-1][1] and len(self._seen) == 1:
            self._seen[0] = (now, total)
        if now - self._seen[-1][0] >= self._apart:
            self._seen.append((now, total))
        while len(self._seen) > 1 and now - self._seen[1][0] >= self._seconds:
            self._seen.popleft()

    def per_second(self, total: float, now: float) -> float:
        """Note the total, and return the rate."""
        self.note(total, now)
        since, before = self._seen[0]
        return (total - before) / max(now - since, 1.0)


def families(metrics: Sequence[Metric], figures: Mapping[str, Any]) -> Iterator[Family]:
    """Yield the metrics of a table with the values in `figures`."""
    from prometheus_client import Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for metric in metrics:
        found: Any = figures
        for name in metric.figure.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        labels = [metric.label] if metric.label else None
        by_key: Iterable[tuple[Any, Any]] = [("", found)]
        if metric.label and isinstance(found, Mapping):
            by_key = found.items()
        kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
        family: Any = (HistogramMetricFamily if metric.is_histogram else kind)(
            metric.name, metric.help, labels=labels
        )
        for key, value in by_key:
            words = [str(key)] if metric.label else []
            if isinstance(value, Histogram):
                samples = next(iter(value.collect())).samples
                buckets = [(one.labels["le"], one.value) for one in samples if one.name == "az_bucket"]
                family.add_metric(words, buckets, next(s.value for s in samples if s.name == "az_sum"))
            elif isinstance(value, bool | int | float):
                family.add_metric(words, value)
        yield family


@dataclass(frozen=True)
class Watched:
    """What a process shows once it has figures. The functions are called in the event loop."""

    metrics: Sequence[Metric]
    figures: Callable[[], Mapping[str, Any]]
    not_ready: Callable[[], str]
    """Returns why the process cannot do its work now; "" when it can."""
    folder: Path | None = None
    """Folder on the disk whose free space is shown."""


class Monitor:
    """Serves the metrics. A context manager, to be entered in the event loop. With port 0 it serves
    nothing."""

    def __init__(self, address: str, port: int) -> None:
        """Listen at once; requests are answered once the context is entered. Raises Fatal(TRY_AGAIN) if the
        port is in use, Fatal(CONFIG) if it is unavailable for another reason."""
        self.watched = Watched((), dict, lambda: STARTING)
        """What is shown; replaced once there are figures."""
        try:
            self._sockets = listen([f"tcp://{address}:{port}"]) if port else []
        except Fatal as fatal:
            why = fatal.__cause__ if isinstance(fatal.__cause__, OSError) else None
            raise Fatal(
                f"metrics cannot be served on {address}:{port}: {why.strerror if why else fatal}; "
                "stop what listens there, or give another --metrics-port or --metrics-listen",
                fatal.code,
            ) from fatal
        self._registry: CollectorRegistry | None = None
        self._starting: asyncio.Task[asyncio.Server] | None = None
        self._open: Counter[str] = Counter()
        """Connections by address."""
        self._faults = Faults(log)
        self._text, self._answered_at = b"", float("-inf")
        self._lags: deque[float] = deque(maxlen=BEATS)
        self._beat: asyncio.TimerHandle | None = None

    def __enter__(self) -> Monitor:
        loop = asyncio.get_running_loop()
        if self._sockets:
            from prometheus_client import CollectorRegistry, ProcessCollector

            # A registry of our own: all users of the library in this process share prometheus_client's
            # default registry.
            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(cast(Any, self))
            ProcessCollector(registry=self._registry)
            serving = asyncio.start_server(self._serve_one, sock=self._sockets[0], limit=MOST_HEAD)
            self._starting = loop.create_task(serving)
        self._next_beat(loop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if self._starting is not None and not self._starting.cancel():
            self._starting.result().close()
        for sock in self._sockets:
            sock.close()

    # ---- connections ------------------------------------------------------------------------

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        peer = writer.get_extra_info("peername")
        address = network_of(peer[0]) if peer else ""
        transport = writer.transport
        if self._open.total() >= MOST_CONNECTIONS or self._open[address] >= MOST_OF_ADDRESS:
            transport.abort()
            return
        self._open[address] += 1
        transport.set_write_buffer_limits(0)  # `drain` then waits until the kernel has all bytes
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(await self._response(reader))
                await writer.drain()
            writer.close()
        # A client that asks too slowly or hangs up gets no answer, and this is not worth a log line.
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if not transport.is_closing():
                transport.abort()
            self._open[address] -= 1
            self._open += Counter()  # forgets addresses without a connection

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _written(
                _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {MOST_HEAD} bytes are read")
            )
        try:
            return respond(head, self._answer)
        except Exception as error:  # a bug in an answer must not end the process that is being watched
            self._faults.note("metrics", error)
            return _written(_text(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault in azselfplay, see its log"))

    # ---- answers ----------------------------------------------------------------------------

    def _answer(self, path: str) -> Reply:
        if path == "/metrics":
            from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

            # The answer is kept for a moment, so that a hundred requests a second cost no more than one.
            now = time.monotonic()
            if now - self._answered_at >= CACHE_SECONDS:
                assert self._registry is not None
                self._text, self._answered_at = generate_latest(self._registry), now
            return HTTPStatus.OK, self._text, CONTENT_TYPE_PLAIN_0_0_4
        if path == "/livez":
            return _text(HTTPStatus.OK, "ok")
        if path == "/readyz":
            reason = self.watched.not_ready()
            return _text(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, reason or "ok")
        return _text(HTTPStatus.NOT_FOUND, "there are /metrics, /livez and /readyz")

    def collect(self) -> Iterator[Family]:
        """Yield the metric families. The registry calls this when metrics are requested."""
        own: dict[str, Any] = {
            "build": {version(): 1},
            "ready": not self.watched.not_ready(),
            "lag": max(self._lags, default=0.0),
        }
        if folder := self.watched.folder:
            # A spool may not exist yet; its nearest existing parent is on the same disk.
            there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
            with suppress(OSError):
                own["free"] = shutil.disk_usage(there).free
        yield from families(EVERYWHERE, own)
        yield from families(self.watched.metrics, self.watched.figures())

    # ---- the loop ---------------------------------------------------------------------------

    def _next_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + BEAT_SECONDS

        def on_beat() -> None:
            # The delay of this callback is the time for which other work kept the loop busy.
            lag = max(0.0, loop.time() - due)
            self._lags.append(lag)
            if lag >= LONG_LAG:
                log.warning("this process stood still for %.0f s: it was stopped, or has no processor", lag)
            self._next_beat(loop)

        self._beat = loop.call_at(due, on_beat)


def respond(head: bytes, answer: Callable[[str], Reply]) -> bytes:
    """Return all bytes of the response to a request, read up to its empty line. Pure if `answer` is."""
    # Only the first line matters; headers are not read.
    words = head.split(b"\n", 1)[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].isascii():
        return _written(_text(HTTPStatus.BAD_REQUEST, "this is no HTTP/1 request"))
    if words[0] not in (b"GET", b"HEAD"):
        return _written(_text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered"))
    return _written(answer(words[1].decode().partition("?")[0]), with_body=words[0] == b"GET")


def _text(status: HTTPStatus, text: str) -> Reply:
    return status, text.encode() + b"\n", TEXT


def _written(reply: Reply, *, with_body: bool = True) -> bytes:
    status, body, content_type = reply
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
