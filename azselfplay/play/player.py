"""The interface that every player of a match has, and the list of the kinds of players for `--help`.

A `Player` plays any number of games at once. For each game it returns a `Seat`; the match asks the seat for
one move after the other, and the seat answers with an action. This module needs no numpy, so that `--help`
can list the kinds of players quickly. `play.players` makes a player from its text; the players themselves are
in `play.builtin_players` (networks, solvers, blends), `play.kernel_players` and `play.rollouts` (searches
without a network), and `play.engine_player` (other programs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from azselfplay.games.game_history import GameHistory

KINDS = (
    "net:NETWORK@N   a run or a weights file, N simulations a move (default 800), the search that plays best",
    "net:NETWORK@N/S the same with another search S: puct, thompson, gumbel?gumbel_c_scale=0.1 ...",
    "policy:NETWORK  the network's policy alone: its first choice",
    "untrained@N     a tiny network with random weights, N simulations per move; or untrained@N/S",
    "random          any legal move",
    "greedy          wins at once, else takes material; in games without material, avoids losing at once",
    "alphabeta:N     N plies of alpha-beta with the game's heuristic",
    "rollouts:N      Monte-Carlo tree search with N random playouts per move",
    "solver          perfect play where the game is solved, a shallow search elsewhere",
    "tablebase       perfect play in endgames that have tables, from a file of such positions",
    "blend:SPEC:P    plays P % of its moves as player SPEC does, the others at random",
    "uci:COMMAND?nodes=1000&movetime=MS&depth=D&timeout=S&Skill Level=3    any UCI engine (chess, chess960)",
    "usi:COMMAND?...  the same for USI engines (shogi)",
    "gtp:COMMAND?movetime=MS&timeout=S&level=1    any GTP engine (Go); level 1 is sent as a command",
)
"""The kinds of players, for `--help`."""


class Player:
    """Plays any number of games at once."""

    name: str

    async def prepare(self) -> None:
        """Before the first game, start the parts that could fail, such as an engine. Raises Fatal(CONFIG) if
        the engine does not speak its protocol or refuses an option."""

    async def sit_down(self, seed: int) -> Seat:
        """Begin a game. All the player's random choices follow from `seed`."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the player's processes and threads, if it has any."""


class Seat:
    """A player in one game. Calls come one at a time."""

    async def be_ready(self, game_history: GameHistory) -> None:
        """Prepare for the first move in `game_history`, in time that does not count as the move's. Raises
        PlayerFailed."""

    async def choose(self, game_history: GameHistory) -> int:
        """Return the action to play in `game_history`, whose game is not over. Raises PlayerFailed or
        PlayerResigned."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release the resources of this game that do not belong to the player."""


class PlayerFailed(Exception):
    """The player cannot continue (its engine crashed, hung, or sent an invalid answer) and has lost the
    game."""


class PlayerResigned(Exception):
    """The player resigns and has lost the game."""
