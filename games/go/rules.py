"""The variable rules of a game of Go, and the game's name that follows from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from games.names import SIZE, USUAL_SIZE

NAME = "go"
SMALLEST, LARGEST = 2, 19
MOST_KOMI = 400
SMALL, CAP_OF_SMALL = 3, 64

Superko = Literal["positional", "situational"]


@dataclass(frozen=True)
class GoRules:
    """Tromp-Taylor rules. Raises ValueError for invalid values."""

    size: int = LARGEST
    """Points per side, 2 to 19."""
    komi: float = 7.5
    """Points for White, who moves second; a multiple of a half, at most 400 and at least -400."""
    superko: Superko = "positional"
    """What may not recur: the stones, or the stones with the same side to move."""
    suicide: bool = True
    """Whether stones may be placed where they are removed at once (AlphaZero's paper does not say)."""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.size <= LARGEST:
            near = min(max(self.size, SMALLEST), LARGEST)
            raise ValueError(
                f"there is no Go board of {self.size} x {self.size}: sizes go from {SMALLEST} to {LARGEST}; "
                f"the nearest is {NAME}_{near}x{near}"
            )
        if not abs(self.komi) <= MOST_KOMI or 2 * self.komi != int(2 * self.komi):
            raise ValueError(
                f"a komi of {self.komi} points is impossible: it must be a multiple of 0.5, from "
                f"-{MOST_KOMI} to {MOST_KOMI}"
            )
        if self.superko not in get_args(Superko):
            raise ValueError(f"superko is {' or '.join(get_args(Superko))}, not {self.superko!r}")

    @property
    def name(self) -> str:
        """The game's name: unusual rules follow `go`, in a fixed order (`games.names.OPTIONS`)."""
        usual, size = GoRules(), f"{self.size}x{self.size}"
        parts = [
            size if size != USUAL_SIZE[NAME] else "",
            f"komi{self.komi + 0:g}" if self.komi != usual.komi else "",
            self.superko if self.superko != usual.superko else "",
            "nosuicide" if not self.suicide else "",
        ]
        return "_".join([NAME, *filter(None, parts)])

    @property
    def last_ply(self) -> int:
        """The ply at which a game ends: two moves for each point (19 x 19: 722, as in AlphaGo Zero). On the
        smallest boards best play takes longer than that, so a lower cap would change who wins."""
        return CAP_OF_SMALL if self.size <= SMALL else 2 * self.size * self.size


def rules_of_options(options: tuple[str, ...]) -> GoRules:
    """The rules given by the options in a name. Raises ValueError for invalid options."""
    size, komi, superko = LARGEST, GoRules().komi, GoRules().superko
    for option in options:
        if re.fullmatch(SIZE, option):
            rows, cols = map(int, option.split("x"))
            if rows != cols:
                raise ValueError(f"a Go board is square, not {option}; the nearest is {NAME}_{rows}x{rows}")
            size = rows
        elif option.startswith("komi"):
            komi = _komi_of(option.removeprefix("komi"))
        elif option == "situational":
            superko = "situational"
    return GoRules(size, komi, superko, "nosuicide" not in options)


def _komi_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a komi: write a number with halves, as in komi6.5") from None
