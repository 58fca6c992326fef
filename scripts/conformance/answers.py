"""The hashes of one backend under one Python, by name, as JSON on standard output.

    python -m scripts.conformance.answers [numpy|reference|plain|planted|torch-cpu|torch-cuda:0] [--only WORKLOADS]

The lines with `vector` belong into the `conformance.py` of a workload (or `service.py` of `matmul-hash`) after an
intended change of its operations or its model. `plain` computes `train-int8` and
`render-tile` in plain Python integers, where these are fast enough. `planted` is wrong in one bit (`planted.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
from collections.abc import Callable, Iterator
from ctypes import CDLL, c_char_p
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpu_tasks.market.training.items import leg_segments
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.backend_choice import UnknownBackendError
from gpu_tasks.workloads.render_tile.reference import pixel_bytes
from gpu_tasks.workloads.render_tile.request import AskedTile, decode_request
from gpu_tasks.workloads.stepwise import states, stepwise
from gpu_tasks.workloads.train_int8.request import REQUEST as TRAINING_REQUEST
from gpu_tasks.workloads.workload import Workload
from scripts.conformance import cases
from scripts.conformance.plain_training import plain_states

if TYPE_CHECKING:
    from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend

PLAIN, PLANTED = "plain", "planted"
Hashes = dict[str, str]
Backend = TypeVar("Backend")


def plain_tile_states(request: bytes) -> Iterator[bytes]:
    """Yield the states at all boundaries of a requested run."""
    asked, digest = decode_request(request), blake2b(request, digest_size=32).digest()
    rows, done = b"", 0
    yield digest + bytes(4)
    while done < asked.tile.rows:
        until = min(done + asked.segment, asked.tile.rows)
        rows += b"".join(_row(asked, row) for row in range(done, until))
        done = until
        yield digest + done.to_bytes(4, "little") + rows


def _row(asked: AskedTile, row: int) -> bytes:
    tile = asked.tile
    return b"".join(
        pixel_bytes(asked.scene, column, tile.top + row) for column in range(tile.left, tile.left + tile.columns)
    )


class Skipped(Exception):
    """This machine lacks a requirement of the backend. The text names it."""


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", nargs="?", default="numpy")
    parser.add_argument("--only", metavar="WORKLOADS", help="names of workloads, with commas between them")
    parser.add_argument("--model", help="also a model of this machine, by name or id")
    options = parser.parse_args()
    backend: str = options.backend
    only = None if options.only is None else frozenset(options.only.split(","))
    said: dict[str, object] = {"python": platform.python_version(), "backend": backend}
    try:
        said |= {"hashes": answers(backend, only, options.model), **_libraries(backend)}
    except Skipped as skipped:
        said["skipped"] = str(skipped)
    print(json.dumps(said, indent=1))


def answers(backend: str, only: frozenset[str] | None = None, model: str | None = None) -> Hashes:
    """Return the hashes of a backend, of all workloads or `only` some, and of a model of this machine.

    Raise Skipped if the backend is unavailable here, LookupError if it does not exist.
    """
    if backend == PLAIN:
        return plain_answers()
    if backend.startswith("torch-") and importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch is not installed")
    parts = {
        "train-int8": _training, "matmul-hash": _chains, "render-tile": _tiles,
        "decoder-int8": _decoders, "embed-int8": _encoders,
    }  # fmt: skip
    found = {
        f"{name} {what}": digest
        for name, compute in parts.items()
        if only is None or name in only
        for what, digest in compute(backend).items()
    }
    return found if model is None else found | _of_model(model, backend)


def plain_answers() -> Hashes:
    """Return roots and last states of the runs that plain integers compute in seconds, without NumPy."""
    found: Hashes = {}
    for name, asked in cases.plain_training().items():
        digests = [state_hash(state) for state in plain_states(asked)]
        found |= _of_a_run(f"train-int8 {name}", digests)
    for name, request in cases.tiles().items():
        found |= _of_a_run(f"render-tile {name}", [state_hash(state) for state in plain_tile_states(request)])
    return found


def milestone_states(segments: int) -> list[int]:
    """Return the i of s(i) at each milestone but the last."""
    milestones = min(cases.MILESTONES, segments)
    return [leg_segments(segments, number, milestones).start for number in range(1, milestones)]


def _training(backend: str) -> Hashes:
    """Return the vectors, and for each run its root, last state, output and the roots of its resumed runs."""
    from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic  # noqa: PLC0415  # what follows loads NumPy:
    from gpu_tasks.workloads.train_int8.backends import arithmetic  # noqa: PLC0415  # `plain` needs none
    from gpu_tasks.workloads.train_int8.conformance import all_hashes  # noqa: PLC0415
    from gpu_tasks.workloads.train_int8.service import IntegerTraining  # noqa: PLC0415
    from scripts.conformance.planted import PlantedTraining  # noqa: PLC0415

    def fresh() -> ExactArithmetic:
        return PlantedTraining() if backend == PLANTED else _had(lambda: arithmetic(backend))

    found = {f"vector {name}": digest for name, digest in all_hashes(fresh()).items()}
    for name, asked in cases.training().items():
        found |= _runs(name, lambda: IntegerTraining(fresh()), TRAINING_REQUEST.encode(asked))
    return found


def _tiles(backend: str) -> Hashes:
    """Return the vectors, and for each tile the hashes of its run."""
    from gpu_tasks.workloads.render_tile.backends import backend_named  # noqa: PLC0415
    from gpu_tasks.workloads.render_tile.conformance import all_hashes  # noqa: PLC0415
    from gpu_tasks.workloads.render_tile.service import TileRendering  # noqa: PLC0415
    from scripts.conformance.planted import PlantedTiles  # noqa: PLC0415

    use = PlantedTiles() if backend == PLANTED else _had(lambda: backend_named(backend))
    found = {f"vector {name}": digest for name, digest in all_hashes(use).items()}
    for name, request in cases.tiles().items():
        found |= _runs(name, lambda: TileRendering(use), request)
    return found


def _runs(name: str, fresh: Callable[[], Workload], request: bytes) -> Hashes:
    """Return a run's root, last state and output, and the roots of runs resumed at its milestones."""
    whole = list(states(stepwise(fresh()).begin(request)))
    digests = [state_hash(state) for state in whole]
    found = _of_a_run(name, digests) | {f"{name} output": _hash(fresh().run(request))}
    for number, index in enumerate(milestone_states(len(whole) - 1), start=1):
        resumed = states(stepwise(fresh()).begin(request), whole[index])
        found[f"{name} trace root, on from milestone {number}"] = trace_root(
            [*digests[:index], *(state_hash(state) for state in resumed)]
        ).hex()
    return found


