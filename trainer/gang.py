"""The ranks of a trainer on several devices, as processes (`trainer.ranks` says what they share).

    the store of torch    rank 0's version and settings; a rank with different ones ends
    rank 0 -> rank r      step, network, optimizer's state             once
                          rows and counts of a batch                   every step
                          nothing (an empty message)                   the end
    all <-> all           one tensor: losses and all gradients         every step

Messages go by gloo, sums by gloo between CPUs and by NCCL between GPUs. docs/decisions/0064 says why these
are plain sums and not DistributedDataParallel.

A rank may wait for hours because no games come, so its wait for rows has no limit: it ends when rank 0 ends
and the connection breaks. Every other wait is for a rank that computes, and ends after `TIMEOUT`. A gang that
has lost a rank ends with TRY_AGAIN, and the supervisor restarts all ranks from the last checkpoint.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, Store, TCPStore, rendezvous  # type: ignore[attr-defined]

from azselfplay.games import get_game
from azselfplay.host.aio import Stop
from azselfplay.host.config import flattened, version
from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal
from azselfplay.host.processes import Children, describe_exit, python_module
from net.weights import from_bytes, read_meta
from trainer.config import OptimizerSettings, TrainerConfig
from trainer.loss import trained_heads
from trainer.ranks import Place, RankBatch, Ranks, packed, unpacked
from trainer.train_step import TrainStep, prepare_thread, short_of_memory

log = logging.getLogger(__name__)

TIMEOUT = timedelta(minutes=5)
"""Longest time that a rank waits for another one that computes or starts."""
FOREVER = timedelta(days=10_000)
"""Longest time that a rank waits for rank 0."""
HERE = "127.0.0.1"
THEN = ", and all other ranks with it; started again, the trainer goes on from the last checkpoint"


class Gang(Ranks):
    """The ranks of a trainer, as one of them sees them."""

    def __init__(self, place: Place, store: Store, environment: Mapping[str, str] | None = None) -> None:
        """store: one that all ranks reach. environment: variables for the ranks that this process starts;
        None: it starts none."""
        self._place, self._store, self._environment = place, store, environment
        self._sending: list[tuple[Any, Tensor]] = []
        """Messages under way: the work to wait for, and the bytes, which must not change before it is
        done."""

    @classmethod
    def from_environment(cls, place: Place) -> Gang:
        """Return the gang that the environment variables of torchrun, or of rank 0, describe."""
        return cls(place, next(rendezvous("env://"))[0])

    @classmethod
    def of_children(cls, place: Place) -> Gang:
        """Return a gang whose other ranks are children of this process."""
        # A free port, open to this machine only, like the ports of gloo and NCCL.
        listener = socket.create_server((HERE, 0))
        os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        port, ranks = listener.getsockname()[1], str(place.ranks)
        store = TCPStore(
            HERE, port, None, True, TIMEOUT, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        address = {"MASTER_ADDR": HERE, "MASTER_PORT": str(port)}
        return cls(place, store, {**address, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks})

    # ---- rank 0 ----

    def prepare(self, network: nn.Module, settings: OptimizerSettings) -> None:
        self.sync_norm = settings.sync_norm
        if self.sync_norm:
            for module in network.modules():
                if type(module) is nn.BatchNorm2d:
                    module.__class__ = SynchronisedNorm

    def broadcast_state(
        self, step: int, weights: Callable[[], bytes], optimizer_state: Mapping[str, Any]
    ) -> None:
        """Raises Fatal if a rank does not join, or is lost."""
        self._store.set("rank 0", json.dumps(self._shared_settings()))
        with as_lost_rank():
            self._init_process_group()
        buffer = io.BytesIO()
        torch.save({"step": step, "weights": weights(), "optimizer": optimizer_state}, buffer)
        for rank in range(1, self._place.ranks):
            self._send(rank, buffer.getvalue())
        log.info("%d ranks make each step together", self._place.ranks)

    def scatter(self, batch: RankBatch) -> RankBatch:
        self._sent()
        ranks = self._place.ranks
        for rank in range(1, ranks):
            self._send(rank, packed(batch._replace(samples=batch.samples.part(rank, ranks))))
        return batch._replace(samples=batch.samples.part(0, ranks))

    def end(self) -> None:
        for rank in range(1, self._place.ranks):
            self._send(rank, b"")
        self._sent()

    async def run(self, stop: Stop) -> None:
        if self._environment is None:
            return
        children = Children()

        def ended(name: str, code: int) -> None:
            told = children.reported_error(name)
            # A restart would end in the same way.
            if code in NOT_RETRIED:
                raise Fatal(f"{name}: {told}", Exit(code))
            # Other ends are as expected: rank 0 has told it to end.
            if code != Exit.OK and not stop.finishing.is_set():
                why = describe_exit(code) + (f": {told}" if told else "")
                raise Fatal(f"{name} has ended ({why}){THEN}", Exit.TRY_AGAIN)

        for rank in range(1, self._place.ranks):
            name, number = f"rank {rank}", str(rank)
            argv = python_module("trainer", *sys.argv[1:])
            env = {**os.environ, **self._environment, "RANK": number, "LOCAL_RANK": number}
            children.add(name, argv, env=env, restart=False, on_exit=partial(ended, name))
        await children.run(stop)

    # ---- the others ----

    def receive_state(self) -> dict[str, Any]:
        """Return what `broadcast_state` has sent. Raises Fatal(PROTOCOL) if rank 0 has another version than
        this rank, and Fatal(CONFIG) if it has other settings for its steps."""
        with as_lost_rank():
            self._store.wait(["rank 0"], FOREVER)
            theirs, ours = json.loads(self._store.get("rank 0")), self._shared_settings()
            for name, one in ours.items():
                if theirs.get(name) != one:
                    text = f"{name} is {one} at rank {self._place.rank}, and {theirs.get(name)} at rank 0"
                    is_setting = name.startswith("--")
                    raise Fatal(
                        f"{text}: start all ranks with the same {'settings' if is_setting else 'versions'}",
                        Exit.CONFIG if is_setting else Exit.PROTOCOL,
                    )
            self._init_process_group()
        begun: dict[str, Any] = torch.load(io.BytesIO(self.recv()), map_location="cpu", weights_only=True)
        return begun

    def recv(self) -> bytes:
        """Return rank 0's next message, however long it takes."""
        header = torch.zeros(1, dtype=torch.int64)
        with as_lost_rank():
            coming: Any = dist.irecv(header, 0)
            coming.wait(FOREVER)
            data = torch.empty(int(header), dtype=torch.uint8)
            if len(data):
                dist.recv(data, 0)
        return data.numpy().tobytes()

    # ---- all of them ----

    def all_reduce(self, network: nn.Module, losses: Tensor) -> None:
        gradients = [one.grad for one in network.parameters() if one.grad is not None]
        ours = [losses, *gradients]
        whole = summed(torch.cat([one.flatten() for one in ours]))
        parts = torch.split(whole, [one.numel() for one in ours])
        for one, part in zip(ours, parts, strict=True):
            one.copy_(part.view_as(one))

    def _shared_settings(self) -> dict[str, Any]:
        """Return what must be the same for all ranks."""
        config = self._place.config
        optimizer, loss = dataclasses.asdict(config.optimizer.filled_in()), dataclasses.asdict(config.loss)
        settings = flattened({"optimizer": optimizer, "loss": loss})
        flags = {f"--{name.replace('_', '-')}": one for name, one in settings.items()}
        return {"azselfplay": version(), "torch": torch.__version__, **flags}

    def _init_process_group(self) -> None:
        device = torch.device(self._place.config.device)
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        store = PrefixStore("gang", self._store)
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        rank, ranks = self._place[:2]
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=TIMEOUT)

    def _send(self, rank: int, data: bytes) -> None:
        parts = [torch.tensor([len(data)])]
        if data:
            parts.append(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        with as_lost_rank():
            self._sending += [(dist.isend(part, rank), part) for part in parts]

    def _sent(self) -> None:
        """Wait until all messages have been received."""
        with as_lost_rank():
            for work, _ in self._sending:
                work.wait()
        self._sending.clear()


@short_of_memory()
def follow(gang: Gang, config: TrainerConfig) -> None:
    """Make steps with rank 0 until rank 0 ends. Raises Fatal(TRY_AGAIN) when a rank is lost or its device
    short of memory, and as `Gang.receive_state`."""
    prepare_thread(config.cpu_threads)
    begun = gang.receive_state()
    # torchrun signals all ranks at once; but rank 0 makes the last steps, and says when to end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    meta = read_meta(begun["weights"])
    game, heads = get_game(meta.game), trained_heads(config.loss)
    network, _ = from_bytes(begun["weights"], game=game, history=meta.history)
    optimizer = dataclasses.replace(config.optimizer, ema=0.0)  # only rank 0 keeps the average
    device = torch.device(config.device)
    step = TrainStep(game, meta.history, network, optimizer, config.loss, device, ranks=gang)
    step.restore(begun["step"], begun["optimizer"])
    while data := gang.recv():
        step.train_on(unpacked(data, heads))
    log.info("stopped at step %d, weights %s", step.step, digest(step.network))


def digest(network: nn.Module) -> str:
    """Return a hash of the trained parameters, which is the same for all ranks."""
    found = hashlib.sha256()
    for parameter in network.parameters():
        found.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


@contextmanager
def as_lost_rank() -> Iterator[None]:
    """Turn an error of torch.distributed into Fatal."""
    try:
        yield
    except RuntimeError as error:
        text, _, more = str(error).partition("Last error:")
        reason = text.partition("\n")[0].rpartition("] ")[2].partition(". ")[0]
        # NCCL's own reason, such as a full /dev/shm, is on a later line.
        reason += "".join(f": {line}" for line in more.strip().splitlines()[:1])
        what = f"another rank has ended or hangs, or cannot be reached ({reason}){THEN}"
        raise Fatal(what, Exit.TRY_AGAIN) from error


def summed(tensor: Tensor) -> Tensor:
    """Replace a tensor by its sum over all ranks, and return it."""
    with as_lost_rank():
        dist.all_reduce(tensor)
    return tensor


class _Sum(torch.autograd.Function):
    """`summed` with a gradient: each rank's part counts in the losses of all ranks."""

    @staticmethod
    def forward(_: Any, ours: Tensor) -> Tensor:
        return summed(ours.clone())

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return summed(gradient.clone())


class SynchronisedNorm(nn.BatchNorm2d):
    """Batch normalisation over the rows of all ranks, on any device (torch's own is for GPUs only)."""

    def forward(self, x: Tensor) -> Tensor:
        running_mean, running_var, momentum = self.running_mean, self.running_var, self.momentum
        if not self.training or running_mean is None or running_var is None or momentum is None:
            return super().forward(x)
        # Subtract a number near the mean first, so that the variance, a difference of two sums, keeps its
        # digits.
        near = running_mean.clone()
        moved = x.float() - near[:, None, None]
        rows = torch.full_like(near, x.numel() / x.shape[1])
        ours = torch.stack([moved.sum((0, 2, 3)), moved.square().sum((0, 2, 3)), rows])
        of_all: Tensor = _Sum.apply(ours)  # type: ignore[no-untyped-call]
        mean, square = of_all[:2] / of_all[2]
        var, count = square - mean.square(), of_all[2].detach()
        with torch.no_grad():
            running_mean.lerp_(near + mean, momentum)
            running_var.lerp_(var * count / (count - 1), momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked += 1
        scale = self.weight * (var + self.eps).rsqrt()
        normal: Tensor = (moved - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]
        return normal.to(x.dtype)
