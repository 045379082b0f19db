"""Games of a person against a network of a run, as many as memory allows; and the lists of networks.

Networks are loaded once, in a thread, however many games are played against them. Each game has a search tree
of its own. If there are too many games, the least recently used one is closed. Nothing is lost: the game's
page keeps the moves, and opens the game again with the next move.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from azselfplay.games.game_history import replay
from azselfplay.games.game_texts import display_moves, writers_of
from azselfplay.games.knowledge import RESULTS, WrittenMove, knowledge_of, sides_on_picture, spots_of_cells
from azselfplay.games.spec import State
from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder, modified
from azselfplay.lab.report.strength import ratings_of
from azselfplay.lab.web.games import ENDINGS, board, moves
from azselfplay.lab.web.guarding import PageError
from azselfplay.link.finding import newest_weights
from azselfplay.link.weights_files import SUFFIX, hash_in_name, read_header, short_hash, version_in
from azselfplay.play.driver import in_thread
from azselfplay.play.nets import LoadedNet, SharedNet, load_net, settings_for_search
from azselfplay.play.orders import Report, Request
from azselfplay.play.thinker import Thinker, Thinking
from azselfplay.play.uci_lines import wdl_per_mille
from net.weights import BadWeights, read_meta

MOST_GAMES = 8
"""Most concurrent games; each has a tree of HASH_MIB, so all of them have at most 512 MiB."""

HASH_MIB = 64
"""A node of Go takes 5 KB: this is room for 5,000 simulations and as many kept from the move before."""

LEAVES = 8
"""Number of positions evaluated together: few, because a person waits for a small search in one game."""

MOST_SIMULATIONS = 20_000

LINES = 10
"""Number of moves that are shown with their visits."""

MOST_LINE_MOVES = 12
"""Most moves shown of a line."""

IDLE_NETS = 2
"""Number of unused networks that stay loaded."""


def weights_of(run: RunFolder) -> list[str]:
    """Return the names of the run's networks: the one that the run plays with (a gate may have refused newer
    ones), then the others, newest first. Names in old runs have no version; for these the file's time counts.
    """
    files = (path for path in run.weights.glob(f"*{SUFFIX}") if path.is_file())
    newest_first = sorted(files, key=lambda path: (version_in(path), modified(path), path.name), reverse=True)
    names = [path.stem for path in newest_first]
    with suppress(Fatal):  # a run without current.json: the newest comes first
        current = newest_weights(run).stem
        names.sort(key=lambda name: name != current)
    return names


def networks_of(run: RunFolder) -> list[dict[str, Any]]:
    """Return the run's networks as `weights_of` orders them: `name`, training `step`, `at` (seconds since
    1970), and the `elo` of its best search by `azplay ladder`; None where that is unknown."""
    elo: dict[str, float] = {}
    for player, rating in ratings_of(run):
        digits = short_hash(player.sha256)
        elo[digits] = max(rating.elo, elo.get(digits, rating.elo))
    found = []
    for name in weights_of(run):
        file = run.weights / f"{name}{SUFFIX}"
        step = None
        with suppress(OSError):  # removed at this moment, or not to be read now
            step = _step(file)
        found.append({"name": name, "step": step, "at": modified(file), "elo": elo.get(hash_in_name(file))})
    return found


@lru_cache(10_000)
def _step(file: Path) -> int | None:
    """Return the training step in a weights file; the file never changes. Raises OSError."""
    with suppress(BadWeights):
        return read_meta(read_header(file)).step
    return None


def find_weights(run: RunFolder, name: str, *, goes_on: bool = False) -> Path:
    """Return the file of the network called `name`, for "" the one that the run plays with. Raises PageError
    if there is none. `goes_on`: a game is continued; if azserver has removed the game's network meanwhile,
    the one for "" plays on."""
    known = weights_of(run)
    if not known:
        away = run.kept_elsewhere("azserver")
        why = f"here: {away}" if away else "yet: a network comes as soon as azserver has started"
        raise PageError(f"Run {run.name} has no weights {why}.")
    if not name or (goes_on and name not in known):
        name = known[0]
    if name not in known:
        raise PageError(f"Run {run.name} has no weights called {name[:80]!r}; it plays with {known[0]}.")
    return run.weights / f"{name}{SUFFIX}"


class PersonGames:
    """Opens games, finds them again, and closes abandoned ones."""

    def __init__(self, threads: int) -> None:
        self.nets = Nets(threads)
        self._games: dict[str, PersonGame] = {}
        """Open games, the least recently used one first."""
        self._opening = asyncio.Lock()

    async def open(self, run: RunFolder, weights: Path, terms: Terms) -> PersonGame:
        """Open a new game. Loading the network takes seconds, compiling a game's kernels for the first time
        up to a minute, so games are opened one at a time. Raises PageError(503) if all places are taken by
        games that are searching, Fatal if the weights cannot be used, and ValueError if the moves of `terms`
        cannot be played."""

        def ready(net: LoadedNet) -> Thinker:
            thinker = Thinker(net, HASH_MIB, LEAVES, 0, settings_for_search("", net.game, weights))
            thinker.warm_up()
            return thinker

        async with self._opening:
            if len(self._games) >= MOST_GAMES:
                idle = next((game for game in self._games.values() if not game.lock.locked()), None)
                if idle is None:
                    text = f"The network is thinking about {MOST_GAMES} games at this moment. Try again soon."
                    raise PageError(text, HTTPStatus.SERVICE_UNAVAILABLE)
                self.leave(idle)
            net = await self.nets.take(weights)
            try:
                thinker = await in_thread(partial(ready, net))
                game = PersonGame(secrets.token_urlsafe(16), run.name, weights, thinker, terms)
            except BaseException:
                self.nets.give_back(weights)
                raise
            self._games[game.token] = game
            return game

    def find(self, token: str) -> PersonGame:
        """Return an open game. Raises PageError if there is none."""
        game = self._games.pop(token, None)
        if game is None:
            raise PageError("That game is no longer open. Start a new one.", HTTPStatus.GONE)
        self._games[token] = game  # moved to the end: used last
        return game

    def leave(self, game: PersonGame) -> None:
        """Close a game."""
        if self._games.pop(game.token, None) is not None:
            self.nets.give_back(game.weights)

    def close(self) -> None:
        """End all games."""
        self._games.clear()
        self.nets.close()


@dataclass(frozen=True)
class Terms:
    """The terms of a game, as the person has chosen them."""

    side: int = 0
    """The person's side; 0: the first player."""
    simulations: int = 100
    """Simulations of the network per move."""
    start: str = ""
    """Start position in the game's notation; "" is the usual start."""
    moves: tuple[str, ...] = ()
    """Moves from there to the position in which the game begins."""
    played: tuple[str, ...] = ()
    """Moves of the game so far, if it is opened again."""
    max_plies: int = 0
    """Cap on the length of the game, plies; 0: the game's own."""


