"""The service behind `azplay analyse`: lines of JSON in and out, many positions at once with one evaluator.

`parse` turns a line into a request, or refuses it with a sentence. An `Analyst` searches the position and
describes the result. `Service` handles many lines at once, so that the network's batches are full; answers
come in the order in which they are found. A position keeps its place until its answer is queued for the
writer. If our output is read slowly, the queue fills, no place becomes free, and we stop reading our input.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from azselfplay.games.game_history import GameHistory
from azselfplay.games.game_texts import after_moves
from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.names import nearest
from azselfplay.games.spec import LONGEST_MOVE, Game, State, outcome_for_first_player
from azselfplay.host.aio import Stop, unless_stopped
from azselfplay.play.driver import Input, InputLine, Output, in_thread
from azselfplay.play.syzygy import Tables
from azselfplay.search.evaluator import BadEvaluation, Evaluations, Evaluator, evaluate
from azselfplay.search.forest import Forest
from azselfplay.search.leaf_parallel import node_bytes
from azselfplay.search.mcts import choose_action, search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult
from azselfplay.search.settings import FOR_EVALUATION, resolve
from azselfplay.search.tree import SearchTree
from azselfplay.search.warm import warm
from protocol.frames import LeafBatch
from protocol.messages import MAX_START
from protocol.records import SHARES
from protocol.settings import MAX_SIMULATIONS, SelfPlaySettings, changed

UNWRITTEN = 1024
"""Most answers that may wait for the writer."""

BATCHES_IN_FLIGHT = 3
"""Positions in flight, in batches: one batch is computed, one waits, and one is being answered."""

MAX_TREE_BYTES = 1 << 30
"""Limit on the memory of all trees together. In chess it is enough for 1.5 million simulations."""

MOST_LINE_BYTES = 256 * 1024
"""Most bytes in a line."""

MAX_MOVES = 4096
"""Most moves before the position."""

MAX_FEN, MAX_ID = MAX_START, 200
"""Most characters in a start position and an id: error messages repeat them."""

MAX_INTEGER_ID = 2**63

FIELDS = ("id", "fen", "moves", "simulations")

DIGITS = 6
"""Decimals of numbers in an answer."""

Id = str | int

Answer = dict[str, Any]


@dataclass(frozen=True)
class AnalysisRequest:
    """A position: `fen` (empty: the usual start), then `moves`. 0 simulations: the network alone."""

    id: Id
    fen: str
    moves: tuple[str, ...]
    simulations: int


class BadRequest(ValueError):
    """A line is wrong; the text says why. `request_id` is None if the id could not be read."""

    def __init__(self, reason: str, request_id: Id | None = None) -> None:
        super().__init__(reason)
        self.request_id = request_id


class Service:
    """Answers a stream of lines, `in_flight` positions at once; `simulations` is a line's default."""

    def __init__(self, analyst: Analyst, *, in_flight: int, simulations: int) -> None:
        self.answers = 0
        self.errors = 0
        self._analyst = analyst
        self._simulations = simulations
        self._in_flight = InFlight(in_flight, max_simulations(analyst.game))
        # Set when a position leaves, to wake the reader that waits for a place.
        self._left = asyncio.Event()
        # Bounded: a slow reader of our output must slow us down, not fill the memory.
        self._unwritten: asyncio.Queue[bytes | None] = asyncio.Queue(UNWRITTEN)

    async def run(self, source: int, sink: int, stop: Stop) -> None:
        """Answer the lines of `source` to `sink` (file descriptors) until `source` ends or `sink` is closed.

        `stop.finishing` ends the reading. Raises OSError when the output cannot be written.
        """
        lines = Input(source, MOST_LINE_BYTES)
        try:
            async with asyncio.TaskGroup() as group:
                # The writer is in the outer group, because answers are written until the last position has
                # ended.
                group.create_task(self._write(Output(sink)))
                async with asyncio.TaskGroup() as positions:
                    # The input may be silent for hours, so a stop does not wait for the next line.
                    while (together := await unless_stopped(lines.lines(), stop)) is not None:
                        for line in together:
                            if not stop.finishing.is_set() and (line is None or line.strip()):
                                await self._accept(line, positions)
                # None comes after all answers and ends the writer.
                await self._unwritten.put(None)
        # The reader of our answers has closed the pipe, as `head` does: a clean end.
        except* BrokenPipeError:
            pass

    async def _accept(self, line: InputLine, positions: asyncio.TaskGroup) -> None:
        try:
            request = parse(line, self._simulations)
        except BadRequest as error:
            await self._refuse(error.request_id, error)
            return
        # No further line is read while we wait here, so the positions in flight bound the memory.
        while not self._in_flight.fits(request.simulations):
            self._left.clear()
            await self._left.wait()
        self._in_flight.enter(request.simulations)
        positions.create_task(self._answer(request))

    async def _answer(self, request: AnalysisRequest) -> None:
        try:
            answer = await self._analyst.answer(request)
            self.answers += 1
            await self._unwritten.put(_line(answer))
        except (BadRequest, BadEvaluation) as error:
            await self._refuse(request.id, error)
        finally:
            # The position leaves only after its answer was queued, so a slow reader keeps all places taken
            # and stops our reading.
            self._in_flight.leave(request.simulations)
            self._left.set()

    async def _refuse(self, request_id: Id | None, error: Exception) -> None:
        self.errors += 1
        await self._unwritten.put(_line({"id": request_id, "error": str(error)}))

    async def _write(self, output: Output) -> None:
        """Write the answers in the order in which they were finished. None ends it."""
        # All waiting answers are written with one call, because one system call per answer would slow down
        # fast networks.
        waiting: list[bytes | None] = [b""]
        while waiting[-1] is not None:
            waiting = [await self._unwritten.get()]
            while not self._unwritten.empty():
                waiting.append(self._unwritten.get_nowait())
            await output.write(b"".join(line for line in waiting if line is not None))


