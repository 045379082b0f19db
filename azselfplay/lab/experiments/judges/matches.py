"""Matches of a run's networks against fixed players and against each other. Also other measurements that
judges make with a player: its score, and its errors on positions of known truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from azselfplay.games import get_game
from azselfplay.games.game_history import replay
from azselfplay.games.knowledge import Row, knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.lab.experiments.measures import Judgement, Measure, share
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.lab.experiments.training import Snapshot, Trained
from azselfplay.play.elo import estimate, pair_counts
from azselfplay.play.nets import load_net, search_name, settings_for_search
from azselfplay.play.openings import Opening, longest_openings, usual_plies
from azselfplay.play.players import make_player
from azselfplay.play.runner import MatchSettings, PlayedGame, ms_a_move, play_match
from azselfplay.play.truth_errors import PlayerErrors, measure

CONCURRENT = 48
"""Concurrent games, which share the network's batches."""

PAIRS, PAIRS_ON_THE_WAY = 100, 10
"""Number of openings in a match, each played from both sides: at the end, and for earlier networks."""

CURVE_SEED, FINAL_SEED = 1, 2
"""Seeds of openings, for curves and ablations, and for the final judgement. A run may be stopped because its
curve looks good, and settings are chosen by ablations, so the final judgement uses other openings."""

ON_THE_CURVE = 2
"""Number of opponents on the curve: the first ones of the list."""


def add_scores(found: Judgement, game: Game, trained: Trained, recipe: Recipe) -> None:
    """Add short matches of all snapshots to the curve."""
    for snapshot in trained.snapshots:
        for opponent, score in scores(game, trained, recipe, snapshot).items():
            found.add_point("score", f"against {opponent}", snapshot.minute, score)


def scores(
    game: Game, trained: Trained, recipe: Recipe, snapshot: Snapshot, pairs: int = PAIRS_ON_THE_WAY
) -> dict[str, float]:
    """Return the score of a snapshot against each opponent of the curve, in a match of `pairs` openings."""
    player = player_of(trained, recipe, snapshot)
    openings = openings_of(recipe, game, pairs, CURVE_SEED)
    return {
        opponent: score("", "", play(game, player, opponent, openings)).value
        for opponent in opponents_of(recipe, game)[:ON_THE_CURVE]
    }


def opponents_of(recipe: Recipe, game: Game) -> tuple[str, ...]:
    """Return player specs, weak to strong."""
    return recipe.opponents or knowledge_of(game).matches.opponents


def check(recipe: Recipe) -> None:
    """Raise Fatal(CONFIG) if the game does not have the recipe's opening or search, or an opponent is not
    installed or cannot play the game. Call this before training."""
    game = get_game(recipe.game)
    settings_for_search(recipe.judge_search, game)
    openings_of(recipe, game, PAIRS_ON_THE_WAY, CURVE_SEED)

    async def main() -> None:
        for opponent in opponents_of(recipe, game):
            # Making the player is the check.
            await make_player(opponent, game).close()

    asyncio.run(main())


