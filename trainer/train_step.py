"""The network being trained: takes samples, makes steps, returns its weights.

There are two optimizers: AdamW for small nets and short runs, and SGD with AlphaZero's schedule. Losses are
summed on the device, because reading one would wait for the step. With `optimizer.ema` the average of the
weights plays while the newest weights learn (`Average`).
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal, as_fatal
from net.architectures.network import Network, wdl_of
from net.architectures.sparse import SparseNetwork
from net.cpu.engine import faster_dtype
from net.gpu import check_device, found_gpus, has_bfloat16
from net.planes import Planes, PlaneShape, features_tensor
from net.weights import WeightsMeta, to_bytes
from trainer.config import LossSettings, OptimizerSettings
from trainer.loss import Losses, Targets, losses, outcome_targets, trained_heads, value_targets
from trainer.ranks import RankBatch, Ranks
from trainer.sampler_kernel import Counts, Samples
from trainer.window import BY_CAP

log = logging.getLogger(__name__)

ALPHAZERO_DROPS = ((100_000, 0.1), (300_000, 0.01), (500_000, 0.001))
"""(step, factor of the learning rate from then on): 0.2, 0.02, 0.002, 0.0002 (AlphaZero pseudocode)."""
LEAST_WEIGHT = 1e-6
"""Lower bound of a batch's mean weight as a divisor: all its positions may have the weight 0."""
VALUE_AT, WEIGHT_AT = 1, 3
"""Places of the value and of the mean weight in a row of losses (`TrainStep._backward_of`)."""
LAST_SHARE = 0.1
"""Final learning rate of a cosine schedule, as a share of the first."""
BEGUN = "begun"
"""Key of the optimizer's groups: its first step, from which the learning rate rises. A part of its state, so
that checkpoints and ranks have it; missing: 0."""
NO_ENTRIES = np.zeros(0, np.int64)


class StepFigures(NamedTuple):
    """Means over some steps."""

    policy_loss: float
    value_loss: float
    """Mean over the samples' weights, so that smaller weights do not shrink it."""
    policy_entropy: float
    gradient_norm: float
    """Norm before clipping."""
    heads: dict[str, float]
    """Losses of the auxiliary heads that are trained, by name; without those for which no sample said
    anything."""


class HeldOutFigures(NamedTuple):
    """Losses of the network that plays, on positions it was not trained on."""

    policy_loss: float
    value_loss: float
    value_spread: float
    """Standard deviation of the values: near 0, the network says the same of all positions."""
    heads: dict[str, float]
    """As in `StepFigures`."""


