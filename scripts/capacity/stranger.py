"""The cost of one stranger's roll-call calls, and of the checks of its proofs.

    OPENBLAS_NUM_THREADS=1 python -m scripts.capacity.stranger

Times are CPU time on this machine, the least of several turns or of their medians. Fees are those of a chain without
congestion.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import PROVE_WEIGHT, Capacity
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MAX, ROWS_MIN, SIZE_MAX, SIZE_MIN, WorkShape
from gpu_tasks.market.claims.collateral import CLAIM_POINTS_MAX
from gpu_tasks.workloads.matmul_chain.arithmetic import NumpyChain
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from runtime.encoding.types import GRAINS_PER_OGPU, Signed
from runtime.frame.errors import DispatchError
from runtime.frame.fees import MULTIPLIER_ONE, FeePrices, total_fee
from runtime.frame.runtime import Bound
from scripts.capacity.crowd import FAR_BLOCKS, ROOT, start_roll_call
from simulation.chains.market_chain import MarketChain, named_keys, signed

VALIDATORS = 128
"""The largest active set."""
SIGNED_BYTES = 110
"""The bytes of an extrinsic beside its call: length, signer, signature, era, nonce, tip."""
ROUNDS_TIMED = 512
"""The timed rounds of a checked chain. Further rounds take equally long."""
REPEATS, MEDIANS = 40, 5


@dataclass(frozen=True)
class StrangersProof:
    """One way to call `prove`."""

    says: str
    account: bytes
    device: bytes
    shape: WorkShape = field(default_factory=lambda: WorkShape(SIZE_MIN, ROWS_MIN, 1))


class UndoneError(Exception):
    """Raised to undo a call after its measurement."""


def main() -> None:
    """Print a line for each way to call `prove`, and one for the check of each number of rows."""
    chain = MarketChain(
        named_keys(VALIDATORS),
        constants={"Capacity.roll_calls_enabled": 1, "Capacity.period": FAR_BLOCKS},
        check=lambda *_: None,
    )
    owner, stranger = chain.validators[0], chain.validators[1]
    proof = StrangersProof("in time", owner.stash, owner.device)
    _tell(chain, StrangersProof("no roll call", owner.stash, owner.device))
    called_at = start_roll_call(chain)
    chain.blocks_to(called_at + times.PROOFS_FROM - 1)
    _tell(chain, StrangersProof("another's device", stranger.stash, owner.device))
    _tell(chain, StrangersProof("work out of bounds", owner.stash, owner.device, WorkShape(1, 1, 1)))
    _tell(chain, proof)
    chain.block(signed(owner.stash, Capacity.prove(device=owner.device, shape=proof.shape, root=ROOT)))
    _tell(chain, StrangersProof("a second time", owner.stash, owner.device))
    _tell_checks()


def _tell(chain: MarketChain, tried: StrangersProof) -> None:
    """Decode and dispatch the call repeatedly, undo each, and print the cost."""
    call = Capacity.prove(device=tried.device, shape=tried.shape, root=ROOT)
    raw, answers = chain.runtime.call_codec.encode(call), set[str]()

    def once(bound: Bound) -> None:
        try:
            with bound.overlay.transaction():
                bound.dispatch(chain.runtime.call_codec.decode(raw), Signed(tried.account))
                _undo()
        except UndoneError:
            answers.add("done")
        except DispatchError as error:
            answers.add(type(error).__name__)

    seconds: list[float] = []
    chain.block(lambda bound: seconds.append(_least_median(lambda: once(bound))))
    length = len(raw) + SIGNED_BYTES
    fee = total_fee(FeePrices(), length, PROVE_WEIGHT, MULTIPLIER_ONE)
    print(
        f"{tried.says:<20} {', '.join(sorted(answers)):<16} {seconds[0] * 1e6:>7.0f} us  {length:>6} bytes  fee "
        f"{fee / GRAINS_PER_OGPU:.6f} oGPU for {PROVE_WEIGHT.ref_time / 1e6:.0f} us"
    )


def _undo() -> None:
    raise UndoneError


def _least_median(work: Callable[[], None]) -> float:
    def median() -> float:
        taken = []
        for _ in range(REPEATS):
            begun = time.process_time()
            work()
            taken.append(time.process_time() - begun)
        return statistics.median(taken)

    return min(median() for _ in range(MEDIANS))


def _tell_checks() -> None:
    """Print the time of a check of the largest work."""

    def taken(rounds: int, rows: int) -> float:
        challenge = ChainChallenge(bytes(32), ChainShape(SIZE_MAX, ROWS_MAX, rounds))
        begun = time.process_time()
        NumpyChain().ends(challenge, tuple(range(rows)))
        return time.process_time() - begun

    for rows in (1, CLAIM_POINTS_MAX):
        seconds = min(taken(ROUNDS_TIMED, rows) for _ in range(3)) * ROUNDS_MAX / ROUNDS_TIMED
        print(f"the largest work, {rows} rows: {seconds:.1f} s of a core")


if __name__ == "__main__":
    main()
