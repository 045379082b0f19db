"""What training begins with: the newest checkpoint, or the network of a new run.

A checkpoint is what a restart needs to continue as if nothing had happened. It has two files, each written
whole or not at all: `step-N.safetensors`, the network that plays (usable by itself), and `step-N.state` with
everything else. The state contains the hash of the first file, and ends with its own hash. If an average of
the weights plays, the weights being trained are in the state. The state is read with `weights_only`, and
never leaves this machine, except to an archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.runs import RunFolder, reach, write_atomically
from azselfplay.link.finding import weights_named
from azselfplay.link.weights_files import read_weights
from azselfplay.store.archive import Archive
from net.architectures.network import Network, build, with_heads
from net.architectures.registry import Architecture, name_of, named
from net.weights import BadWeights, from_bytes
from protocol.messages import WeightsInfo
from trainer.config import TrainerConfig

log = logging.getLogger(__name__)

HASH_BYTES = 32
KEPT = 3
"""Newest checkpoints that are kept; older ones are removed."""
NEW = "new"
"""Used as the value of `--weights`: a new network, whatever the server plays with."""
SERVER = "server"
"""The value of `--weights` that stands for the weights that the server plays with."""


@dataclass(frozen=True)
class Progress:
    """Where training stands."""

    step: int
    samples: int
    """Positions trained on so far."""
    version: int
    """Highest weights version offered so far."""
    last_seq: int
    """Number of the newest stored game that training knows."""
    optimizer: str
    """`optimizer.kind` of the optimizer's state."""
    learned_from: int = 0
    """Positions of all games so far that may be trained on."""
    allowed: float = 0.0
    """Samples allowed by these positions."""
    quarantined: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By player, how much a quarantine has removed of `learned_from` and `allowed`
    (`trainer.pacing.Quarantine`)."""
    minutes: float = 0.0
    """Minutes of training."""
    imported: int = 0
    """Samples of imported games alone (`trainer.sampler.Imported`)."""
    forgiven: float = 0.0
    """Allowed samples that are not made (`trainer.pacing.SampleBudget`)."""
    imported_allowed: float = 0.0
    """Samples allowed by imported games, up to the game with number `imported_seq`."""
    imported_seq: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """The complete checkpoint, as read back."""

    progress: Progress
    network: Network
    """The network that plays."""
    trained: dict[str, Tensor] | None
    """Tensors of the network being trained; None when it is the network that plays."""
    optimizer_state: dict[str, Any]
    rng: np.random.Generator


class BadCheckpoint(Exception):
    """A checkpoint that cannot be used; the text says why."""


def save(
    folder: Path,
    progress: Progress,
    weights: bytes,
    optimizer_state: dict[str, Any],
    rng: np.random.Generator,
    trained: dict[str, Tensor] | None = None,
) -> None:
    """Write a checkpoint and remove all but the newest `KEPT`. Raises Fatal(DISK) if it cannot be written.

    Checkpoints of later steps were skipped as unusable when training began; they are set aside.

    weights: the file of the network that plays. trained: as in `Checkpoint`.
    """
    state = {
        "progress": json.dumps(progress.__dict__),
        "rng": json.dumps(rng.bit_generator.state),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "optimizer": optimizer_state,
        "trained": trained,
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    path = folder / f"step-{progress.step:09d}.state"
    network = path.with_suffix(".safetensors")
    try:
        # The weights come first, so that a state never exists without the weights that it names. The same
        # bytes are not written again, because an earlier state of this step names them, too.
        if not (network.exists() and network.read_bytes() == weights):
            write_atomically(network, weights)
        reach("checkpoint.weights_written")
        write_atomically(path, data + hashlib.sha256(data).digest())
        reach("checkpoint.written")
        _set_aside_after(path)
        for old in _states(folder)[KEPT:]:
            old.unlink()
        reach("checkpoint.old_removed")
        # A network without its state is left by a trainer that was killed between the two. Only those older
        # than every checkpoint go: somebody may have put a newer one there.
        oldest = _states(folder)[-1].stem
        for left in folder.glob("step-*.safetensors"):
            if left.stem < oldest and not left.with_suffix(".state").exists():
                left.unlink()
    except OSError as error:
        # A disk that has become read-only, or is gone, refuses this as well.
        with contextlib.suppress(OSError):
            if not path.exists():
                network.unlink(missing_ok=True)
        raise Fatal(
            f"cannot write the checkpoint {path}: {error.strerror}; free space or repair the disk; a "
            "restarted trainer goes on from the previous checkpoint",
            Exit.DISK,
        ) from error


def _set_aside_after(path: Path) -> None:
    """Rename later checkpoints: left for people to inspect, they are neither counted nor read any more."""
    for skipped in (one for one in _states(path.parent) if one > path):
        for one in (skipped, skipped.with_suffix(".safetensors")):
            if one.exists():
                one.replace(one.with_name(f"{one.name}.skipped"))


def load_newest(folder: Path, game: Game, history: int) -> Checkpoint | None:
    """Return the newest intact checkpoint; damaged ones are skipped and logged. Raises as `progress_at`."""
    # Left by a trainer that was killed while it wrote.
    for partial in folder.glob("*.partial"):
        partial.unlink()
    for path in _states(folder):
        try:
            state, weights = _read(path)
            network, _ = from_bytes(weights, game=game, history=history)
        except (BadCheckpoint, BadWeights) as error:
            log.warning("skipped the checkpoint %s: %s", path, error)
            continue
        # Made with any seed: the saved state replaces it.
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(state["rng"])
        return Checkpoint(_progress(state), network, state["trained"], state["optimizer"], rng)
    return None


def is_there(folder: Path) -> bool:
    """Return whether `folder` has a checkpoint, intact or damaged."""
    return bool(_states(folder))


def newest_intact(folder: Path) -> str:
    """Return the name of the newest checkpoint that `progress_at` finds intact; "" if there is none. Raises
    Fatal(DISK) as `progress_at`."""
    for path in _states(folder):
        with contextlib.suppress(BadCheckpoint):
            progress_at(path)
            return path.stem
    return ""


def fetch(archive: Archive, folder: Path) -> None:
    """Write to `folder` the archived checkpoints that are newer than the intact ones in it. If the newest
    archived one knows more games than a later one here, its trainer went on without that one: such later ones
    are set aside. Raises Fatal(TRY_AGAIN, DISK), OSError."""
    newest, is_replaced = newest_intact(folder), False
    states = [folder / name for name in archive.checkpoints() if name.endswith(".state")]
    if states and states[-1].stem < newest:
        with contextlib.suppress(BadCheckpoint):
            archived = _progress(_state_in(archive.checkpoint(states[-1].name)))
            is_replaced = archived.last_seq > progress_at(folder / f"{newest}.state").last_seq
    # The oldest first, and each network before its state: so every state is complete after a kill.
    for state in states:
        if is_replaced or state.stem > newest:
            for path in (state.with_suffix(".safetensors"), state):
                write_atomically(path, archive.checkpoint(path.name))
    if is_replaced:
        log.warning("set aside %s: another trainer has gone on from an earlier checkpoint", newest)
        _set_aside_after(states[-1])


def upload(archive: Archive, folder: Path) -> None:
    """Archive the newest checkpoint, and remove archived ones that are no longer in `folder`. Raises as
    `Archive.archive_checkpoint`."""
    files = [file for path in _states(folder) for file in (path.with_suffix(".safetensors"), path)]
    archive.archive_checkpoint(files, newest=2)


def _states(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.state"), reverse=True)


def progress_at(path: Path) -> Progress:
    """Return the progress at the checkpoint whose state is in `path`. Raises BadCheckpoint unless its files
    are intact and belong together; the network itself is not checked. Raises Fatal(DISK) if one cannot be
    read at the moment."""
    state, _ = _read(path)
    return _progress(state)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the content of a checkpoint's two files: its state, and the network file. Raises
    BadCheckpoint, and Fatal(DISK) if a file cannot be read at the moment: it may be intact."""
    try:
        content = path.read_bytes()
        weights = path.with_suffix(".safetensors").read_bytes()
    except FileNotFoundError as error:
        raise BadCheckpoint(f"cannot be read: {error.strerror}") from error
    except OSError as error:
        raise Fatal(f"the checkpoint {path} cannot be read: {error.strerror}", Exit.DISK) from error
    state = _state_in(content)
    if hashlib.sha256(weights).hexdigest() != state["weights_sha256"]:
        raise BadCheckpoint("the weights beside it are not its own")
    return state, weights


