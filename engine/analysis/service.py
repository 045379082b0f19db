"""Lines in, lines out: many positions at once through one batching evaluator.

A position holds its place until its answer is handed to the writer, so nothing piles up: when the reader of
our output is slow, places stay taken, and we stop reading our input.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from engine.analysis.admission import Room
from engine.analysis.pipes import Input, Output, OutputClosed
from engine.analysis.position import Analyst, Answer
from engine.analysis.requests import MAX_LINE, BadRequest, Request, parse
from engine.analysis.splitting import Line
from runtime.aio import Stop
from search.evaluator import BadEvaluation

UNWRITTEN = 1024
"""Answers that may wait for the writer."""

_encoder = msgspec.json.Encoder()


@dataclass
class Counts:
    """What became of the lines."""

    answers: int = 0
    errors: int = 0


class Service:
    """Answers a stream of lines. `in_flight` positions at once, `simulations` where a line says nothing."""

    def __init__(self, analyst: Analyst, *, in_flight: int, simulations: int) -> None:
        self.counts = Counts()
        self._analyst = analyst
        self._simulations = simulations
        self._room = Room(in_flight)
        self._left = asyncio.Event()
        self._unwritten: asyncio.Queue[bytes | None] = asyncio.Queue(UNWRITTEN)

    async def run(self, source: int, sink: int, stop: Stop) -> None:
        """Until the end of `source` (a file descriptor) all is answered to `sink`, or nobody reads it.

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
        """Whatever waits is written at once, in the order in which it was finished. None comes last."""
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