class PersonGame:
    """A person's game, and the tree that searches it. Requests change it one at a time."""

    def __init__(self, token: str, run: str, weights: Path, thinker: Thinker, terms: Terms) -> None:
        self.token = token
        self.run = run
        self.weights = weights
        self.lock = asyncio.Lock()
        self.thinker = thinker
        self._game = thinker.game
        self._terms = terms
        moves = terms.moves + terms.played
        self._played = replay(self._game, terms.start, moves, terms.max_plies, draws_end=False)
        self._found: dict[str, Any] | None = None
        """The newest search result, for the position before the network's move or for the present
        position."""

    # ---- What a person does ---------------------------------------------------------------------

    def play(self, text: str) -> None:
        """Play the person's move, in the game's notation. Raises PageError(409) if it is not allowed now."""
        if self._played.end_reason() is not None:
            raise PageError("The game is over.", HTTPStatus.CONFLICT)
        if self._played.side_to_move != self._terms.side:
            raise PageError("It is the network's turn.", HTTPStatus.CONFLICT)
        try:
            self._played.play_text(text)
        except ValueError as error:
            raise PageError(f"That move cannot be played: {error}", HTTPStatus.CONFLICT) from error
        self._found = None

    async def reply(self) -> None:
        """Play the network's move, if it is its turn."""
        if self._played.end_reason() is None and self._played.side_to_move != self._terms.side:
            action = await self._search(is_hint=False)
            self._played.play(action)

    async def hint(self) -> None:
        """Search for the move that the network would play for the person."""
        if self._played.end_reason() is not None:
            raise PageError("The game is over.", HTTPStatus.CONFLICT)
        await self._search(is_hint=True)

    def take_back(self) -> None:
        """Return to the position before the person's last move."""
        first = len(self._terms.moves)
        # Sides need not alternate: in Dots and Boxes a player may move several times in a row.
        movers = [self._game.rules.side_to_move(state) for state in self._played.states[first:-1]]
        if self._terms.side not in movers:
            raise PageError("There is no move of yours to take back.", HTTPStatus.CONFLICT)
        self._played = self._played.up_to(first + len(movers) - 1 - movers[::-1].index(self._terms.side))
        self._found = None

    # ---- Searching ------------------------------------------------------------------------------

    async def _search(self, *, is_hint: bool) -> int:
        reports: list[Report] = []
        request = Request(
            start=self._played.start,
            actions=tuple(self._played.actions),
            began=asyncio.get_running_loop().time(),
            simulations=self._terms.simulations,
            lines=LINES,
            ownership=True,
            show_draw=True,
        )
        side, state = self._played.side_to_move, self._played.state.copy()
        before = self._played.actions[-1] if self._played.actions else None
        found = await self.thinker.think(Thinking(request), reports.append)
        action = found.action if found.moves else int(self._played.legal_actions()[0])
        report = reports[-1]
        total = max(1, sum(line.visits for line in report.lines))
        wdl = (0, 1000, 0)
        if report.lines:
            best = report.lines[0]
            wdl = wdl_per_mille(best.value, report.draw or 0.0, best.proof)
        firsts = [self._game.notation.action_from_text(state, line.moves[0]) for line in report.lines]
        # Not strict: there may be no ownership, or no area for a cell.
        owned = zip(spots_of_cells(self._game, state), found.ownership, strict=False)
        self._found = {
            "is_hint": is_hint,
            "side": side,
            "simulations": report.progress.simulations,
            "seconds": report.progress.seconds,
            # The page shows it for the first player, whichever side was to move.
            "wdl": list(wdl if side == 0 else reversed(wdl)),
            "owners": {spot: round(value if side == 0 else -value, 3) for spot, value in owned},
            "lines": [
                {
                    "moves": list(line.moves[:MOST_LINE_MOVES]),
                    "said": self._display_line(state, line.moves[:MOST_LINE_MOVES], before),
                    "visits": line.visits,
                    "share": line.visits / total,
                    "value": line.value,
                    "prior": line.prior,
                    "clicks": first["clicks"],
                }
                for line, first in zip(report.lines, moves(self._game, state, firsts), strict=True)
            ],
        }
        return action

    def _display_line(self, state: State, moves: Sequence[str], before: int | None) -> list[str]:
        positions, actions = [state], list[int]()
        for move in moves:
            actions.append(self._game.notation.action_from_text(positions[-1], move))
            positions.append(self._game.after(positions[-1], actions[-1]))
        return display_moves(self._game, np.array(positions), actions, before)

    # ---- What is shown --------------------------------------------------------------------------

    def view(self, *, turned: bool = False) -> dict[str, Any]:
        """Return everything that a page shows, with the board `turned` to the network's side or not.

        `wdl`: win, draw and loss of the first player, per mille. `said`: moves as people write them."""
        known = knowledge_of(self._game)
        played, words, clicks = self._played, known.words, known.clicks
        over = played.end_reason()
        mine = over is None and played.side_to_move == self._terms.side
        legal = played.legal_actions().tolist() if mine else []
        before = played.actions[-1] if played.actions else None
        return {
            "token": self.token,
            "weights": self.thinker.net.name,
            "sides": list(sides_on_picture(self._game)),
            "side": self._terms.side,
            "is_mine": mine,
            "board": self.board_at(played.ply, turned=turned),
            "legal": [
                {**move, "said": display_moves(self._game, played.states[-1:], [action], before)[0]}
                for move, action in zip(moves(self._game, played.state, legal), legal, strict=True)
            ],
            "moves": played.moves_text(),
            "said": display_moves(self._game, played.states, played.actions),
            "numbers": [words.number(state) for state in played.states[:-1]] if words.number else None,
            "movers": [int(self._game.rules.side_to_move(state)) for state in played.states[:-1]],
            "first": len(self._terms.moves),
            "over": over,
            "outcome": None if over is None else played.outcome(),
            "score": played.score(),
            "found": self._found,
            "can_turn": clicks is not None and clicks.svg_turned is not None,
            "forms": list(writers_of(self._game)),
        }

    def board_at(self, ply: int, *, turned: bool) -> dict[str, Any]:
        """Return the board after `ply` moves, as the person sees it, or `turned`. Raises PageError(404)."""
        if not 0 <= ply <= self._played.ply:
            text = f"The game has the positions 0 to {self._played.ply}, not {ply}."
            raise PageError(text, HTTPStatus.NOT_FOUND)
        texts = self._played.moves_text()
        return board(
            self._game,
            self._played.states[ply],
            texts[ply - 1] if ply else "",
            side=self._terms.side ^ turned,
            is_over=ply == self._played.ply and self._played.end_reason() is not None,
        )

    def file(self, form: str) -> dict[str, str]:
        """Return the `name` and the `text` of a file with the game so far, in one of the view's `forms`.
        Raises PageError(404)."""
        write = writers_of(self._game).get(form)
        if write is None:
            raise PageError(f"There is no format {form[:40]!r} for this game.", HTTPStatus.NOT_FOUND)
        over, today = self._played.end_reason(), datetime.now(UTC)
        players = ["a person", f"{self.run}, {self.thinker.net.name}"]
        tags = {
            "Event": f"azselfplay {self.run}",
            "Site": "?",
            "Date": today.strftime("%Y.%m.%d"),
            "Round": "?",
            "White": players[self._terms.side],
            "Black": players[1 - self._terms.side],
            "Result": "*" if over is None else RESULTS[self._played.outcome()],
            "Termination": over or "unterminated",
        }
        text = write(tags, self._played.start, [WrittenMove(one) for one in self._played.moves_text()], "")
        ending = ENDINGS.get(form, form.lower())
        return {"name": f"{self.run}-{today:%Y%m%d-%H%M}.{ending}", "text": text + "\n"}


