"""Chess from nothing: matches against simple opponents, won positions, and how the value follows material."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.nets import LoadedNet, load_net
from engine.search_choice import search_name
from evaluation.match.openings import Opening, random_openings
from evaluation.match.runner import PlayedGame
from evaluation.truth.measuring import play_settings
from experiments import contest
from experiments.measures import Judgement, Measure, share
from experiments.recipe import Recipe
from experiments.training import Trained
from games.chess import GAME
from games.chess.heuristic import material
from games.game_history import GameHistory
from games.spec import PLY_CAP
from runtime.runs import RunFolder
from search.evaluator import evaluate
from search.leaf_batch import LeafBatch
from search.tree import tree_for
from store.reader import Range, StoreReader
from store.rows import Stored

PAIRS, PAIRS_ON_THE_WAY = 50, 10
"""Openings of a match, each from both sides: at the end, and for networks before it."""
OPENING_PLIES = 4
MAX_PLIES = 300
"""Games of 150 moves of each side are drawn: a mate that takes longer is not reliable."""
CURVE_SEED, FINAL_SEED = 1, 2
"""Seeds of openings and positions. A run may be stopped because its curve is good: it is judged on others."""
TARGETS = {"random": 0.97, "greedy": 0.65}
OPPONENTS = (*TARGETS, "alphabeta:1", "alphabeta:2")
MATES_TARGET = 0.80
DECISIVE_TARGET = 0.40
CORRELATION_TARGET = 0.5
QUEEN_TARGET = 0.90
MATE = "checkmate"
SPANS = 10
QUEEN_UP = (
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
)
"""One side without its queen; four random moves make the positions differ."""
MATERIAL_GAMES, MATERIAL_EVERY = 40, 7
"""Games between a random and a greedy player, and plies between two positions taken from one."""


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Judge the last network, the untrained one and random moves in full, snapshots by short matches."""
    found = Judgement()
    how = recipe.in_matches, search_name(trained.search(recipe, GAME))
    first, last = trained.snapshots[0], trained.snapshots[-1]
    curve_positions, final_positions = material_positions(CURVE_SEED), material_positions(FINAL_SEED)
    for snapshot in trained.snapshots:
        tell(f"judging minute {snapshot.minute}")
        file = trained.path(snapshot)
        player = contest.net_player(file, *how)
        for opponent in TARGETS:
            found.add_point("score", f"against {opponent}", snapshot.minute, _short(player, opponent))
        what = "correlation of the raw value with material"
        found.add_point(what, "network", snapshot.minute, correlation(file, curve_positions))
        if snapshot in (first, last):
            name = ("trained" if snapshot is last else "untrained") + f", {how[0]} simulations, {how[1]}"
            target = CORRELATION_TARGET if snapshot is last else None
            r = correlation(file, final_positions)
            found.measures += _full(player, name, trained=snapshot is last)
            found.measures.append(Measure(what, name, r, len(final_positions), target=target, unit=""))
    tell("random moves")
    found.measures += _full("random", "random moves", trained=False)
    _add_self_play(found, spans(trained.folder))
    return found


def _full(player: str, name: str, *, trained: bool) -> list[Measure]:
    """Matches against all opponents, and the conversion of an extra queen."""
    measures = []
    openings = random_openings(GAME, PAIRS, OPENING_PLIES, seed=FINAL_SEED)
    for opponent in OPPONENTS:
        target = TARGETS.get(opponent)
        played = contest.play(GAME, player, opponent, openings, max_plies=MAX_PLIES)
        measures.append(contest.score(f"score against {opponent}", name, played, target if trained else None))
        mates = sum(one.outcome_for_a == 1 and one.reason == MATE for one in played)
        asked = MATES_TARGET if trained and opponent == "random" else None
        measures.append(
            share(f"games won by mate against {opponent}", name, mates, len(played), target=asked)
        )
    won, count = queen_up(player)
    asked = QUEEN_TARGET if trained else None
    measures.append(share("won with an extra queen against random", name, won, count, target=asked))
    return measures


def _short(player: str, opponent: str) -> float:
    """The score of a short match, for the curve."""
    openings = random_openings(GAME, PAIRS_ON_THE_WAY, OPENING_PLIES, seed=CURVE_SEED)
    return contest.score("", "", contest.play(GAME, player, opponent, openings, max_plies=MAX_PLIES)).value