class InFlight:
    """Bounds the positions in flight and their simulations. A single position always fits."""

    def __init__(self, positions: int, simulations: int) -> None:
        self.positions = 0
        self._simulations = 0
        self._max_positions = positions
        self._max_simulations = simulations

    def fits(self, simulations: int) -> bool:
        # Otherwise a request above the limit would wait for ever.
        if not self.positions:
            return True
        has_room = self._simulations + simulations <= self._max_simulations
        return has_room and self.positions < self._max_positions

    def enter(self, simulations: int) -> None:
        self.positions += 1
        self._simulations += simulations

    def leave(self, simulations: int) -> None:
        self.positions -= 1
        self._simulations -= simulations


def max_simulations(game: Game) -> int:
    """Return the most simulations that all trees of a game may have together."""
    return MAX_TREE_BYTES // node_bytes(game)


def positions_in_flight(wanted: int, target_rows: int) -> int:
    """Return `wanted`; for 0, as many as keep batches of `target_rows` full."""
    return wanted or max(BATCHES_IN_FLIGHT * target_rows, 2)


def trees_in_flight(wanted: int, target_rows: int, game: Game, simulations: int) -> int:
    """Return `positions_in_flight`, but at most as many as have room for trees of so many `simulations`."""
    most = max(1, max_simulations(game) // max(1, simulations))
    return min(positions_in_flight(wanted, target_rows), most)


def parse(line: bytes | None, simulations: int) -> AnalysisRequest:
    """Return the request in `line` (None: a line that was too long). Raises BadRequest.

    `simulations` is for lines without a number of their own.
    """
    if line is None:
        raise BadRequest(f"the line is longer than {MOST_LINE_BYTES} bytes")
    try:
        fields = msgspec.json.decode(line)
    # Deeply nested brackets raise RecursionError.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"not a line of JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest('not a JSON object; a line looks like {"id": 1, "moves": []}')
    if "id" not in fields:
        raise BadRequest("no id; give each line a text or a whole number of its own")
    # The id is read first, so that all further errors can name it.
    request_id = fields["id"]
    if isinstance(request_id, str):
        is_id = len(request_id) <= MAX_ID
    else:
        is_id = type(request_id) is int and abs(request_id) < MAX_INTEGER_ID  # a bool is no id
    if not is_id:
        raise BadRequest(f"the id must be a text of at most {MAX_ID} characters or a whole number of 64 bits")
    # Otherwise a misspelt field would silently have its default.
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        meant = nearest(unknown[0], FIELDS)
        raise BadRequest(f"{unknown[0][:50]!r} is not a field; the nearest is {meant!r}", request_id)
    fen, moves = fields.get("fen", ""), fields.get("moves", [])
    if not isinstance(fen, str) or len(fen) > MAX_FEN:
        raise BadRequest(f"fen must be a text of at most {MAX_FEN} characters", request_id)
    if not isinstance(moves, list) or not all(isinstance(move, str) for move in moves):
        raise BadRequest('moves must be a list of texts, such as ["e2e4", "e7e5"]', request_id)
    if len(moves) > MAX_MOVES:
        raise BadRequest(f"{len(moves)} moves, at most {MAX_MOVES} are taken", request_id)
    for number, move in enumerate(moves, 1):
        if len(move) > LONGEST_MOVE:
            raise BadRequest(
                f"move {number} has {len(move)} characters, a move has at most {LONGEST_MOVE}", request_id
            )
    count = fields.get("simulations", simulations)
    # `type`, not isinstance, because True is an int for isinstance.
    if type(count) is not int or not 0 <= count <= MAX_SIMULATIONS:
        raise BadRequest(f"simulations must be a whole number from 0 to {MAX_SIMULATIONS}", request_id)
    return AnalysisRequest(request_id, fen, tuple(moves), count)


class Chosen(NamedTuple):
    """The choice of a search, or of the network alone."""

    best: int
    line: tuple[int, ...]
    """The expected actions, beginning with `best`."""
    visits: dict[int, int]
    """Visits of the searched actions; empty without a search."""
    value: float


class Analyst:
    """A game, a network behind its batching evaluator, and the settings of the search."""

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        history: int,
        settings: SelfPlaySettings = FOR_EVALUATION,
        tables: Tables | None = None,
    ) -> None:
        """`settings`: see `play.nets`. `tables`: endgame tables; the best move is the search's choice among
        the moves that the tables call best."""
        self.game = game
        self.evaluator = evaluator
        self.tables = tables
        # `simulations` and `max_plies` come from the request.
        self.settings = changed(settings, {"history": history})
        self.prepared_at = time.perf_counter()
        """When `prepare` returned; before, when this object was made."""

    def warm_up(self) -> None:
        """Compile the rules that `answer` calls. The first time takes up to a minute, so a server calls this
        in a thread."""
        game_history = self.game_history_of(AnalysisRequest(id="", fen="", moves=(), simulations=0))
        leaf = self._leaf(game_history)
        # This compiles the rules that `play` needs.
        game_history.play(int(leaf.actions[0]))

    async def prepare(self, simulations: int, stop: Stop) -> bool:
        """Compile or load the rules and, unless `simulations` is 0, the search, in a thread: a stop would
        have to wait if this happened on the event loop. (It does if a request asks for a search later.)
        Returns False if the stop has come."""

        def work() -> None:
            self.warm_up()
            if simulations:
                warm(self.game.name, self.settings.search.selection)

        await unless_stopped(in_thread(work), stop)
        self.prepared_at = time.perf_counter()
        return not stop.finishing.is_set()

    async def answer(self, request: AnalysisRequest) -> Answer:
        """Analyse a position. Raises BadRequest."""
        began = time.perf_counter()
        found = await self.analyse(self.game_history_of(request), request.simulations)
        if "finished" not in found:
            found["ms"] = round((time.perf_counter() - began) * 1000, 3)
        return {"id": request.id, **found}

    def game_history_of(self, request: AnalysisRequest) -> GameHistory:
        """Return the game up to the position asked for. Raises BadRequest naming what cannot be read, or the
        move that is not legal."""
        try:
            start = knowledge_of(self.game).read_start(request.fen)
            return after_moves(self.game, start, request.moves, draws_end=True)
        except ValueError as error:
            raise BadRequest(str(error), request.id) from error

    async def analyse(self, game_history: GameHistory, simulations: int) -> Answer:
        """Analyse the position at the end of `game_history`. Without simulations, the network alone answers
        and no tree is needed."""
        finished = game_history.end_reason()
        if finished is not None:
            outcome = game_history.outcome()
            # The same function also converts the outcome back to the view of the side to move.
            won = outcome_for_first_player(outcome, game_history.side_to_move)
            return {"finished": finished, "outcome": outcome, "value": won}
        leaf = self._leaf(game_history)
        evaluation = await evaluate(self.evaluator, leaf)
        priors = dict(zip(leaf.actions.tolist(), evaluation.priors.tolist(), strict=True))
        if simulations:
            chosen = await self._searched(game_history, evaluation, simulations)
        else:
            best = min(priors, key=lambda action: (-priors[action], action))
            chosen = Chosen(best, (best,), {}, float(evaluation.values[0]))
        chosen = self._by_tables(chosen, priors, game_history)
        return self._described(chosen, priors, evaluation, game_history.state)

    async def _searched(self, game_history: GameHistory, evaluation: Evaluations, simulations: int) -> Chosen:
        """Search the position. `evaluation`: that of its one row."""
        changes = {"search.simulations": simulations, "max_plies": game_history.max_plies}
        settings = resolve(changed(self.settings, changes), self.game)
        forest = Forest(self.game, settings, keeps_subtree=False)
        with SearchTree(forest, np.random.default_rng(0)) as tree:
            # Play from the start of the game, so that the search knows which positions would be repetitions.
            tree.reset(game_history.states[0])
            for action in game_history.actions:
                tree.advance(action)
            tree.expand_root(evaluation.priors, float(evaluation.values[0]))
            result = await search(tree, SearchPool(tree.forest, self.evaluator))
            # Without noise and temperature, no random numbers are used.
            best = choose_action(result, tree.ply, tree.settings, np.random.default_rng(0))
            # A move that wins at once is not searched, so the tree has no line for it.
            line = tuple(tree.principal_variation(best)) or (best,)
            return Chosen(best, line, _visits(tree, result), result.value)

    def _by_tables(self, chosen: Chosen, priors: Mapping[int, float], game_history: GameHistory) -> Chosen:
        """Return `chosen`, or another move if the endgame tables do not call this one best."""
        kept = self.tables.best(game_history) if self.tables else ()
        if not kept or chosen.best in kept:
            return chosen
        best = min(kept, key=lambda action: (-chosen.visits.get(action, 0), -priors[action], action))
        return chosen._replace(best=best, line=(best,))

    def _described(
        self, chosen: Chosen, priors: Mapping[int, float], evaluation: Evaluations, state: State
    ) -> Answer:
        """Return the answer about `state`, with moves as text."""
        to_text, visits = self.game.notation.action_to_text, chosen.visits
        text = {action: to_text(state, action) for action in priors}
        # A move's text depends on the position before it (captures, drops), so the line is played out.
        pv = []
        for action in chosen.line:
            pv.append(to_text(state, action))
            state = self.game.after(state, action)
        # Most likely first; ties by action number, so that answers do not depend on the machine.
        likely = sorted(priors, key=lambda a: (-priors[a], a))
        return {
            "best": text[chosen.best],
            "visits": {text[a]: visits[a] for a in sorted(visits, key=lambda a: (-visits[a], a))},
            "policy": {text[a]: round(priors[a], DIGITS) for a in likely},
            "value": round(chosen.value, DIGITS),
            "wdl": [round(probability, DIGITS) for probability in evaluation.wdl[0].tolist()],
            "pv": pv,
        }

    async def analyse_all(
        self, game_histories: Sequence[GameHistory], simulations: int, places: asyncio.Semaphore
    ) -> list[Answer]:
        """Analyse positions side by side, and return the answers in the order of the positions. `places`
        limits how many have a tree at the same time, because there may be thousands."""

        async def analysed(game_history: GameHistory) -> Answer:
            async with places:
                return await self.analyse(game_history, simulations)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(analysed(one)) for one in game_histories]
        return [task.result() for task in tasks]

    def _leaf(self, game_history: GameHistory) -> LeafBatch:
        """Return the position at the end of `game_history` as the network reads it: a batch of one row."""
        features = self.game.features(game_history.states, game_history.ply + 1, self.settings.history)
        return LeafBatch.of(features, game_history.legal_actions())


def _visits(tree: SearchTree, result: SearchResult) -> dict[int, int]:
    """Return the visits of the visited actions. A Gumbel search reports shares instead, and its visits are in
    its scores."""
    actions, visits = result.actions, result.visits
    if result.is_improved and result.scores is not None:
        actions, visits = result.scores.actions, result.scores.visits
    # Moves that win at once are not searched, and other selections may have no scores.
    elif result.is_improved:
        simulations = tree.settings.search.simulations
        # Rounding the sums, and not the parts, keeps the total.
        sums = -(-np.cumsum(visits, dtype=np.int64) * simulations // SHARES)
        visits = np.diff(sums, prepend=0).astype(np.int32)
    seen = visits > 0
    actions, visits = actions[seen], visits[seen]
    return dict(zip(actions.tolist(), visits.tolist(), strict=True))


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
