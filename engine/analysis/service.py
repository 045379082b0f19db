"""`azplay analyse` as a stream: lines in, lines out, many positions at once through one batching evaluator.

A position keeps its place until the writer takes its answer. So when our output is read slowly, no place
becomes free, and we stop reading our input.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from engine.analysis.position import MAX_LINE, Analyst, Answer, BadRequest, Request, parse
from engine.lines import Input, Line, Output, OutputClosed
from runtime.aio import Stop
from search.evaluator import BadEvaluation

UNWRITTEN = 1024
"""Most answers that may wait for the writer."""
BATCHES_IN_FLIGHT = 3
"""Batches worth of positions: one is computed, one waits, one is being answered."""
MAX_SIMULATIONS_IN_FLIGHT = 1_500_000
"""Limit over all trees. It bounds memory: in chess about 0.7 kB a simulation, so 1 GB."""

_encoder = msgspec.json.Encoder()


def positions_in_flight(wanted: int, target_rows: int) -> int:
    """Return `wanted`; for 0, as many as keep batches of `target_rows` full."""
    return wanted or max(BATCHES_IN_FLIGHT * target_rows, 2)


class Room:
    """Bounds positions and their simulations in flight. A position alone always fits."""

    def __init__(self, positions: int, simulations: int = MAX_SIMULATIONS_IN_FLIGHT) -> None:
        self.positions = 0
        self._simulations = 0
        self._max_positions = positions
        self._max_simulations = simulations

    def fits(self, simulations: int) -> bool:
        if not self.positions:
            return True
        return (
            self.positions < self._max_positions and self._simulations + simulations <= self._max_simulations
        )

    def enter(self, simulations: int) -> None:
        self.positions += 1
        self._simulations += simulations

    def leave(self, simulations: int) -> None:
        self.positions -= 1
        self._simulations -= simulations


@dataclass
class Counts:
    """Lines answered so far."""

    answers: int = 0
    errors: int = 0


class Service:
    """Answers a stream of lines, `in_flight` positions at once; `simulations` is a line's default."""

    def __init__(self, analyst: Analyst, *, in_flight: int, simulations: int) -> None:
        self.counts = Counts()
        self._analyst = analyst
        self._simulations = simulations
        self._room = Room(in_flight)
        self._left = asyncio.Event()
        self._unwritten: asyncio.Queue[bytes | None] = asyncio.Queue(UNWRITTEN)

    async def run(self, source: int, sink: int, stop: Stop) -> None:
        """Answer the lines of `source` to `sink` (file descriptors) until `source` ends or `sink` is closed.

        `stop.finishing` ends the reading. Raises OSError when the output cannot be written.
        """
        lines = Input(source, MAX_LINE)
        try:
            async with asyncio.TaskGroup() as group:
                ender = group.create_task(_end(lines, stop))
                group.create_task(self._write(Output(sink)))
                async with asyncio.TaskGroup() as positions:
                    await self._take_all(lines, positions, stop)
                ender.cancel()
                await self._unwritten.put(None)
        except* OutputClosed:
            pass

    async def _take_all(self, lines: Input, positions: asyncio.TaskGroup, stop: Stop) -> None:
        while (together := await lines.lines()) is not None:
            for line in together:
                if stop.finishing.is_set():
                    return
                if line is None or line.strip():
                    await self._take(line, positions)

    async def _take(self, line: Line, positions: asyncio.TaskGroup) -> None:
        try:
            request = parse(line, self._simulations)
        except BadRequest as error:
            await self._refuse(error)
            return
        while not self._room.fits(request.simulations):
            self._left.clear()
            await self._left.wait()
        self._room.enter(request.simulations)
        positions.create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._analyst.answer(request)
            self.counts.answers += 1
            await self._unwritten.put(_line(answer))
        except BadRequest as error:
            await self._refuse(error)
        except BadEvaluation as error:
            await self._refuse(BadRequest(str(error), request.id))
        finally:
            self._room.leave(request.simulations)
            self._left.set()

    async def _refuse(self, error: BadRequest) -> None:
        self.counts.errors += 1
        await self._unwritten.put(_line({"id": error.request_id, "error": str(error)}))

    async def _write(self, output: Output) -> None:
        """Write the answers in the order in which they were finished, all that wait at once. None ends it."""
        waiting: list[bytes | None] = [b""]
        while waiting[-1] is not None:
            waiting = [await self._unwritten.get()]
            while not self._unwritten.empty():
                waiting.append(self._unwritten.get_nowait())
            await output.write(b"".join(line for line in waiting if line is not None))


def _line(answer: Answer) -> bytes:
    return _encoder.encode(answer) + b"\n"


async def _end(lines: Input, stop: Stop) -> None:
    await stop.finishing.wait()
    lines.end()
