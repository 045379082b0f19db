"""How far searches at the roots of games differ from the network's own policy and value, in sums.

Only policy targets count. Unknown figures (foreign clients) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from protocol.records import POLICY_TARGET, SEARCH_DIFFERS, GameRecord


@dataclass
class RootSums:
    """Sums over the policy targets of some games."""

    targets: int = 0
    entropy: float = 0.0
    """Entropy of the visits, nats."""
    top_share: float = 0.0
    """Share of the visits that the most visited move has."""
    visited: int = 0
    """Moves with visits (or with a share of the improved policy)."""
    compared: int = 0
    """Targets whose distance from the network's priors is known."""
    kl: float = 0.0
    """KL(visits || priors), nats."""
    differs: int = 0
    """Targets whose most visited move did not have the largest prior."""
    valued: int = 0
    """Targets with a known value of the network."""
    value_shift: float = 0.0
    """|value of the search - value of the network|"""
    measured: int = 0
    """Targets with a known depth."""
    depth: float = 0.0
    """Mean depth of the simulations of a search, plies."""
    deepest: int = 0
    """Depth of the deepest simulation of all, plies (not a sum)."""

    def add(self, record: GameRecord) -> None:
        """Count one more game."""
        targets = np.flatnonzero(record.flags & POLICY_TARGET)
        self.targets += len(targets)
        self.entropy += float(entropies(record)[targets].sum())
        self.top_share += float(top_shares(record)[targets].sum())
        self.visited += int(record.visited[targets].sum(dtype=np.int64))
        kl = record.prior_kl[targets].astype(np.float64)
        compared = ~np.isnan(kl)
        self.compared += int(compared.sum())
        self.kl += float(kl[compared].sum())
        self.differs += int(np.count_nonzero(record.flags[targets][compared] & SEARCH_DIFFERS))
        shift = np.abs(record.root_values[targets] - record.prior_values[targets].astype(np.float64))
        self.valued += int((~np.isnan(shift)).sum())
        self.value_shift += float(np.nansum(shift))
        depth = record.mean_depths[targets].astype(np.float64)
        self.measured += int((~np.isnan(depth)).sum())
        self.depth += float(np.nansum(depth))
        self.deepest = max(self.deepest, int(record.max_depths[targets].max(initial=0)))

    @property
    def mean_kl(self) -> float | None:
        return self.kl / self.compared if self.compared else None

    @property
    def mean_visited(self) -> float | None:
        return self.visited / self.targets if self.targets else None

    def means(self) -> dict[str, float | None]:
        """Means by name; None where nothing is known."""

        def mean(total: float, count: int) -> float | None:
            return total / count if count else None

        return {
            "kl": self.mean_kl,
            "entropy": mean(self.entropy, self.targets),
            "top_share": mean(self.top_share, self.targets),
            "moves": self.mean_visited,
            "differs": mean(self.differs, self.compared),
            "value_shift": mean(self.value_shift, self.valued),
            "mean_depth": mean(self.depth, self.measured),
            "max_depth": float(self.deepest) if self.measured else None,
        }


def entropies(record: GameRecord) -> npt.NDArray[np.float64]:
    """[plies] entropy of the visits, nats; 0 without visits."""
    owner, shares = _shares(record)
    return np.bincount(owner, -shares * np.log(shares), record.plies).astype(np.float64)


def top_shares(record: GameRecord) -> npt.NDArray[np.float64]:
    """[plies] share of the visits that the most visited move has; 0 without visits."""
    owner, shares = _shares(record)
    largest = np.zeros(record.plies)
    np.maximum.at(largest, owner, shares)
    return largest


def _shares(record: GameRecord) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """(ply, share of the visits of that ply) of each visited move, both [visited moves]."""
    owner = np.repeat(np.arange(record.plies), record.visited)
    visits = record.visits.astype(np.float64)
    return owner, visits / np.bincount(owner, visits, record.plies)[owner]
