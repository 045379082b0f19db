"""From a WELCOME to everything that depends on the game: folder, store, committer, window, network."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host.config import received, to_toml
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.runs import RunFolder, RunLock, write_atomically
from azselfplay.store.archive import Archive, open_archive
from azselfplay.store.players import set_quarantine
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import Store
from protocol.messages import Welcome
from protocol.records import GameRecord
from protocol.settings import SelfPlaySettings
from trainer import checkpoint
from trainer.checkpoint import NEW, check_begins_anew
from trainer.config import TrainerConfig
from trainer.ingest import Committer
from trainer.ranks import Ranks
from trainer.resign_threshold import ResignThreshold, resign_threshold
from trainer.training_loop import TrainingLoop
from trainer.verify import Verifier

log = logging.getLogger(__name__)

SAME_VERSION = "run the same version of server and trainer"


@dataclass
class Run:
    """Everything that the trainer works with, once it knows the game."""

    game: Game
    folder: RunFolder
    lock: RunLock
    """Held for as long as this process works on the folder."""
    store: Store
    committer: Committer
    training: TrainingLoop
    resignation: ResignThreshold
    """Found anew when the quarantine changes."""
    reader: StoreReader
    archive: Archive | None


def settings_of(welcome: Welcome) -> SelfPlaySettings:
    """Return the settings by which games of this run are played. Raises Fatal(PROTOCOL) if they are not
    understood."""
    what = "the server's self-play settings are not understood ("
    with as_fatal(ValueError, Exit.PROTOCOL, what, f"); {SAME_VERSION}"):
        return received(SelfPlaySettings, welcome.self_play)


def open_run(config: TrainerConfig, welcome: Welcome, ranks: Ranks | None = None, weights: str = "") -> Run:
    """Open or create the run folder. The window is still empty: `TrainingLoop.fill` may take minutes. `ranks`
    as for `TrainStep`; `weights`: a file that was fetched for this start, in place of `config.weights`.

    Raises Fatal for an unknown game, a folder of another game or with another trainer in it, impossible
    settings, another run's archive, or a new network that would replace a trained one; a new folder is
    removed again then.
    """
    folder = RunFolder(config.runs, config.run or welcome.run)
    with folder.removed_if_refused(with_games=True), contextlib.ExitStack() as undo:
        settings = settings_of(welcome)
        with as_fatal(ValueError, Exit.PROTOCOL, after=f"; {SAME_VERSION}"):
            game = get_game(welcome.game)
        history = settings.history or game.history
        _check_settings(config, game, settings)
        # Before anything is written: a refused run leaves no folder behind.
        if archive := open_archive(config.archive, Path(config.runs)):
            archive.check(game.name, welcome.run_id)
        if not checkpoint.is_there(folder.checkpoints) and not (archive and archive.checkpoints()):
            check_begins_anew(config, folder, welcome.weights)
        folder.create(game.name, history, welcome.run_id)
        lock = folder.lock("trainer")
        undo.callback(lock.close)
        _write_settings(folder, (ranks and ranks.given) or config)
        store = Store(folder.games, game.name, config.keep_games)
        reader = StoreReader(folder.games)
        if archive is not None:
            checkpoint.fetch(archive, folder.checkpoints)
        begun, played = replace(config, weights=weights or config.weights), welcome.weights
        # Version 0 has no step of this run.
        step = played.step if weights and played is not None and played.version else 0
        training = TrainingLoop(begun, game, history, welcome.network, folder.checkpoints, ranks, step)
        # There were checkpoints, but none of them could be used.
        if not training.has_checkpoint:
            check_begins_anew(config, folder, welcome.weights)
        if archive is not None:
            if store.last_seq < training.last_seq:
                _restore_quarantine(training, reader)
            archive.begin(folder.describe(), store)
        # The run's identity comes from WELCOME; the settings do not contain it.
        verifier = Verifier(game, settings, welcome.run_id)
        committer = Committer(verifier, store, config.samples.stale_versions, archive)
        _warm(game, settings, committer, training)
        log.info(
            "run %s: %s, network %s, %d games in the store; window of %d positions, %.0f bytes each",
            folder.name,
            game.name,
            training.architecture,
            store.totals.games.total(),
            training.window.capacity,
            training.window.bytes_per_position,
        )
        resignation = resign_threshold(settings, game, reader, store.last_seq)
        # The checkpoint may be older than the weights that play: after a backup was restored, or newer ones
        # lost.
        if played is not None and played.step > training.step and training.has_checkpoint:
            log.warning(
                "the server plays with weights of step %d; training goes on from step %d, and what it "
                "publishes replaces them",
                played.step,
                training.step,
            )
        undo.pop_all()
        return Run(game, folder, lock, store, committer, training, resignation, reader, archive)


def has_checkpoint(config: TrainerConfig, folder: RunFolder) -> bool:
    """Return whether the folder has an intact checkpoint, or else the archive has one. Raises Fatal as
    `open_archive`, and Fatal(TRY_AGAIN, DISK) if it cannot be known at the moment."""
    if checkpoint.newest_intact(folder.checkpoints):
        return True
    archive = open_archive(config.archive, Path(config.runs))
    return archive is not None and any(name.endswith(".state") for name in archive.checkpoints())


def _write_settings(folder: RunFolder, given: TrainerConfig) -> None:
    """Write the settings for people and tools that inspect the run, and for a restart."""
    # A new network is consented to for this start only.
    given = replace(given, weights="") if given.weights == NEW else given
    write_atomically(folder.trainer_config, to_toml(given).encode())


def _restore_quarantine(training: TrainingLoop, reader: StoreReader) -> None:
    """Put into quarantine whom the checkpoint names: of a store that is older, perhaps only it knows."""
    for player in sorted(training.quarantine.players - reader.quarantined()):
        log.warning("%s is in quarantine again, as in the newest checkpoint", player)
        set_quarantine(reader.path, player, quarantined=True)


def _warm(game: Game, settings: SelfPlaySettings, committer: Committer, training: TrainingLoop) -> None:
    """Compile now rather than at the first game and the first step."""
    log.info("compiling the rules of %s, to replay games (up to a minute the first time)", game.name)
    started = time.perf_counter()
    # A game of one move is enough to compile replay and sampler.
    record = one_ply(game, settings)
    committer.warm(record)
    training.warm(record)
    log.info("games of %s can be replayed, after %.1f s", game.name, time.perf_counter() - started)


def _check_settings(config: TrainerConfig, game: Game, settings: SelfPlaySettings) -> None:
    """Raise Fatal unless the longest possible game fits into the window, and the heads suit the game."""
    if "ownership" in config.loss.head_weights and game.owners is None:
        raise Fatal(
            f"--loss.heads ownership: in {game.name} nobody owns cells at the end of a game; leave it out",
            Exit.CONFIG,
        )
    longest = settings.max_plies or game.max_plies
    # A game takes one entry for each visited action, and may have more of these than usual.
    needed = int(longest * max(1.0, game.max_legal / game.mean_legal)) + 1
    if config.window.positions < needed:
        raise Fatal(
            f"--window.positions {config.window.positions} is too small: the longest game of {game.name} "
            f"needs {needed}",
            Exit.CONFIG,
        )
    if config.window.min_positions > config.window.positions - longest:
        raise Fatal(
            f"--window.min-positions {config.window.min_positions} is too near --window.positions "
            f"{config.window.positions}: the window holds whole games, and one of {game.name} may have "
            f"{longest} positions; make the window larger, or --window.min-positions smaller",
            Exit.CONFIG,
        )


def one_ply(game: Game, settings: SelfPlaySettings) -> GameRecord:
    """Return the first legal move of the run's start position, as a (mostly unfinished) game."""
    with as_fatal(ValueError, Exit.CONFIG, "the run's start position cannot be read: "):
        start = game.notation.state_from_text(settings.start.position)
    legal = np.zeros(game.max_legal, dtype=np.uint16)
    game.rules.legal_actions(start[None], 1, legal)
    one = np.ones(1, dtype=np.uint16)
    return GameRecord(
        uid=bytes(16),
        game=game.name,
        start=settings.start.position,
        max_plies=settings.max_plies or game.max_plies,
        simulations=settings.search.simulations,
        actions=legal[:1],
        visited=one,
        visit_actions=legal[:1],
        visits=one,
        root_values=np.zeros(1, dtype=np.float32),
        flags=np.zeros(1, dtype=np.uint8),
        versions=np.zeros(1, dtype=np.uint32),
        outcome=0,
        reason="",
    )
