"""/metrics, /livez and /readyz of one process, served by its own event loop.

Any answer shows that the event loop turns: that is liveness. Readiness is the process's own statement that it
can do its work now. Metrics are computed on request, at most once in `KEEP_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from runtime.monitor.http import HttpPort, Reply
from runtime.monitor.metric import EVERYWHERE, Metric
from runtime.version import version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Family

log = logging.getLogger(__name__)

KEEP_SECONDS = 1.0
"""Seconds for which every request gets the same metrics."""
BEAT_SECONDS = 1.0
STOOD_STILL = 5.0
"""Seconds of lag from which on a line is logged."""
BEATS = 60
"""The reported lag of the loop is the largest of this many beats."""
STARTING = "it is starting"


@dataclass(frozen=True)
class Watched:
    """What a process has to show, once it can. The functions are called in the event loop."""

    metrics: Sequence[Metric]
    figures: Callable[[], Mapping[str, Any]]
    not_ready: Callable[[], str]
    """Returns why the process cannot do its work now; "" when it can."""
    folder: Path | None = None
    """Folder on the disk whose free space is shown."""


class Monitor:
    """A context manager, to be entered in the event loop. With port 0 it serves nothing."""

    def __init__(self, listen: str, port: int) -> None:
        """Raises Fatal(CONFIG) if the port is unavailable."""
        self.watched = Watched((), dict, lambda: STARTING)
        """What is shown; replaced once there are figures."""
        self._port = HttpPort(listen, port, self._answer) if port else None
        self._registry: CollectorRegistry | None = None
        self._kept, self._kept_at = b"", float("-inf")
        self._lags: deque[float] = deque(maxlen=BEATS)
        self._beat: asyncio.TimerHandle | None = None

    def __enter__(self) -> Monitor:
        if self._port is not None:
            self._registry = self._new_registry()
            self._port.start()
        self._next_beat(asyncio.get_running_loop())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if self._port is not None:
            self._port.close()

    # ---- answers ----------------------------------------------------------------------------

    def _answer(self, path: str) -> Reply:
        if path == "/metrics":
            return self._metrics()
        if path == "/livez":
            return Reply.text(HTTPStatus.OK, "ok")
        if path == "/readyz":
            reason = self.watched.not_ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
            return Reply.text(status, reason or "ok")
        return Reply.text(HTTPStatus.NOT_FOUND, "there are /metrics, /livez and /readyz")

    def _metrics(self) -> Reply:
        from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        now = time.monotonic()
        if now - self._kept_at >= KEEP_SECONDS:
            assert self._registry is not None
            self._kept, self._kept_at = generate_latest(self._registry), now
        return Reply(HTTPStatus.OK, self._kept, CONTENT_TYPE_PLAIN_0_0_4)

    def _new_registry(self) -> CollectorRegistry:
        """Return a registry of this process alone: prometheus_client's own is shared by all users of the
        library."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry(auto_describe=False)
        registry.register(cast(Any, self))
        ProcessCollector(registry=registry)
        return registry

    def collect(self) -> Iterator[Family]:
        """Yield the metric families. The registry calls this when metrics are requested."""
        from runtime.monitor.exposition import families

        yield from families(EVERYWHERE, self._own_figures())
        yield from families(self.watched.metrics, self.watched.figures())

    def _own_figures(self) -> dict[str, Any]:
        return {
            "build": {version(): 1},
            "ready": not self.watched.not_ready(),
            "lag": max(self._lags, default=0.0),
            "free": _free(self.watched.folder),
        }

    # ---- the loop ---------------------------------------------------------------------------

    def _next_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + BEAT_SECONDS
        self._beat = loop.call_at(due, self._on_beat, loop, due)

    def _on_beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        lag = max(0.0, loop.time() - due)
        self._lags.append(lag)
        if lag >= STOOD_STILL:
            log.warning("this process stood still for %.0f s: it was stopped, or has no processor", lag)
        self._next_beat(loop)


def _free(folder: Path | None) -> int | None:
    """Return free bytes; None if unknown."""
    if folder is None:
        return None
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None