class TrainStep:
    """Network and optimizer. Only one thread at a time may use it.

    network: the network that plays. `trained`: tensors of the network being trained, if it is another one
    (see `Checkpoint`). `ranks`: the processes that share each batch.
    """

    def __init__(
        self,
        game: Game,
        history: int,
        network: Network,
        optimizer: OptimizerSettings,
        loss: LossSettings,
        device: torch.device,
        trained: dict[str, Tensor] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self._game = game
        self._history = history
        settings = optimizer.filled_in()
        self._optimizer, self._loss = settings, loss
        self._device = device
        self._heads, self._head_weights = trained_heads(loss), loss.head_weights
        self._planes = Planes(PlaneShape.of(game, history)).to(device)
        # The sums of a sparse network are cheap; converting them to another format is not.
        self._in_bfloat16 = not network.reads_features and computes_in_bfloat16(settings.precision, device)
        if network.reads_features and settings.precision == "bfloat16":
            log.warning("--optimizer.precision bfloat16 is ignored: a sparse network computes in float32")
        self.network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._average = Average(self.network, settings.ema) if settings.ema else None
        # The order matters: `network` comes with the weights that play, from which the average is copied.
        # Only then do the weights that learn replace them.
        if trained is not None:
            self.network.load_state_dict(trained)
        self._ranks = ranks or Ranks()
        self._ranks.prepare(self.network, settings)
        self.optimizer = make_optimizer(settings, self.network)
        self.step = 0
        """Steps made so far, including those before a restart."""
        self._sums = torch.zeros(5 + len(self._heads), device=device)
        """A row of losses, and the norm of the gradient: their sums over `_summed` steps."""
        self._summed, self._known = 0, Counter[str]()
        """Steps in the sums, and by head those in which some sample had a target."""
        self._at_once = settings.batch
        """Samples whose gradient is computed at once: fewer than the batch if the device lacks memory."""

    def train(self, samples: Samples, minutes: float = 0.0) -> None:
        """Make one step with the other ranks, after `minutes` of training. Figures accumulate on the device
        until `figures` is called, so that no step waits for them."""
        self.train_on(self._ranks.scatter(RankBatch(samples, Counts.of(samples), minutes)))

    def train_on(self, batch: RankBatch) -> None:
        """Make one step with this rank's rows of the batch."""
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self._optimizer, self.step, batch.minutes, group.get(BEGUN, 0))
        row = self._backward(batch.samples, batch.counts)
        self._ranks.all_reduce(self.network, row)
        # "inf" clips nothing, but the norm is still computed for the figures.
        norm = torch.nn.utils.clip_grad_norm_(
            self.network.parameters(), self._optimizer.grad_clip or float("inf")
        )
        self.optimizer.step()
        self.step += 1
        if self._average is not None:
            self._average.follow(self.step)
        # Added up on the device, because reading a number would wait for the step.
        row[VALUE_AT] /= row[WEIGHT_AT].clamp_min(LEAST_WEIGHT)
        self._sums += torch.cat([row, norm[None]])
        self._summed += 1
        self._known.update(self._known_heads(batch.samples))

    def _backward(self, samples: Samples, counts: Counts) -> Tensor:
        """Compute the gradient of a batch into the network; return its losses as `_backward_of` does.

        A batch that does not fit into the device's memory is computed in parts, whose gradients add up to
        that of the batch. Only batch normalisation sees one part at a time. Raises Fatal if one sample is too
        many.
        """
        rows = len(samples.classes)
        while True:
            # Needed on a retry, too: the parts before the failure have left their gradients.
            self.optimizer.zero_grad(set_to_none=True)
            with contextlib.suppress(torch.OutOfMemoryError):
                row = torch.zeros(4 + len(self._heads), device=self._device)
                parts = -(-rows // self._at_once)
                for index in range(parts):
                    row += self._backward_of(samples.part(index, parts), counts)
                return row
            # Not in an `except`: the exception would keep the failed part's tensors alive.
            before = min(self._at_once, rows)
            what = f"{self._device} is short of memory"
            if self._ranks.sync_norm:
                raise Fatal(
                    f"{what}, and with --optimizer.sync-norm no rank computes in parts: leave that out, "
                    "choose a smaller --net or --optimizer.batch, or end other programs on the device",
                    Exit.TRY_AGAIN,
                )
            if before == 1:
                raise Fatal(
                    f"{what}: there is no room for a step with one position; end other programs on the "
                    "device, or choose a smaller --net",
                    Exit.TRY_AGAIN,
                )
            self._at_once = (before + 1) // 2
            if self._device.type == "cuda":
                torch.cuda.empty_cache()  # otherwise blocks of other sizes would stay reserved
            log.warning(
                "%s: a step computes %d positions at once from now on (before: %d), with the same result but "
                "for batch normalisation; end other programs on the device, or choose a smaller --net",
                what,
                self._at_once,
                before,
            )

    def _backward_of(self, part: Samples, counts: Counts) -> Tensor:
        """Add the gradient of a part; return float32[4 + heads]: policy, value, entropy, mean weight and the
        heads. A function of its own, so that a part's tensors are freed before the next part begins."""
        main, heads, mean_weight = self._losses(self.network, part, counts)
        total = main.policy + self._loss.value_weight * main.value
        for name, loss in heads.items():
            total = total + self._head_weights[name] * loss
        total.backward()  # type: ignore[no-untyped-call]
        return torch.stack([*main, mean_weight, *heads.values()]).detach()

    @property
    def playing(self) -> Network:
        """Return the network that is published: the average if there is one."""
        return self.network if self._average is None else self._average.network

    def trained_weights(self) -> dict[str, Tensor] | None:
        """Return the tensors of the network being trained, None when it is the one that plays."""
        return None if self._average is None else self.network.state_dict()

    def evaluate(self, samples: Samples) -> HeldOutFigures:
        """Return the losses of the network as it would be published now. Changes nothing."""
        with torch.no_grad():
            main, heads, mean_weight = self._losses(self.playing.eval(), samples, Counts.of(samples))
        values = self.values(samples.packed_features)
        losses = main.policy.item(), (main.value / mean_weight.clamp_min(LEAST_WEIGHT)).item()
        of_heads = {name: heads[name].item() for name in self._known_heads(samples)}
        return HeldOutFigures(*losses, float(values.std()), of_heads)

    def values(self, packed_features: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """Return [n] values for the side to move of the positions `packed_features [n, feature_words]`, in
        [-1, 1], by the network as it would be published now. Changes nothing."""
        wdl = wdl_of(self._played(packed_features)[1])
        values: npt.NDArray[np.float64] = (wdl[:, 0] - wdl[:, 2]).double().cpu().numpy()
        return values

    def policies(
        self, packed_features: npt.NDArray[np.uint64], legal: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Return [n, actions] policy logits of these positions, by the same network; -inf for actions that
        are not `legal` [n, actions]."""
        rows, actions = np.nonzero(legal)
        policy = self._played(packed_features, rows, actions)[0].float().cpu().numpy()
        logits = np.full(legal.shape, -np.inf, np.float32)
        # A sparse network returns the logits of these entries, a network of planes those of all actions.
        logits[rows, actions] = policy if policy.ndim == 1 else policy[rows, actions]
        return logits

    def _played(
        self,
        packed_features: npt.NDArray[np.uint64],
        rows: npt.NDArray[np.int64] = NO_ENTRIES,
        actions: npt.NDArray[np.int64] = NO_ENTRIES,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of the network that plays: policy logits [n, actions], or [entries] for the
        entries `rows` and `actions`; and value logits, [n, 3] or [n, 1]."""
        with torch.no_grad():
            inputs = self._inputs(self.playing, packed_features, rows, actions)
            outputs = self.playing.eval().all_heads(inputs)
        return outputs.policy, outputs.value

    def _inputs(
        self,
        network: Network,
        packed_features: npt.NDArray[np.uint64],
        rows: npt.NDArray[np.int64],
        actions: npt.NDArray[np.int64],
    ) -> Any:
        """Return the input of the network: planes, or the features of the positions and of their entries."""
        if isinstance(network, SparseNetwork):
            # A sparse network needs the number of entries of each position.
            counts = np.bincount(rows, minlength=len(packed_features)).astype(np.uint16)
            found = network.inputs_of(packed_features, counts, actions.astype(np.uint16))
            return found.to(self._device)
        words = upload(features_tensor(packed_features), self._device)
        return self._planes(words).contiguous(memory_format=torch.channels_last)

    def weight_norm(self) -> float:
        """Return the norm of all trained weights."""
        with torch.no_grad():
            return float(torch.nn.utils.get_total_norm(self.network.parameters()))

    def _losses(
        self, network: Network, samples: Samples, counts: Counts
    ) -> tuple[Losses, dict[str, Tensor], Tensor]:
        """Return the losses of `samples`, which are a batch with these counts or a part of it, those of the
        auxiliary heads by name, and the mean weight of a sample in the value loss."""

        def to_device(array: Any) -> Any:
            return upload(torch.from_numpy(array), self._device) if isinstance(array, np.ndarray) else array

        inputs = self._inputs(network, samples.packed_features, samples.rows, samples.actions)
        classes, plies_left, ends = map(to_device, (samples.classes, samples.plies_left, samples.ends))
        weights = 1.0 - (1.0 - self._loss.capped_value_weight) * (ends == BY_CAP)
        if samples.policy_only is not None:
            # These positions are not part of a game, so they have no outcome to learn.
            weights = weights * (1 - to_device(samples.policy_only))
        end_values = to_device(samples.end_values)
        outcome = outcome_targets(classes, plies_left, end_values, self._loss.win_discount)
        wdl = value_targets(outcome, to_device(samples.root_values), self._loss.value_q_share)
        rows, actions, shares = map(to_device, (samples.rows, samples.actions, samples.shares))
        targets = Targets(wdl, weights, rows, actions, shares, counts)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._in_bfloat16):
            outputs = network.all_heads(inputs)
        main = losses(outputs.policy, outputs.value, targets)
        own = samples.heads or {}
        heads = {
            name: head.loss(outputs.training[name], head.targets(*map(to_device, own[name])))
            for name, head in self._heads.items()
        }
        return main, heads, weights.sum() / counts.samples

    def _known_heads(self, samples: Samples) -> list[str]:
        """Return the heads that are trained and for which some sample of the whole batch has a target."""
        own = samples.heads or {}
        return [name for name in self._heads if own[name].samples]

    def figures(self) -> StepFigures | None:
        """Return the means over the steps since the last call; None if there were none."""
        if not self._summed:
            return None
        steps = self._summed
        policy, value, entropy, _, *of_heads, norm = self._sums.tolist()
        heads = {
            name: total / self._known[name]
            for name, total in zip(self._heads, of_heads, strict=True)
            if self._known[name]
        }
        figures = StepFigures(policy / steps, value / steps, entropy / steps, norm / steps, heads)
        self._sums.zero_()
        self._summed, self._known = 0, Counter()
        return figures

    def weights(self, version: int, *, half: bool = False) -> bytes:
        """Return the current weights as a file (`half`: see `net.weights.to_bytes`). Raises Fatal if they are
        not all finite."""
        # A network that answers NaN would spoil every game from here on.
        tensors = self.playing.state_dict().values()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
            raise not_finite("network", self.step)
        meta = WeightsMeta(self._game.name, self._history, self.network.architecture, self.step, version)
        return to_bytes(self.playing, meta, half=half)

    def broadcast_state(self) -> None:
        """Give the other ranks the state of this one; called once, before the first step."""
        meta = WeightsMeta(self._game.name, self._history, self.network.architecture)
        self._ranks.broadcast_state(
            self.step, partial(to_bytes, self.network, meta), self.optimizer.state_dict()
        )

    def restore(self, step: int, optimizer_state: dict[str, Any] | None) -> None:
        """Continue after `step`; without an optimizer state, the optimizer starts anew, with a warm-up.

        The weight decay comes from the present settings. The learning rate is set at each step.
        """
        self.step = step
        if optimizer_state is not None:
            # The state contains the weight decay of its time; restore the present one.
            decays = [group["weight_decay"] for group in self.optimizer.param_groups]
            self.optimizer.load_state_dict(optimizer_state)
            for group, decay in zip(self.optimizer.param_groups, decays, strict=True):
                group["weight_decay"] = decay
        else:
            for group in self.optimizer.param_groups:
                group[BEGUN] = step


def not_finite(what: str, step: int) -> Fatal:
    """Return the error that ends a training whose numbers have become too large."""
    return Fatal(
        f"the {what} is not finite at step {step}; start again with a smaller --optimizer.lr "
        "(azrun: in the file of --trainer-config; training goes on from the last checkpoint)"
    )


class Average:
    """A moving average of a network's weights, updated step by step.

    network: the network that is followed; the average begins with a copy of it. decay: share of the old
    average kept at each step, 0..1; the mean covers about 1 / (1 - decay) steps.
    """

    def __init__(self, network: Network, decay: float) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network)
        # The average is never trained.
        self.network.requires_grad_(False).eval()
        self._pairs = list(
            zip(self.network.state_dict().values(), network.state_dict().values(), strict=True)
        )

    def follow(self, step: int) -> None:
        """Include the network after step number `step`, counted from 1.

        At first the average covers only a tenth of all steps, so that it forgets the untrained network.
        """
        kept = min(self._decay, step / (10 + step))
        # All tensors at once: a call for each would cost more than the sums.
        numbers = [(ours, theirs) for ours, theirs in self._pairs if ours.is_floating_point()]
        torch._foreach_lerp_([ours for ours, _ in numbers], [theirs for _, theirs in numbers], 1.0 - kept)
        # Counters, such as the number of batches that a BatchNorm has seen, are copied.
        for ours, theirs in self._pairs:
            if not ours.is_floating_point():
                ours.copy_(theirs)


def make_optimizer(settings: OptimizerSettings, network: nn.Module) -> torch.optim.Optimizer:
    """Return a new optimizer for `settings` (filled in); the caller sets the rate before each step."""
    decay = settings.weight_decay or 0.0
    parameters = list(network.parameters())
    if settings.kind == "alphazero":
        return torch.optim.SGD(parameters, lr=settings.lr, momentum=0.9, weight_decay=decay, fused=True)
    # Decay only matrices and filters. Biases and the factors of normalisations have one dimension, and no
    # decay.
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, fused=True)


