"""Networks loaded behind a batching evaluator in this process, and the search that they use.

All searches of the process share the evaluator's batches. A sparse network on the CPU is computed without
torch, inside the search. A network plays differently under another search, and its rating differs. So
commands accept the name of a search (`gumbel?gumbel_c_scale=0.1`); by default they use FOR_PLAY, whatever
search self-play uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.names import DEFAULT_GAME, nearest, parts_of
from azselfplay.games.spec import Game
from azselfplay.host.config import flattened, nested
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import read_toml
from azselfplay.link.weights_files import read_weights
from azselfplay.search.evaluator import Evaluations, LocalEvaluator
from azselfplay.search.settings import FIELDS, FOR_EVALUATION, FOR_PLAY, fields_of, resolve
from net.sparse import Sparse, SparseInference
from protocol.frames import LeafBatch
from protocol.settings import SelfPlaySettings, changed

if TYPE_CHECKING:
    from net.weights import WeightsMeta

SPARSE_ROWS = 64
"""Rows in a batch of a sparse network; such a batch takes a tenth of a millisecond."""


@dataclass
class LoadedNet:
    """A network whose evaluator batches over all searches of the process. `close` when done."""

    game: Game
    history: int
    name: str
    """File name and step, for people."""
    step: int
    evaluator: LocalEvaluator
    target_rows: int
    """Positions in flight that keep the device busy."""
    own: SparseInference | None = None
    """The same network as part of the search; None if it needs the evaluator."""
    ownership: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.float32]] | None = None
    """Maps packed features [n, words] to ownership [n, cells] in [-1, 1]: 1 where the side to move will own
    the cell. None: the network was trained without an ownership head."""

    def resolved(self, settings: SelfPlaySettings, simulations: int, max_plies: int = 0) -> SelfPlaySettings:
        """Return `settings`, resolved, with so many simulations, in games of at most `max_plies` (0: the
        game's own cap)."""
        changes = {"search.simulations": max(1, simulations), "max_plies": max_plies, "history": self.history}
        return resolve(changed(settings, changes), self.game)

    def close(self) -> None:
        self.evaluator.close()


@dataclass
class SharedNet:
    """A loaded network and the number of those that use it."""

    net: LoadedNet
    users: int = 0


def load_net(
    weights: Path | None,
    game_name: str = "",
    *,
    device: str = "cpu",
    threads: int = 0,
    preset: str = "tiny",
    seed: int = 0,
    history: int = 0,
) -> LoadedNet:
    """Load the network in `weights`, or make an untrained one of `preset` (a name, or sizes such as 4x64) for
    `game_name`, with `history` positions in its features (0: the game's default).

    Raises Fatal(BAD_DATA) if the file is not a weights file or is damaged, or if `game_name` is given and the
    network plays another game; Fatal(TRY_AGAIN) if the device has no memory left.
    """
    from net.weights import BadWeights, read_meta

    try:
        meta = None if weights is None else read_meta(read_weights(weights))
        if meta is not None and game_name and meta.game != game_name:
            raise Fatal(f"{weights} is a network for {meta.game}, not {game_name}", Exit.BAD_DATA)
        game = get_game(meta.game if meta else game_name or DEFAULT_GAME)
        # A trained network needs the same number of history positions as in training.
        history = meta.history if meta else history or game.history
        if weights is None or meta is None or not isinstance(meta.architecture, Sparse) or device != "cpu":
            return _behind_evaluator(weights, game, history, device, threads, preset, seed)
        # A sparse network on the CPU needs no torch, which takes seconds to import.
        own = SparseInference(game, history, meta.architecture)
        step = own.load(weights).step

        def infer(batch: LeafBatch) -> Evaluations:
            return Evaluations(*own.answers(batch), step)

        name, evaluator = f"{weights.resolve().stem} (step {step})", LocalEvaluator(infer, SPARSE_ROWS)
        return LoadedNet(game, history, name, step, evaluator, SPARSE_ROWS, own)
    except BadWeights as error:
        raise Fatal(f"{weights} cannot be used: {error}", Exit.BAD_DATA) from error
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error


def _behind_evaluator(
    weights: Path | None, game: Game, history: int, device: str, threads: int, preset: str, seed: int
) -> LoadedNet:
    import torch

    from net.architectures.network import build
    from net.architectures.registry import named
    from net.inference import Inference
    from net.planes import PlaneShape, features_tensor, unpack
    from net.weights import WeightsMeta, load

    inference = Inference(game, history, device, threads=threads)
    if weights is not None:
        network, meta = load(weights, game=game, history=history)
    else:
        # With the same seed, an untrained network is the same in every process.
        torch.manual_seed(seed)
        network = build(named(preset), game, history).eval()
        meta = WeightsMeta(game.name, history, network.architecture)
    try:
        inference.use(network, meta)
    except torch.OutOfMemoryError as error:
        raise Fatal(f"{device} has no memory left for the network: use another", Exit.TRY_AGAIN) from error
    step = meta.step

    @torch.inference_mode()
    def ownership(features: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
        # Each search asks for one position only, so the evaluator does not need to know this head.
        planes = unpack(features_tensor(features), PlaneShape.of(game, history))
        logits = network.all_heads(planes).training["ownership"]
        found: npt.NDArray[np.float32] = torch.tanh(logits / 2).numpy()
        return found

    def infer(batch: LeafBatch) -> Evaluations:
        priors, wdl = inference.run(batch)
        return Evaluations(priors, np.asarray(wdl), step)

    name = f"{weights.resolve().stem} (step {step})" if weights else f"untrained {preset}"
    # With larger batches, the speed hardly grows, and the last few positions would wait alone for the device.
    evaluator = LocalEvaluator(infer, inference.target_rows)
    knows = ownership if "ownership" in network.architecture.training_heads else None
    return LoadedNet(game, history, name, step, evaluator, inference.target_rows, ownership=knows)


def meta_of(weights: Path) -> WeightsMeta:
    """Return the description of the network in a weights file. Raises Fatal(BAD_DATA) if it is no weights
    file, or damaged."""
    from net.weights import BadWeights, read_meta

    try:
        return read_meta(read_weights(weights))
    except BadWeights as error:
        raise Fatal(f"{weights} cannot be used: {error}", Exit.BAD_DATA) from error


def game_for(name: str, weights: Path | None = None, default: str = "") -> Game:
    """Return the game that a setting names; if the setting is empty, the game of `weights`; without weights,
    `default`.

    Raises Fatal(CONFIG) for an unknown game, Fatal(BAD_DATA) if `weights` is not a weights file.
    """
    trained = "" if weights is None else meta_of(weights).game
    try:
        return get_game(name or trained or default)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error


def check_fits(net: LoadedNet, game: Game) -> None:
    """Raise Fatal(BAD_DATA) unless the network can play `game`: its own game, or a variant with the same
    positions and actions (for example with another komi or other end rules).

    A network works for only one board size: the value head has a weight for each cell, and so has a flat
    policy head or the cell embedding of a transformer.
    """
    if parts_of(net.game.name)[0] != parts_of(game.name)[0]:
        raise Fatal(f"{net.name} is a network for {net.game.name}, not {game.name}", Exit.BAD_DATA)
    if _seen(net.game, net.history) != _seen(game, net.history):
        raise Fatal(
            f"{net.name} plays {net.game.name} only: its layers have weights for each cell of "
            f"{net.game.rows} x {net.game.cols}; take a network for {game.name}",
            Exit.BAD_DATA,
        )


def _seen(game: Game, history: int) -> tuple[int, ...]:
    """Return the sizes that determine the shapes of a network."""
    return game.rows, game.cols, game.actions, game.feature_words(history), game.planes(history)


def word_of(path: str) -> str:
    """Return a setting's short name. A selection's own group stays in it, so that no setting takes the name
    of another."""
    return path.removeprefix("search.").removeprefix("moves.").replace(".", "_")


WORDS = {word_of(path): path for path in FIELDS[1:]}
"""Settings by their short names in a search's name: ratings are stored under these names."""


def settings_for_search(text: str, game: Game, weights: Path | None = None) -> SelfPlaySettings:
    """Return the settings (not resolved) of the search that `text` names; without text, FOR_PLAY with
    `solver` and `look_ahead` of the run in which `weights` were trained.

    `text` is SELECTION or SELECTION?SETTING=VALUE&..., such as `gumbel?gumbel_c_scale=0.1`. Settings that it
    leaves out have their defaults, not the run's values. Raises Fatal(CONFIG) for an invalid text,
    Fatal(BAD_DATA) for a run whose settings cannot be read.
    """
    if text:
        settings = _parsed(text)
    else:
        own = settings_of_run(weights).search
        settings = changed(FOR_PLAY, {"search.solver": own.solver, "search.look_ahead": own.look_ahead})
    # Check the settings for the game here, so that a wrong text is refused before anything is loaded.
    try:
        resolve(settings, game)
    except ValueError as error:
        raise Fatal(f"the search {text or search_name(settings)!r}: {error}", Exit.CONFIG) from error
    return settings


def settings_of_run(weights: Path | None) -> SelfPlaySettings:
    """Return the search of the self-play in which `weights` were trained, without its noise and temperature;
    FOR_EVALUATION outside of a run. Raises Fatal(BAD_DATA) for a run whose settings cannot be read."""
    if weights is None:
        return FOR_EVALUATION
    folder = weights.resolve().parent
    # A run's folder has a settings file beside the folders with its networks.
    file = folder.parent / "config.toml"
    if folder.name not in ("weights", "snapshots") or not file.is_file():
        return FOR_EVALUATION
    try:
        found = flattened(read_toml(file).get("self_play", {}))
        return _with({path: found[path] for path in FIELDS if path in found}, strict=True)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise Fatal(
            f"{file} does not say how the run searches ({error}); name the search, for example puct",
            Exit.BAD_DATA,
        ) from error


def search_name(settings: SelfPlaySettings) -> str:
    """Return the text from which `settings_for_search` makes these settings: the selection, and all settings
    that differ from their defaults."""
    used = fields_of(settings.search.selection)
    others = [
        f"{word}={attrgetter(path)(settings)}"
        for word, path in WORDS.items()
        if path in used and attrgetter(path)(settings) != attrgetter(path)(FOR_EVALUATION)
    ]
    return settings.search.selection + ("?" + "&".join(others) if others else "")


def _parsed(text: str) -> SelfPlaySettings:
    name, _, rest = text.partition("?")
    changes: dict[str, Any] = {"search.selection": name}
    # Each selection reads only its own settings; any other setting would be silently ignored.
    try:
        used = fields_of(name)
    except ValueError as error:
        raise Fatal(f"the search {text!r}: {error}", Exit.CONFIG) from error
    words = [word for word, path in WORDS.items() if path in used]
    for part in rest.split("&") if rest else []:
        word, separator, value = part.partition("=")
        if not separator or word not in words:
            what = f"{name} reads no setting {word!r}" if separator else f"{part!r} is not SETTING=VALUE"
            near = f"the nearest is {nearest(word, words)}; it reads {', '.join(words)}"
            raise Fatal(f"the search {text!r}: {what}; {near}", Exit.CONFIG)
        changes[WORDS[word]] = value
    try:
        return _with(changes, strict=False)
    except msgspec.ValidationError as error:
        raise Fatal(f"the search {text!r}: {error}", Exit.CONFIG) from error


def _with(changes: Mapping[str, Any], *, strict: bool) -> SelfPlaySettings:
    """Return FOR_EVALUATION with some fields changed. Raises ValidationError (a ValueError) for a wrong
    type."""
    # Text is parsed without `strict`, because every number in it is a string.
    read = msgspec.convert(nested(changes), SelfPlaySettings, strict=strict)
    return changed(FOR_EVALUATION, {path: attrgetter(path)(read) for path in changes})