def _state_in(content: bytes) -> dict[str, Any]:
    """Return the content of a state's file. Raises BadCheckpoint."""
    data = content[:-HASH_BYTES]
    # Checked before torch reads it: damaged bytes must not reach its unpickler.
    if hashlib.sha256(data).digest() != content[-HASH_BYTES:]:
        raise BadCheckpoint("torn or changed (its hash differs)")
    # `weights_only` allows tensors and plain values only, so that a file cannot run code.
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return state


def _progress(state: dict[str, Any]) -> Progress:
    # A newer version of azselfplay may have written more.
    known = Progress.__dataclass_fields__
    return Progress(**{name: one for name, one in json.loads(state["progress"]).items() if name in known})


def new_network(config: TrainerConfig, game: Game, history: int, preset: str) -> Network:
    """Return a network from `--weights`, `--net` or the game's preset. Raises Fatal(BAD_DATA, CONFIG) if that
    fails."""
    heads = config.loss.head_weights.keys()
    # Seeds the weights that are drawn: those of a new network, or of an added head.
    torch.manual_seed(config.seed)
    network = None
    if config.weights == SERVER:  # not fetched, because there are checkpoints
        raise Fatal(
            "--weights server: the run has checkpoints, but none with a network that this version can use: "
            "go on with the version that made them, or move them away (also from the --archive)",
            Exit.BAD_DATA,
        )
    if config.weights not in ("", NEW):
        with _given(config) as data:
            network = from_bytes(data, game=game, history=history)[0]
        if config.net and architecture_of(config.net) != network.architecture.played:
            raise Fatal(
                f"--weights {config.weights} holds a network {name_of(network.architecture)}, and --net asks "
                f"for {config.net}; leave out --net to train the network of the file",
                Exit.CONFIG,
            )
    with as_fatal(ValueError, Exit.CONFIG):
        if network is not None:
            return with_heads(network, game, history, heads)
        return build(architecture_of(config.net or preset).with_heads(heads), game, history)