class Nets:
    """Loads networks in a thread, one at a time, on the CPU."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._shared: dict[Path, SharedNet] = {}
        self._loading = asyncio.Lock()

    async def take(self, file: Path) -> LoadedNet:
        """Return the network in `file`, for use until `give_back`. Raises Fatal as `load_net` does."""
        # Load one network at a time, so that two games that begin together load their network only once.
        async with self._loading:
            found = self._shared.pop(file, None)
            if found is None:
                net = await in_thread(partial(load_net, file, threads=self._threads))
                found = SharedNet(net)
            self._shared[file] = found  # moved to the end: used last
            found.users += 1
            self._close_idle()
            return found.net

    def give_back(self, file: Path) -> None:
        self._shared[file].users -= 1
        self._close_idle()

    @asynccontextmanager
    async def using(self, file: Path) -> AsyncIterator[LoadedNet]:
        """The network in `file`, for the duration of a block."""
        net = await self.take(file)
        try:
            yield net
        finally:
            self.give_back(file)

    def _close_idle(self) -> None:
        idle = [file for file, shared in self._shared.items() if not shared.users]
        # The first entries were used longest ago.
        for file in idle[: max(0, len(idle) - IDLE_NETS)]:
            self._shared.pop(file).net.close()

    def close(self) -> None:
        for shared in self._shared.values():
            shared.net.close()
        self._shared.clear()
