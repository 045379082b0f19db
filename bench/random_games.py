"""Valid game records without a network: random play under the rules, with plausible visits.

These are for benchmarks and tests of code that receives games. Their network evaluations are uninformative:
equal priors, value 0. Visits obey the root visit rule, alternately with and without the subtree of the
previous move.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import NO_ROOT, PLY_CAP, Game, outcome_for_first_player
from azselfplay.store.sqlite import Entry
from protocol.records import POLICY_TARGET, GameRecord, to_bytes


def random_game(
    game: Game,
    rng: np.random.Generator,
    *,
    simulations: int = 100,
    max_plies: int = 0,
    start: str = "",
    targets: float = 1.0,
) -> GameRecord:
    """Return one game of random moves. `targets`: share of plies whose visits are a policy target."""
    cap = max_plies or game.max_plies
    positions = np.zeros((cap + 1, game.state_words), dtype=np.uint64)
    positions[0] = game.notation.state_from_text(start)
    legal = np.zeros(game.max_legal, dtype=np.uint16)
    visited: list[npt.NDArray[np.uint16]] = []
    visits: list[npt.NDArray[np.uint16]] = []
    kls: list[float] = []
    """By ply: the visited actions, their visits, and the KL in nats between these and equal priors for all
    legal actions."""
    actions: list[int] = []
    kept = 0
    while True:
        count = game.rules.legal_actions(positions, len(actions) + 1, legal)
        ended = game.rules.end_reason(positions, len(actions) + 1, count, NO_ROOT)
        if ended or len(actions) == cap:
            break
        total = simulations + (kept if len(actions) % 2 else 0)
        # The visits are spread unevenly over the legal actions; some actions get none.
        drawn = rng.multinomial(total, rng.dirichlet(np.full(count, 0.5)))
        order = np.argsort(legal[:count])
        order = order[drawn[order] > 0]
        shares = drawn[order] / total
        kls.append(max(0.0, float(shares @ np.log(shares * count))))
        visited.append(legal[order])
        visits.append(drawn[order].astype(np.uint16))
        action = int(rng.choice(visited[-1]))
        kept = int(drawn[legal[:count] == action][0]) - 1
        game.rules.play(positions[len(actions)], action, positions[len(actions) + 1])
        actions.append(action)
    reason, outcome = PLY_CAP, 0
    if ended:
        end = game.end_reasons[ended]
        mover = int(game.rules.side_to_move(positions[len(actions)]))
        reason, outcome = end.name, outcome_for_first_player(end.value, mover)
    return GameRecord(
        uid=rng.bytes(16),
        game=game.name,
        start=start,
        max_plies=cap,
        simulations=simulations,
        actions=np.array(actions, dtype=np.uint16),
        visited=np.array(list(map(len, visited)), dtype=np.uint16),
        visit_actions=np.concatenate(visited),
        visits=np.concatenate(visits),
        root_values=rng.uniform(-1, 1, len(actions)).astype(np.float32),
        flags=np.where(rng.random(len(actions)) < targets, POLICY_TARGET, 0).astype(np.uint8),
        versions=np.zeros(len(actions), dtype=np.uint32),
        outcome=outcome,
        reason=reason,
        prior_kl=np.array(kls, dtype=np.float16),
        prior_values=np.zeros(len(actions), dtype=np.float16),
    )


# ---- A game as the trainer stores it, for benchmarks and tests -----------------------------------


def entry(record: GameRecord, source: str = "workers") -> Entry:
    """Return the record as an entry of the store."""
    data = to_bytes(record)
    low, high = int(record.versions.min()), int(record.versions.max())
    digest = hashlib.sha256(data).digest()
    return Entry(record.uid, digest, source, record.plies, record.outcome, record.reason, low, high, data)
