"""The rated players and the games played for ratings, on disk.

The book is one JSON file. It grows by one pairing at a time, and the file on disk is always complete. Ratings
are computed from the games whenever the file is read. A ladder that is stopped, or extended, plays only the
missing games.

Rated players are networks of a run (`points_of` lists them) at some number of simulations, and anchors, which
never change. The anchors and their Elo are part of the game (`games.knowledge`). Their Elo was measured once
(`play.ladder.calibrate`, docs/measure_strength.md) and is fixed. A ladder's own few games would give
intervals, relative to `random`, that are hundreds of Elo wide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import read_struct
from azselfplay.host.runs import RunFolder, made_at, write_result
from azselfplay.link.weights_files import evenly_spread, hash_in_name, read_header, short_hash
from azselfplay.play.bradley_terry import Fit, Score, fit
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED

ZERO = "random"
"""The player whose rating is 0."""

UNMEASURED = (ZERO, "greedy")
"""Anchors of a game without measured anchors."""

FORMAT = 1


@dataclass(frozen=True)
class Point:
    """A weights file of a run."""

    path: Path
    version: int
    step: int
    games_before: int | None
    """Number of self-play games in which only older weights took part."""
    hours: float | None
    """Hours from the creation of the run to the file's last change; None: unknown."""
    sha256: str
    """Hash of the file in hexadecimal; maybe only the digits in the file's name (`link.weights_files`)."""


def points_of(run: RunFolder) -> list[Point]:
    """Return all complete weights files of a run, oldest version first. A file that is removed meanwhile is
    left out.

    Raises Fatal(BAD_DATA) when there is none.
    """
    from net.weights import BadWeights, read_meta

    about = run.describe()
    created = made_at(about)
    games: dict[int, int] | None = None
    if run.games.exists():
        # Counted once, not for each file: a run may have millions of games.
        sql = "SELECT version_max, count(*) FROM games WHERE source != ? GROUP BY version_max"
        rows = StoreReader(run.games).query(sql, IMPORTED)
        games = {int(version): int(count) for version, count in rows}
    found = []
    for path in run.weights.glob("*.safetensors"):
        try:
            # Read only the header: reading hundreds of whole networks would take minutes.
            meta = read_meta(read_header(path))
            changed = path.stat().st_mtime
        # The file may be removed or replaced at this moment.
        except (BadWeights, OSError):
            continue
        # This file was copied there by hand.
        if meta.game != about["game"]:
            continue
        before = None if games is None else sum(n for version, n in games.items() if version < meta.version)
        hours = None if created is None else max(0.0, (changed - created) / 3600)
        found.append(Point(path, meta.version, meta.step, before, hours, hash_in_name(path)))
    if not found:
        why = run.kept_elsewhere("azserver") or "wait until azserver has begun the run"
        raise Fatal(f"there are no weights in {run.weights}: {why}", Exit.BAD_DATA)
    return sorted(found, key=lambda point: (point.version, point.step))


def thinned(points: Sequence[Point], room: int, rated: Collection[str] = ()) -> list[Point]:
    """Return at most `room` (at least 2) points: the first, the newest, and an even spread of steps in
    between.

    `rated`: hashes of networks that already have games. They count as if their gap were twice as
    wide, so that a longer ladder extends the shorter one.
    """
    kept = evenly_spread(
        [point.step for point in points],
        max(room, 2),
        [2.0 if point.sha256 in rated else 1.0 for point in points],
    )
    return [points[index] for index in kept]


class Entrant(Struct, frozen=True, omit_defaults=True):
    """A rated player. Entrants with the same name are always the same player."""

    name: str
    label: str
    """Name for people."""
    simulations: int = 0
    """Simulations per move; 0 for players that do not count them."""
    step: int | None = None
    """Training steps of the weights; None for a player without a network."""
    version: int | None = None
    games_before: int | None = None
    """Self-play games finished by older weights; None where there is no games.db."""
    hours: float | None = None
    """Hours from the creation of the run to the publication of the weights, wall clock."""
    sha256: str = ""
    search: str = "puct"
    """Search of a network (`play.nets`)."""


@dataclass(frozen=True)
class Candidate:
    """A player that can play now."""

    entrant: Entrant
    spec: str
    """Spec for `play.players.make_player`."""
    file: Path | None = None
    """The player's weights file. The server may remove it at any time."""


class Gone(Exception):
    """A weights file was removed after the players were chosen: choose again."""


def network(point: Point, simulations: int, search: str = "puct") -> Candidate:
    """Return a network of a run that makes `simulations` of `search` per move (`play.nets.search_name`). The
    player's name is the same in every ladder of the run.
    """
    # PUCT with its defaults was the usual search, so names leave it out.
    how = f"@{simulations}" if search == "puct" else f"@{simulations}/{search}"
    entrant = Entrant(
        name=f"v{point.version}-{short_hash(point.sha256)}{how}",
        label=f"v{point.version} {how}",
        simulations=simulations,
        step=point.step,
        version=point.version,
        games_before=point.games_before,
        hours=None if point.hours is None else round(point.hours, 4),
        sha256=point.sha256,
        search=search,
    )
    return Candidate(entrant, f"net:{point.path}@{simulations}/{search}", point.path)


def anchor(spec: str) -> Candidate:
    """Return a candidate for an anchor, a player that never changes."""
    return Candidate(Entrant(name=spec, label=spec), spec)


def anchors_of(chosen: str, game: Game) -> list[str]:
    """Return player specs from a comma-separated list, or the game's own anchors if the list is empty. Raises
    Fatal(CONFIG) unless `random` comes first."""
    specs = [spec.strip() for spec in chosen.split(",") if spec.strip()]
    # Keep each spec once, in the given order: weak to strong.
    found = list(dict.fromkeys(specs or knowledge_of(game).anchors or UNMEASURED))
    if found[0] != ZERO:
        raise Fatal(f"--anchors must begin with {ZERO!r}, the zero of the scale", Exit.CONFIG)
    return found