def queen_up(player: str) -> tuple[int, int]:
    """(games won, games) of `player` with an extra queen against random moves."""
    rng = np.random.default_rng(11)
    openings: list[Opening] = []
    while len(openings) < PAIRS:
        game_history = GameHistory(GAME, QUEEN_UP[len(openings) % 2])
        while game_history.ply < OPENING_PLIES and game_history.end_reason() is None:
            game_history.play(int(rng.choice(game_history.legal_actions())))
        if game_history.end_reason() is None and abs(_lead(game_history)) >= LEAD:
            openings.append(
                Opening(f"queen {len(openings)}", game_history.start, tuple(game_history.actions))
            )
    played = contest.play(GAME, player, "random", openings, max_plies=MAX_PLIES)
    ahead = [one for one in played if _is_ahead(one)]
    return sum(one.outcome_for_a == 1 for one in ahead), len(ahead)


LEAD = 800
"""Centipawns: after the random moves the extra queen must still be there."""


def _lead(game_history: GameHistory) -> int:
    """Material of the first player less that of the second, centipawns."""
    value = int(material(game_history.state))
    return value if game_history.side_to_move == 0 else -value


def _is_ahead(game: PlayedGame) -> bool:
    """Whether player A had the queen."""
    return (game.start == QUEEN_UP[1]) != game.swapped


def material_positions(seed: int) -> list[GameHistory]:
    """Positions of games between a random and a greedy player, with all kinds of material balance."""
    openings = random_openings(GAME, MATERIAL_GAMES // 2, OPENING_PLIES, seed=seed)
    lines = []
    for game in contest.play(GAME, "random", "greedy", openings, seed=seed):
        for plies in range(8, len(game.actions), MATERIAL_EVERY):
            game_history = GameHistory(GAME, game.start)
            for action in game.actions[:plies]:
                game_history.play(action)
            lines.append(game_history)
    return lines


def correlation(file: Path, lines: Sequence[GameHistory]) -> float:
    """Pearson's r of the raw value with material, both for the side to move."""
    net = load_net(file)
    try:
        values = asyncio.run(_values(net, lines))
    finally:
        net.close()
    amounts = [float(material(game_history.state)) for game_history in lines]
    return float(np.corrcoef(values, amounts)[0, 1]) if np.std(values) > 0 else 0.0


async def _values(net: LoadedNet, lines: Sequence[GameHistory]) -> list[float]:
    settings = play_settings(net, 1)

    async def one(game_history: GameHistory) -> float:
        tree = tree_for(GAME, settings, np.random.default_rng(0))
        tree.reset(game_history.states[0])
        for action in game_history.actions:
            tree.advance(action)
        answer = await evaluate(net.evaluator, LeafBatch.of(tree.root_leaf()))
        return float(answer.values[0])

    return list(await asyncio.gather(*(one(game_history) for game_history in lines)))


@dataclass(frozen=True)
class Span:
    """A tenth of a run's self-play games."""

    minute: float
    """Minute at which its last game came."""
    games: int
    decisive: float
    """Share of games that were won."""
    mean_plies: float
    mates: float
    """Share of games that ended by checkmate."""
    capped: float
    """Share of games that ended by the ply cap."""


def spans(folder: RunFolder) -> list[Span]:
    """A run's games from the usual start in SPANS equal parts, oldest first; fewer if there are few games.

    Games from other starts, such as won endgames, are left out: they would raise the share of decisive games.
    """
    with closing(StoreReader(folder.games)) as reader:
        games = [stored for stored, record in reader.sound(GAME, Range()) if record.start == ""]
    size = max(1, -(-len(games) // SPANS))
    began = games[0].received_at if games else 0.0
    return [_span(games[first : first + size], began) for first in range(0, len(games), size)]


def _span(games: list[Stored], began: float) -> Span:
    count = len(games)
    return Span(
        minute=(games[-1].received_at - began) / 60,
        games=count,
        decisive=sum(game.outcome != 0 for game in games) / count,
        mean_plies=sum(game.plies for game in games) / count,
        mates=sum(game.reason == MATE for game in games) / count,
        capped=sum(game.reason == PLY_CAP for game in games) / count,
    )


def _add_self_play(found: Judgement, parts: Sequence[Span]) -> None:
    for part in parts:
        for label, value in (("decisive", part.decisive), ("mates", part.mates), (PLY_CAP, part.capped)):
            found.add_point("share of self-play games", label, part.minute, value)
        found.add_point("plies of a self-play game", "mean", part.minute, part.mean_plies)
    if parts:
        last = parts[-1]
        hits = round(last.decisive * last.games)
        what = "decisive games in the last tenth of self-play"
        found.measures.append(share(what, "self-play", hits, last.games, target=DECISIVE_TARGET))
        rising = sum(part.decisive for part in parts[-3:]) / len(parts[-3:])
        before = sum(part.decisive for part in parts[:-3]) / max(1, len(parts[:-3]))
        found.notes.append(
            f"decisive share: {before:.1%} before the last three tenths of self-play, {rising:.1%} in them"
        )