def learning_rate(settings: OptimizerSettings, step: int, minutes: float = 0.0, begun: int = 0) -> float:
    """Return the learning rate of step `step`, counted from 0, after `minutes` of training, if the optimizer
    began at the step `begun`. `settings` must be filled in."""
    rate = settings.lr
    if settings.kind == "alphazero":
        for first, factor in ALPHAZERO_DROPS:
            if step >= first:
                rate = settings.lr * factor
    warm = min(1.0, (step - begun + 1) / max(settings.warmup_steps or 0, 1))
    return rate * warm * cosine_share(settings, step, minutes)


def cosine_share(settings: OptimizerSettings, step: int, minutes: float) -> float:
    """Return the cosine schedule's factor of the learning rate: from 1 down to LAST_SHARE."""
    if settings.cosine_steps:
        done = step / settings.cosine_steps
    elif settings.cosine_minutes:
        done = minutes / settings.cosine_minutes
    else:
        return 1.0
    return LAST_SHARE + (1 - LAST_SHARE) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device. On the way to a GPU it goes through pinned memory, which torch reuses: a
    copy from other memory would wait until the GPU has made the previous step. So the next batch is drawn
    while the GPU computes, without a thread of its own."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def computes_in_bfloat16(precision: str, device: torch.device) -> bool:
    """Return whether the setting `optimizer.precision` means bfloat16 on `device`."""
    if precision == "auto":
        if device.type == "cuda":
            return has_bfloat16(torch.cuda.get_device_capability(device))
        return faster_dtype() == torch.bfloat16
    return precision == "bfloat16"


