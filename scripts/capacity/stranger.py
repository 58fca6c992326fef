"""The cost of one stranger's roll-call calls before any proof: time and bytes, and the fee for them.

    python -m scripts.capacity.stranger

Times are CPU time on this machine, the least of several medians. Fees are those of a chain without congestion.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import SHOW_WEIGHT, Capacity
from gpu_tasks.market.capacity.proofs import (
    PATH_MAX,
    ROUNDS_MAX,
    ROWS_DRAWN,
    ROWS_MAX,
    ROWS_MIN,
    SIZE_MAX,
    SIZE_MIN,
    ShownRow,
    WorkShape,
)
from gpu_tasks.market.weights import WEIGHTS
from gpu_tasks.workloads.matmul_chain.arithmetic import NumpyChain
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from gpu_tasks.workloads.matmul_chain.prover import hashes_of
from runtime.encoding.types import GRAINS_PER_OGPU, Signed, Weight
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.fees import MULTIPLIER_ONE, FeePrices, total_fee
from runtime.frame.runtime import Bound
from scripts.capacity.crowd import PERIOD
from simulation.chains.market_chain import MarketChain, named_keys, signed
from simulation.pallets.devices import ROOT, shown_rows

VALIDATORS = 128
"""The largest active set, from which inspectors are drawn."""
SIGNED_BYTES = 110
"""The bytes of an extrinsic beside its call: length, signer, signature, era, nonce, tip."""
ROUNDS_TIMED = 64
"""The timed rounds of an inspected chain. Further rounds take equally long."""
REPEATS, MEDIANS = 40, 5


@dataclass(frozen=True)
class StrangersCall:
    """One way to make a call."""

    says: str
    account: bytes
    call: Call
    weight: Weight


class UndoneError(Exception):
    """Raised to undo a call after its measurement."""


def main() -> None:
    """Print a line for each call, and one for an inspection."""
    chain = MarketChain(
        named_keys(VALIDATORS),
        constants={"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD},
        check=lambda *_: None,
    )
    owner, stranger = chain.validators[0], chain.validators[1]
    shape = WorkShape(SIZE_MIN, ROWS_MIN, 1)
    enrol, weight = Capacity.enrol(device=owner.device, shape=shape), WEIGHTS["Capacity.enrol"]
    _tell(chain, StrangersCall("enrol, another's device", stranger.stash, enrol, weight))
    _tell(chain, StrangersCall("enrol, held with its bond", owner.stash, enrol, weight))
    _to_rows(chain, enrol, owner.stash, owner.device)
    newest = chain.now()[Capacity].current.get()
    assert newest is not None, "it was called"
    right = shown_rows(newest.rows_seed, owner.device)
    wrong = (*right[:-1], ShownRow(bytes(32), right[-1].path))
    long = tuple(ShownRow(bytes(32), (bytes(32),) * PATH_MAX) for _ in range(ROWS_DRAWN))
    for says, account, rows in (
        ("show_rows, another's device", stranger.stash, long),
        ("show_rows, the last one wrong", owner.stash, wrong),
        ("show_rows, as large as can be", owner.stash, long),
        ("show_rows, of nothing computed", owner.stash, right),
    ):
        call = Capacity.show_rows(device=owner.device, rows=rows)
        _tell(chain, StrangersCall(says, account, call, SHOW_WEIGHT))
    chain.block(signed(owner.stash, Capacity.show_rows(device=owner.device, rows=right)))
    chain.blocks_to(times.inspectors_at(newest))
    newest = chain.now()[Capacity].current.get()
    assert newest is not None, "it goes on"
    drawn = chain.now()[Capacity].inspectors(newest, owner.device, owner.stash)
    nobody = next(keys.stash for keys in chain.validators[1:] if keys.stash not in drawn)
    objection = Capacity.object(device=owner.device)
    _tell(
        chain, StrangersCall("object, by an account that was not drawn", nobody, objection, WEIGHTS["Capacity.object"])
    )
    _tell(chain, StrangersCall("object, by an inspector: free", drawn[0], objection, WEIGHTS["Capacity.object"]))
    _tell_inspection()


def _to_rows(chain: MarketChain, enrol: Call, owner: bytes, device: bytes) -> None:
    """Enrol the device, start a roll call, commit to uncomputed rows, and draw the rows."""
    chain.block(signed(owner, enrol))
    while chain.now()[Capacity].current.get() is None:
        chain.block()
    called = chain.now()[Capacity].current.get()
    assert called is not None, "just looked"
    chain.blocks_to(called.at + times.COMMITS_FROM - 1)
    chain.block(signed(owner, Capacity.commit(device=device, root=ROOT)))
    chain.blocks_to(times.rows_at(called))


def _tell(chain: MarketChain, tried: StrangersCall) -> None:
    """Decode and dispatch the call repeatedly, undo each, and print the cost."""
    raw, answers = chain.runtime.call_codec.encode(tried.call), set[str]()

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
    fee = total_fee(FeePrices(), length, tried.weight, MULTIPLIER_ONE)
    said = ", ".join(sorted(answers))
    print(
        f"{tried.says:<32} {said:<16} {seconds[0] * 1e6:>7.0f} us  {length:>6} bytes  fee {fee / GRAINS_PER_OGPU:.6f}"
        f" oGPU for {tried.weight.ref_time / 1e6:.0f} us"
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


def _tell_inspection() -> None:
    """Print the time of an inspector for one device with the largest work: the matrix once, then each round."""

    def taken(rounds: int, rows: int) -> float:
        challenge = ChainChallenge(bytes(32), ChainShape(SIZE_MAX, ROWS_MAX, rounds))
        begun = time.process_time()
        hashes_of(NumpyChain(), challenge, tuple(range(rows)))
        return time.process_time() - begun

    for rows in (1, ROWS_DRAWN):
        first = min(taken(ROUNDS_TIMED, rows) for _ in range(3))
        each = (min(taken(2 * ROUNDS_TIMED, rows) for _ in range(3)) - first) / ROUNDS_TIMED
        seconds = first + each * (ROUNDS_MAX - ROUNDS_TIMED)
        print(f"inspection of the largest work, {rows} rows: {seconds:.1f} s of a core, for each of three inspectors")


if __name__ == "__main__":
    main()