def architecture_of(name: str) -> Architecture:
    """Return the architecture that `--net`, or else the server, names. Raises Fatal(CONFIG)."""
    with as_fatal(ValueError, Exit.CONFIG, after="; give another --net"):
        return named(name)


@contextlib.contextmanager
def _given(config: TrainerConfig) -> Iterator[bytes]:
    """Yield the weights file that `--weights` names. Raises Fatal(BAD_DATA) if it, or its use, fails."""
    with as_fatal(BadWeights, Exit.BAD_DATA, "--weights: "):
        yield read_weights(weights_named(config.weights, Path(config.runs)))


def check_begins_anew(config: TrainerConfig, folder: RunFolder, played: WeightsInfo | None) -> None:
    """Check that a run without a usable checkpoint may begin. Raises Fatal(BAD_DATA) if its network would
    replace weights that this run has trained, unless the user insists. `played`: the server's weights."""
    # Replacing an untrained network does no harm, and with these words the user has decided.
    if played is None or played.step == 0 or config.weights in (NEW, SERVER):
        return
    begins = "a new network"
    if config.weights:
        # A setting stays in files: what was meant for the first start must not undo the training since.
        # Before version 1 the run has trained nothing.
        with _given(config) as data:
            if played.version == 0 or hashlib.sha256(data).digest() == played.sha256:
                return
        begins = f"--weights {config.weights}"
    raise Fatal(
        f"the server plays with weights of step {played.step} (version {played.version}), and there is no "
        f"checkpoint to go on from in {folder.checkpoints}: {begins} would replace them. Restore the "
        "checkpoints or name the right run folder (--runs, --run); or go on from the server's weights with a "
        "new optimizer (--weights server); or insist on a new network (--weights new). Other weights begin a "
        "run of their own (azserver --run)",
        Exit.BAD_DATA,
    )


def why_no_takeover(config: TrainerConfig) -> str:
    """Return why a trainer that waits for another one to end could not take over from it; "" if it perhaps
    can. The name of the run is unknown before the server's WELCOME, so the checkpoints of any run count."""
    runs = Path(config.runs)
    folders = [runs / config.run] if config.run else runs.glob("*")
    can_begin = config.weights == SERVER or config.archive
    if can_begin or any(is_there(folder / "checkpoints") for folder in folders):
        return ""
    return (
        f"this trainer cannot take over, because it sees no checkpoints in {runs / config.run}: give it the "
        "run folder of the one that works (--runs on a file system that both share) or its --archive; "
        "--weights server goes on without the stored games"
    )


def check_heads(config: TrainerConfig, network: Network) -> None:
    """Raise Fatal when a loss is requested for a head that this run's network lacks. (A head without a loss
    may stay.)"""
    for name in config.loss.head_weights:
        if not hasattr(network, name):
            raise Fatal(
                f"the network of this run has no head for --loss.heads {name}; leave it out, or begin "
                "another --run with it and --weights FILE, which adds the head",
                Exit.CONFIG,
            )