def fixed_ratings(specs: list[str], game: Game) -> dict[str, float]:
    """Return the Elo of all measured players in `specs`; the others are rated together with the networks."""
    known = {ZERO: 0.0, **knowledge_of(game).anchors}
    return {spec: known[spec] for spec in specs if spec in known}


def names_of(candidates: Iterable[Candidate]) -> list[str]:
    return [candidate.entrant.name for candidate in candidates]


def networks_at(players: Iterable[Entrant], simulations: int, search: str = "puct") -> list[Entrant]:
    """Return all networks ever rated at `simulations` of `search` per move, in the order of training."""
    wanted = (simulations, search)
    chosen = [one for one in players if one.version is not None and (one.simulations, one.search) == wanted]
    return sorted(chosen, key=lambda player: (player.version or 0, player.step or 0, player.name))


def searches_of(players: Iterable[Entrant], sha256: str, search: str = "puct") -> list[Entrant]:
    """Return one network at each number of simulations at which it played with `search`, ascending."""
    wanted = short_hash(sha256), search
    chosen = [one for one in players if (short_hash(one.sha256), one.search) == wanted]
    return sorted(chosen, key=lambda one: one.simulations)


class Published(Struct, frozen=True):
    """A rating as it is stored in a book's file."""

    elo: float
    margin95: float
    games: int = 0


class Pairing(Struct):
    """All games between two players, counted for the player called `first`. Each opening is played from both
    sides."""

    first: str
    second: str
    wins: int = 0
    draws: int = 0
    losses: int = 0
    openings: int = 0
    """Openings used so far; the next games begin with the one after."""


class _File(Struct):
    game: str = ""
    players: list[Entrant] = []
    pairings: list[Pairing] = []
    ratings: dict[str, Published] = {}
    """Written for `published`; the book itself computes its ratings from the games."""
    settings: dict[str, Any] = {}
    format: int = FORMAT


def published(path: Path) -> list[tuple[Entrant, Published]]:
    """Return the rated players of a book's file with their ratings. Raises OSError, and ValueError if the
    file is damaged."""
    found = read_struct(path, _File)
    return [(one, found.ratings[one.name]) for one in found.players if one.name in found.ratings]


class Book:
    """Players and pairings of one file. Only `save` writes."""

    def __init__(self, path: Path, game: str, settings: Mapping[str, Any]) -> None:
        """`settings`: settings that all games of the file share (how openings are made).

        Raises Fatal(BAD_DATA) if the file cannot be read, or is for another game or other settings.
        """
        self.path = path
        self.game = game
        self.settings = dict(settings)
        self.players: dict[str, Entrant] = {}
        self._pairings: dict[tuple[str, str], Pairing] = {}
        if not path.exists():
            return
        again = "move it away to begin anew"
        try:
            found = read_struct(self.path, _File)
        except (OSError, ValueError) as error:
            raise Fatal(f"{self.path} cannot be read ({error}); {again}", Exit.BAD_DATA) from error
        if (found.format, found.game) != (FORMAT, self.game):
            what = f"format {found.format} and game {found.game}, not {FORMAT} and {self.game}"
            raise Fatal(f"{self.path} has {what}; {again}", Exit.BAD_DATA)
        if found.settings != self.settings:
            raise Fatal(
                f"{self.path} was played with {found.settings}, not {self.settings}: games of both do not "
                f"belong on one scale; {again}, or use the same settings",
                Exit.BAD_DATA,
            )
        self.players = {player.name: player for player in found.players}
        for pairing in found.pairings:
            self._pairings[_key(pairing.first, pairing.second)] = pairing

    def enter(self, entrants: Iterable[Entrant]) -> None:
        """Add players; existing ones stay unchanged."""
        for entrant in entrants:
            self.players.setdefault(entrant.name, entrant)

    def pairing(self, first: str, second: str) -> Pairing:
        """Return the games of two players so far, in any order of the names."""
        low, high = _key(first, second)
        return self._pairings.setdefault((low, high), Pairing(low, high))

    def add(self, score: Score, openings: int) -> None:
        """Add the games of `openings` new openings."""
        pairing = self.pairing(score.first, score.second)
        # A pairing is stored in one direction only, so swap the results if the score has the other one.
        same = pairing.first == score.first
        pairing.wins += score.wins if same else score.losses
        pairing.losses += score.losses if same else score.wins
        pairing.draws += score.draws
        pairing.openings += openings

    def scores(self) -> list[Score]:
        """Return the results of all pairings that have games, sorted by names."""
        found = [
            Score(p.first, p.second, p.wins, p.draws, p.losses) for _, p in sorted(self._pairings.items())
        ]
        return [score for score in found if score.games]

    def fit(self, anchors: Mapping[str, float]) -> Fit:
        """Return the ratings of all players that games connect to an anchor which this command names."""
        return fit(self.scores(), anchors)

    def save(self, anchors: Mapping[str, float]) -> None:
        """Write the file, with the present ratings. Raises Fatal(DISK)."""
        ratings = {
            name: Published(round(rating.elo, 1), round(rating.margin, 1), rating.games)
            for name, rating in self.fit(anchors).ratings.items()
        }
        # Pairings are sorted, so that the same games give the same file.
        pairings = [self._pairings[key] for key in sorted(self._pairings) if self._pairings[key].openings]
        file = _File(self.game, list(self.players.values()), pairings, ratings, self.settings)
        write_result(self.path, msgspec.json.format(msgspec.json.encode(file), indent=1))


def _key(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)
