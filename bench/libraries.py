"""Ways to run a network on a CPU, in turns: our kernels, the torch module, OpenVINO, ONNX Runtime.

All are given packed chess positions by the threads of `net.cpu_engine`, in chunks of a fixed size, and answer
priors over the legal actions and win/draw/loss. OpenVINO computes in bfloat16 where our engines do; ONNX
Runtime knows only float32 on a CPU. A library that is not installed is left out: `pip install openvino`, and
the extra `onnx` for the other one. Microseconds are processor time of a position, which hardly depends on
other processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bench.inference import chess_like_batch
from bench.turns import Spread, in_turns, ratio
from games import get_game
from games.spec import Game
from net.architectures.network import Network
from net.architectures.registry import build, named
from net.batches import Batch
from net.cpu_engine import CpuEngine, Forward, faster_dtype
from net.folding import fold
from net.onnx_export import Playing, onnx_model
from net.plane_kernels import legal_priors, write_planes
from net.planes import PlaneShape
from net.weights import WeightsMeta

F32 = npt.NDArray[np.float32]
Run = Callable[[F32], tuple[F32, F32]]
"""Planes [n, rows, cols, planes] to policy logits [n, actions] and wdl [n, 3]."""

Library = Callable[[Network, Game, int, int], Callable[[], Run]]
"""(folded network, game, rows of a chunk, threads) -> a function that makes a `Run` for each thread."""

NETWORKS = ("tiny", "small", "medium", "tf-small")
ROWS = 256
SECONDS = 0.5
"""Seconds of a turn."""


class LibraryForward:
    """A library on one core, with our way in and out. `rows`: those of a chunk, whatever is asked."""

    def __init__(self, run: Run, shape: PlaneShape, rows: int) -> None:
        self._run, self._shape, self._masks = run, shape, shape.masks()
        self._planes = np.zeros((rows, shape.rows, shape.cols, shape.planes), np.float32)

    def __call__(self, batch: Batch, _bucket: int, priors: F32, wdl: F32) -> None:
        shape = self._shape
        bits, scalars = shape.binary_words(batch.features), shape.scalar_values(batch.features)
        planes = self._planes.reshape(-1, shape.cells, shape.planes)
        write_planes(bits, scalars, self._masks, np.float32(1), planes)
        logits, chances = self._run(self._planes)
        legal_priors(logits, batch.counts, batch.actions, priors)
        wdl[:] = chances[: batch.rows]


class LibraryEngine(CpuEngine):
    """The threads of our engine around a library."""

    def __init__(self, library: Library, network: Network, game: Game, *, threads: int) -> None:
        self._library = library
        super().__init__(network, game, game.history, faster_dtype(), threads=threads)

    def _lay_out(self, network: Network) -> tuple[Callable[[], Forward], tuple[int, ...]]:
        make = self._library(network, self._game, self._chunk, self._threads)
        shape, chunk = PlaneShape.of(self._game, self._history), self._chunk
        return lambda: LibraryForward(make(), shape, chunk), (chunk,)


def openvino(network: Network, game: Game, rows: int, threads: int) -> Callable[[], Run]:
    """One stream a thread."""
    import openvino as ov
    from openvino import preprocess

    shape = [rows, game.planes(game.history), game.rows, game.cols]
    model = ov.convert_model(Playing(network).eval(), example_input=torch.zeros(shape), input=shape)
    prepared = preprocess.PrePostProcessor(model)
    prepared.input().tensor().set_layout(ov.Layout("NHWC"))
    prepared.input().model().set_layout(ov.Layout("NCHW"))
    precision = "bf16" if faster_dtype() == torch.bfloat16 else "f32"
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "NUM_STREAMS": threads,
        "INFERENCE_NUM_THREADS": threads,
    }
    compiled = ov.Core().compile_model(prepared.build(), "CPU", settings | {"ENABLE_CPU_PINNING": False})

    def make() -> Run:
        request = compiled.create_infer_request()

        def run(planes: F32) -> tuple[F32, F32]:
            request.infer([ov.Tensor(planes, shared_memory=True)])
            return request.get_output_tensor(0).data, request.get_output_tensor(1).data

        return run

    return make


def onnx_runtime(network: Network, game: Game, _rows: int, _threads: int) -> Callable[[], Run]:
    """A session that computes in the thread that asks."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = onnx_model(network, game, WeightsMeta(game.name, game.history, network.architecture))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(planes: F32) -> tuple[F32, F32]:
        found: Any = session.run(None, {"planes": np.ascontiguousarray(planes.transpose(0, 3, 1, 2))})
        return found[0], found[1]

    return lambda: run


LIBRARIES: dict[str, Library] = {"openvino": openvino, "onnxruntime": onnx_runtime}


def engines(network: Network, game: Game, threads: int) -> dict[str, CpuEngine]:
    """All that can run this network here."""
    folded, dtype, history = fold(network), faster_dtype(), game.history
    found: dict[str, CpuEngine] = {}
    if network.architecture.family == "residual":
        found["ours"] = CpuEngine(folded, game, history, dtype, threads=threads)
    found["module"] = CpuEngine(folded, game, history, dtype, threads=threads, own_kernels=False)
    for name, library in LIBRARIES.items():
        if find_spec(name):
            found[name] = LibraryEngine(library, folded, game, threads=threads)
    return found


def rate(engine: CpuEngine, batch: Batch) -> tuple[float, float]:
    """Positions a second, and microseconds of processor time a position."""
    begin, cpu, runs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < begin + SECONDS:
        engine.start(batch, 0)
        engine.finish(0)
        runs += 1
    rows = runs * batch.rows
    return rows / (time.perf_counter() - begin), 1e6 * (time.process_time() - cpu) / rows


def compare(name: str, threads: int) -> dict[str, float]:
    """Positions a second of each engine with one network; prints a line for each."""
    game = get_game("chess")
    batch = Batch(*chess_like_batch(game, ROWS))
    torch.manual_seed(0)
    found = engines(build(named(name), game, game.history).eval(), game, threads)
    cpu: dict[str, list[float]] = {kind: [] for kind in found}

    def measure(kind: str) -> float:
        pace, each = rate(found[kind], batch)
        cpu[kind].append(each)
        return pace

    for kind in found:
        measure(kind)  # what is made on first use is not timed
        cpu[kind].clear()
    paces = in_turns({kind: partial(measure, kind) for kind in found})
    first = next(iter(paces.values()))
    for kind, values in paces.items():
        text, beside = Spread.of(values).text(), ratio(values, first).text(".2f")
        each = Spread.of(cpu[kind]).median
        print(f"{name:9} {kind:12} {text:>26} positions/s {each:8.1f} us  {beside}", flush=True)
        found[kind].close()
    return {f"{name}_{kind}": round(Spread.of(values).median) for kind, values in paces.items()}


def run(networks: tuple[str, ...] = NETWORKS, threads: int = 2) -> dict[str, float]:
    """A table for each network; ratios are to its first engine."""
    figures: dict[str, float] = {}
    for name in networks:
        figures |= compare(name, threads)
    return figures