def _chains(backend: str) -> Hashes:
    """Return the vector and the outputs, or nothing if `matmul-hash` lacks the backend."""
    from gpu_tasks.workloads.matmul_hash.request import REQUEST  # noqa: PLC0415
    from gpu_tasks.workloads.matmul_hash.service import BACKENDS, VECTORS, MatmulHash  # noqa: PLC0415
    from scripts.conformance.planted import planted_chain  # noqa: PLC0415

    if backend not in {*BACKENDS, PLANTED}:
        return {}
    workload = MatmulHash(planted_chain if backend == PLANTED else BACKENDS[backend])
    found = {"vector": _hash(b"".join(workload.run(REQUEST.encode(vector)) for vector in VECTORS))}
    return found | {
        f"{name} output": _hash(workload.run(REQUEST.encode(asked))) for name, asked in cases.chains().items()
    }


def _decoders(backend: str) -> Hashes:
    from scripts.conformance.transformers import decoder_hashes  # noqa: PLC0415  # loads NumPy, as above

    return decoder_hashes(_transformer_backend(backend))


def _encoders(backend: str) -> Hashes:
    from scripts.conformance.transformers import encoder_hashes  # noqa: PLC0415

    return encoder_hashes(_transformer_backend(backend))


def _of_model(model: str, backend: str) -> Hashes:
    from scripts.conformance.transformers import model_hashes  # noqa: PLC0415

    return model_hashes(model, backend)


def _transformer_backend(backend: str) -> TransformerBackend:
    from gpu_tasks.workloads.integer_transformer.backends import arithmetic  # noqa: PLC0415
    from scripts.conformance.planted import PlantedTransformer  # noqa: PLC0415

    return PlantedTransformer() if backend == PLANTED else _had(lambda: arithmetic(backend))


def _had(opened: Callable[[], Backend]) -> Backend:
    """Return the arithmetic. Raise Skipped if its library or its device is missing."""
    try:
        return opened()
    except ImportError as error:
        raise Skipped(str(error)) from error
    except UnknownBackendError:
        raise
    except LookupError as error:
        raise Skipped(str(error)) from error


def _of_a_run(name: str, digests: list[bytes]) -> Hashes:
    return {f"{name} trace root": trace_root(digests).hex(), f"{name} last state": digests[-1].hex()}


def _libraries(backend: str) -> dict[str, str]:
    """Return the versions of the libraries that computed, and the processor instructions that they use."""
    if backend == PLAIN:
        return {}
    if not backend.startswith("torch-"):
        return {"numpy": version("numpy"), "kernels": _numpy_kernels()}
    import torch  # noqa: PLC0415

    return {
        "numpy": version("numpy"), "torch": version("torch"), "kernels": torch.backends.cpu.get_cpu_capability(),
    }  # fmt: skip


def _numpy_kernels() -> str:
    """Return the kernels that OpenBLAS chose, by its name of a processor, or an empty text for another BLAS."""
    import numpy as np  # noqa: PLC0415

    # NumPy shows the build of its BLAS, and not the processor that the library chose at its start.
    for library in Path(np.__file__).parent.with_name("numpy.libs").glob("libscipy_openblas64_*"):
        name = CDLL(str(library)).scipy_openblas_get_corename64_
        name.restype = c_char_p
        return str(name().decode())
    return ""


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


if __name__ == "__main__":
    main()