def add_matches(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Add matches of the last network, the untrained one and random moves against all opponents, and of the
    last network against earlier ones."""
    openings = openings_of(recipe, game, PAIRS, FINAL_SEED)
    for label, player in final_players(trained, recipe).items():
        for opponent in opponents_of(recipe, game):
            tell(f"{label} against {opponent}")
            played = play(game, player, opponent, openings)
            found.measures += measures_of(game, label, opponent, played, openings)
    first, last = trained.snapshots[0], trained.snapshots[-1]
    middle = trained.snapshots[len(trained.snapshots) // 2]
    earlier = {"the untrained network": first, f"the network of minute {middle.minute}": middle}
    # From one opening, two networks would play the same two games again and again.
    openings = longest_openings(game, PAIRS, opening_plies(game), FINAL_SEED)
    label, player = next(iter(final_players(trained, recipe).items()))
    for name, snapshot in earlier.items():
        if snapshot is not last:
            tell(f"trained against {name}")
            played = play(game, player, player_of(trained, recipe, snapshot), openings)
            found.measures.append(score(f"score against {name}", label, played))


def measures_of(
    game: Game, label: str, opponent: str, played: list[PlayedGame], openings: Sequence[Opening]
) -> list[Measure]:
    """Return the score; the games won by mate, if the game has mates; and the games won with each side, if
    all games began alike."""
    measures = [score(f"score against {opponent}", label, played)]
    # Count each different game once: a deterministic opponent may repeat the same game.
    different = {(one.swapped, one.start, one.actions): one for one in played}.values()
    mate = knowledge_of(game).matches.mate
    if mate:
        hits = sum(one.outcome_for_a == 1 and one.reason == mate for one in different)
        measures.append(share(f"games won by mate against {opponent}", label, hits, len(different)))
    # With different openings, the result of a side would depend on the openings.
    if len({one.id for one in openings}) == 1:
        for side, name in enumerate(("first", "second")):
            mine = [one.outcome_for_a for one in different if one.swapped is bool(side)]
            what = f"won as {name} player against {opponent}"
            measures.append(share(what, label, mine.count(1), len(mine)))
    return measures


def final_players(trained: Trained, recipe: Recipe) -> dict[str, str]:
    """Return the specs of the players that are judged at the end, by label, the last network first."""
    how = f"{recipe.in_matches} simulations, {search_name(trained.search(recipe, get_game(recipe.game)))}"
    return {
        f"trained, {how}": player_of(trained, recipe, trained.snapshots[-1]),
        f"untrained, {how}": player_of(trained, recipe, trained.snapshots[0]),
        "random moves": "random",
    }


def player_of(trained: Trained, recipe: Recipe, snapshot: Snapshot) -> str:
    """Return the spec of a snapshot under the search of matches."""
    search = search_name(trained.search(recipe, get_game(recipe.game)))
    return net_player(trained.path(snapshot), recipe.in_matches, search)


def openings_of(recipe: Recipe, game: Game, pairs: int, seed: int) -> list[Opening]:
    """Return the recipe's opening for each of `pairs` pairs of games, or else random openings, which differ
    between seeds (in a small game some are the same). Raises Fatal(CONFIG) for invalid moves."""
    if not recipe.opening:
        return longest_openings(game, pairs, opening_plies(game), seed)
    with as_fatal(ValueError, Exit.CONFIG, f"recipe {recipe.name}: opening: "):
        actions = tuple(replay(game, "", recipe.opening.split()).actions)
    return [Opening(recipe.opening, "", actions)] * pairs


def opening_plies(game: Game) -> int:
    """Return the number of random moves at the beginning of each game of a match."""
    return knowledge_of(game).matches.opening_plies or usual_plies(game)


def play(game: Game, player: str, opponent: str, openings: list[Opening]) -> list[PlayedGame]:
    """Play every opening twice, with colours swapped. A game is a draw after the game's `matches.max_plies`.
    Raises Fatal(INTERNAL) if a player failed, because a win against a crashed engine says nothing about the
    network."""
    most = knowledge_of(game).matches.max_plies
    played = play_openings(game, player, opponent, openings, max_plies=most)
    failed = [one for one in played if one.failed]
    if failed:
        raise Fatal(
            f"{failed[0].failed} failed in {len(failed)} of {len(played)} games ({failed[0].detail}), so "
            "they measure nothing; try it by hand, then judge again with --judge-only",
            Exit.INTERNAL,
        )
    return played


def net_player(file: Path, simulations: int, search: str) -> str:
    """Return the player spec of a network; 0 simulations: the raw policy."""
    return f"net:{file}@{simulations}/{search}" if simulations else f"policy:{file}"


def play_openings(
    game: Game, player: str, opponent: str, openings: Sequence[Opening], *, max_plies: int = 0, seed: int = 0
) -> list[PlayedGame]:
    """Play every opening twice, colours swapped. Player A is `player`.

    The games of the last opening are played one after the other, when everything is compiled, so they show
    how long the players take for a move.
    """

    async def main() -> list[PlayedGame]:
        first, second = make_player(player, game), make_player(opponent, game)
        try:
            settings = MatchSettings(CONCURRENT, max_plies, seed=seed)
            most = await play_match(game, first, second, openings[:-1], settings)
            # `play_match` derives seeds from the opening's number, which begins at 0 again: change the seed.
            settings = replace(settings, concurrent=1, seed=seed + len(openings) - 1)
            alone = await play_match(game, first, second, openings[-1:], settings)
            return most + alone
        finally:
            await first.close()
            await second.close()

    return asyncio.run(main())


def score(what: str, name: str, played: Sequence[PlayedGame]) -> Measure:
    """Return points per game (a draw is half a point), with the interval of paired games. Only different
    pairs narrow it: a deterministic opponent may repeat the same games."""
    pairs = zip(played[::2], played[1::2], strict=True)
    different = len({(one.start, one.actions, other.actions) for one, other in pairs})
    counts = pair_counts([one.outcome_for_a for one in played])
    found = estimate([count * different / sum(counts) for count in counts])
    # Measure the time in the last pair, which was played alone (`play_openings`).
    ms = ms_a_move(played[-2:])[0]
    return Measure(what, name, found.score, 2 * different, found.score_low, found.score_high, ms_a_move=ms)


def errors_of(
    trained: Trained,
    snapshot: Snapshot,
    recipe: Recipe,
    game: Game,
    rows: Sequence[Row],
    *,
    with_search: bool = True,
) -> list[PlayerErrors]:
    """Return the errors on `rows` of the raw policy, of the judging search if `with_search`
    (`recipe.judge_simulations`), and of random moves."""
    net = load_net(trained.path(snapshot))
    kinds = (0, recipe.judge_simulations) if with_search else (0,)
    found = asyncio.run(measure([net], rows, kinds, settings=trained.search(recipe, game)))
    net.close()
    return found
