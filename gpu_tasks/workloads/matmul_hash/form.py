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

    def encode(self, input_text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode `SEED` as `cost_max` products of the set size, or exactly `SEED SIZE ROUNDS`."""
        size_option = settings(self.options, options)[SIZE.name]
        number_words = input_text.split()
        if len(number_words) == 1:
            number_words += [size_option, str(cost_max)]
        if len(number_words) != 3:
            raise RequestError(f"{input_text!r} is neither SEED nor SEED SIZE ROUNDS")
        chain_request = ChainRequest(*map(_number, number_words))
        broken_limits = limits_broken(chain_request.size, chain_request.rounds)
        if broken_limits is not None:
            raise RequestError(broken_limits)
        if chain_request.rounds > cost_max:
            raise RequestError(
                f"{chain_request.rounds} rounds cost more than {cost_max} products; ask for fewer or allow more"
            )
        return REQUEST.encode(chain_request)

    def show_request(self, encoded_request: bytes) -> str:
        """Return `SEED SIZE ROUNDS`."""
        chain_request = REQUEST.decode(encoded_request)
        return f"{chain_request.seed} {chain_request.size} {chain_request.rounds}"

    def show_output(self, encoded_output: bytes) -> str:
        """Return the hash of the last matrix in hex, or all the bytes if they are no output."""
        try:
            shown_hash = OUTPUT.decode(encoded_output).digest
        except DecodeError:
            shown_hash = encoded_output
        return "0x" + shown_hash.hex()

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


def _number(number_text: str) -> int:
    """Return a whole number in decimal digits. Raise RequestError above the largest seed."""
    # `isdigit` alone also accepts digits of other scripts; the length bound keeps `int` cheap.
    is_number = number_text.isascii() and number_text.isdigit() and len(number_text) <= _DIGITS_MAX
    if not is_number or int(number_text) > SEED_MAX:
        raise RequestError(f"{number_text!r} is not a whole number from 0 to {SEED_MAX}")
    return int(number_text)