def choose_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is the last usable GPU, which azserver leaves to the trainer.
    Raises Fatal(CONFIG) if there is no such device, or torch has no code for it, Fatal(TRY_AGAIN) if no GPU
    is found although this torch and the machine are made for one: its driver may come back."""
    if name == "cpu":
        return torch.device(name)
    gpus = found_gpus()
    if name == "auto":
        name = gpus.usable[-1] if gpus.usable else "cpu"
        if not gpus.usable and (gpus.names or gpus.may_come):
            log.warning("%s; training runs on the CPU (--device cpu: without this warning)", gpus.why)
        return torch.device(name)
    if not gpus.names:
        raise Fatal(f"--device {name}: {gpus.why}; without a GPU: --device cpu", gpus.code)
    with as_fatal(ValueError, Exit.CONFIG, f"--device {name}: "):
        check_device(name)
    return torch.device(name)


@contextlib.contextmanager
def short_of_memory() -> Iterator[None]:
    """Turn the error of a device without memory into Fatal(TRY_AGAIN), where `TrainStep` has no way around
    it."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise Fatal(
            "the trainer's device is short of memory: end other programs on it, or choose a smaller --net",
            Exit.TRY_AGAIN,
        ) from error


def prepare_thread(threads: int) -> None:
    """Set up torch for the training thread. Denormal numbers are flushed: they would make the CPU ten times
    slower."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
