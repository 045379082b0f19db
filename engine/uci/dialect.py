"""UCI, and the differences of its sibling USI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.orders import OptionTable, Spec
from search.selection import NAMES

SEARCHING = (
    Spec("WeightsFile", "weights", "string"),
    Spec("Backend", "backend", "combo", choices=("cpu", "cuda")),
    Spec("Threads", "threads", "spin", 0, 512),
)
"""Options that both protocols have under the same name."""
_LEAVES = Spec("MinibatchSize", "leaves", "spin", 0, 1024)
_SEARCH = Spec("Search", "search", "combo", choices=NAMES)
_TEMPERATURE = Spec("Temperature", "temperature", "spin", 0, 1000)


@dataclass(frozen=True)
class Dialect:
    """One protocol of the family."""

    name: str
    """The word that begins a dialogue: `uci`. `uciok` and `ucinewgame` follow from it."""
    position: str
    """The word for a position's notation: `fen`."""
    first: str
    """Letter of the first player's clock: `w` for White."""
    options: OptionTable
    counts: frozenset[str]
    """Words of `go` that are followed by a number, besides clocks."""
    no_move: str
    """The answer if there is no legal move."""
    null_move: str
    """The answer if nothing can be searched: no GUI takes it for a move, for resigning or for a claim."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """The answer at end reasons by which the side to move claims a win."""
    resignation: str = ""
    """The answer to resign; empty: not possible."""
    mate_in_plies: bool = False
    """Whether mates are counted in plies instead of moves."""
    solves_mates: bool = True
    """Whether `go mate` searches; if not, it is answered as not implemented."""


UCI = Dialect(
    name="uci",
    position="fen",
    first="w",
    options=OptionTable(
        (
            *SEARCHING,
            Spec("Hash", "hash_mib", "spin", 1, 262_144),
            _LEAVES,
            _SEARCH,
            Spec("MultiPV", "multi_pv", "spin", 1, 218),
            Spec("UCI_ShowWDL", "show_wdl", "check"),
            Spec("UCI_AnalyseMode", "analyse_mode", "check"),
            Spec("Ponder", "ponder", "check"),
            Spec("Move Overhead", "overhead_ms", "spin", 0, 10_000),
            _TEMPERATURE,
        )
    ),
    counts=frozenset({"movestogo", "depth", "nodes", "mate", "movetime"}),
    no_move="(none)",
    null_move="(none)",
)

USI = Dialect(
    name="usi",
    position="sfen",
    first="b",
    options=OptionTable(
        (
            *SEARCHING,
            Spec("USI_Hash", "hash_mib", "spin", 1, 262_144),
            _LEAVES,
            _SEARCH,
            Spec("MultiPV", "multi_pv", "spin", 1, 593),
            Spec("AnalyseMode", "analyse_mode", "check"),
            Spec("USI_Ponder", "ponder", "check"),
            Spec("MoveOverhead", "overhead_ms", "spin", 0, 10_000),
            Spec("ResignPercent", "resign_percent", "spin", 0, 50),
            _TEMPERATURE,
        )
    ),
    counts=frozenset({"depth", "nodes", "movetime", "byoyomi"}),
    no_move="resign",
    null_move="none",
    claims={"declaration": "win"},
    resignation="resign",
    mate_in_plies=True,
    solves_mates=False,
)
