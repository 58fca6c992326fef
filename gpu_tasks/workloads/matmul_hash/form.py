"""`matmul-hash` as programs see it: a seed, or a seed with a size and a number of rounds.

The cost unit is a product. Invariant: no request costs more products than `cost_max` or breaks the limits of
`request.py`.
"""

from collections.abc import Mapping

from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm, settings
from gpu_tasks.workloads.matmul_hash.request import (
    MODEL_ID,
    OUTPUT,
    OUTPUT_BYTES,
    REQUEST,
    SEED_MAX,
    SIZE_MAX,
    WORKLOAD_ID,
    ChainRequest,
    limits_broken,
)
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError

SIZE = Option("size", "64", f"rows of each matrix for lines without a size, 1 to {SIZE_MAX}")
_DIGITS_MAX = len(str(SEED_MAX))


class MatmulHashForm(WorkloadForm):
    """`matmul-hash` for programs. See `WorkloadForm` for the methods."""

    name = "matmul-hash"
    workload_id = WORKLOAD_ID
    model_id = MODEL_ID
    cost_unit = "product"
    backends = ("numpy", "reference")
    options = (SIZE,)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode `SEED` as `cost_max` products of the set size, or exactly `SEED SIZE ROUNDS`."""
        size = settings(self.options, options)[SIZE.name]
        words = text.split()
        if len(words) == 1:
            words += [size, str(cost_max)]
        if len(words) != 3:
            raise RequestError(f"{text!r} is neither SEED nor SEED SIZE ROUNDS")
        request = ChainRequest(*map(_number, words))
        problem = limits_broken(request.size, request.rounds)
        if problem is not None:
            raise RequestError(problem)
        if request.rounds > cost_max:
            raise RequestError(
                f"{request.rounds} rounds cost more than {cost_max} products; ask for fewer or allow more"
            )
        return REQUEST.encode(request)

    def show_request(self, encoded_request: bytes) -> str:
        """Return `SEED SIZE ROUNDS`."""
        request = REQUEST.decode(encoded_request)
        return f"{request.seed} {request.size} {request.rounds}"

    def show_output(self, encoded_output: bytes) -> str:
        """Return the hash of the last matrix in hex, or all the bytes if they are no output."""
        try:
            digest = OUTPUT.decode(encoded_output).digest
        except DecodeError:
            digest = encoded_output
        return "0x" + digest.hex()

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the rounds, one product each."""
        return REQUEST.decode(encoded_request).rounds

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the fixed length of every output."""
        REQUEST.decode(encoded_request)
        return OUTPUT_BYTES

    def cost(self, encoded_output: bytes) -> int:
        """Return the products that the output names, or 0 if the bytes are no output."""
        try:
            return OUTPUT.decode(encoded_output).products
        except DecodeError:
            return 0

    def open(self, backend_name: str) -> Workload:
        """Open the workload on `numpy` or `reference`."""
        from gpu_tasks.workloads.matmul_hash.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend_name)


def _number(text: str) -> int:
    """Return a whole number in decimal digits. Raise RequestError above the largest seed."""
    # `isdigit` alone also accepts digits of other scripts; the length bound keeps `int` cheap.
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    if not is_number or int(text) > SEED_MAX:
        raise RequestError(f"{text!r} is not a whole number from 0 to {SEED_MAX}")
    return int(text)
