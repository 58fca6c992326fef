"""The process that computes matrix chains for roll calls, until its input closes.

    python -m gpu_tasks.provider.execution.chain_worker --backend numpy

Invariants:

* Limits are set before anything is loaded.
* Standard output carries answers only.
* No customer data is computed here. The work follows from a seed of the chain and a shape of the provider's own.
"""

from __future__ import annotations

import argparse
from typing import Annotated

from gpu_tasks.provider.execution import limits
from gpu_tasks.provider.execution.worker import pipes
from gpu_tasks.provider.execution.worker_wire import read_message, write_message
from gpu_tasks.workloads.matmul_chain.challenge import ROWS_MAX, SIZE_MAX, ChainChallenge
from runtime.encoding.codec import U32, Bounded, codec, struct
from runtime.encoding.types import Hash

WORK_BYTES_MAX = 4_096
ROWS_AT_ONCE_MAX = 64


@struct
class ChainWork:
    """A matrix chain, and the rows whose last values are requested, or none to request the hashes of all."""

    challenge: ChainChallenge
    rows: Annotated[tuple[U32, ...], Bounded(ROWS_AT_ONCE_MAX)] = ()


@struct
class ChainRows:
    """The hashes of all rows and the root over them, or the last values of the named rows."""

    root: Hash
    """Zeros if rows were named."""
    digests: Annotated[bytes, Bounded(32 * ROWS_MAX)]
    """The hashes of all rows, concatenated. Empty if rows were named."""
    ends: Annotated[bytes, Bounded(SIZE_MAX * ROWS_AT_ONCE_MAX)] = b""
    """The last values of the named rows, concatenated in the order asked."""


WORK = codec(ChainWork)
ROWS = codec(ChainRows)


def main() -> None:
    """Limit this process, load the backend and answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", required=True)
    backend_name = parser.parse_args().backend
    limits.apply(limits.chain_limits_for(backend_name))
    work_source, sink = pipes()
    from gpu_tasks.workloads.matmul_chain.prover import (  # noqa: PLC0415 # NumPy loads under the limits
        chain_arithmetic,
        row_hashes,
        rows_root,
    )

    arithmetic = chain_arithmetic(backend_name)
    # The daemon waits for this first message, so that loading does not count as an answer's time.
    write_message(sink, b"")
    while work_body := read_message(work_source, WORK_BYTES_MAX):
        chain_work = WORK.decode(work_body)
        if chain_work.rows:
            chain_rows = ChainRows(bytes(32), b"", arithmetic.ends(chain_work.challenge, chain_work.rows))
        else:
            row_digests = row_hashes(arithmetic, chain_work.challenge)
            chain_rows = ChainRows(rows_root(row_digests), b"".join(row_digests))
        write_message(sink, ROWS.encode(chain_rows))


if __name__ == "__main__":
    main()
