"""What steps cost with few and with many delegators behind one validator: processor time, and bytes of state.

The chains have the same accounts; what differs is behind whom they stand: so many behind the one that is measured, the
others behind another. They are measured in turns, so that what else the machine does falls on all of them. A step is
its execution and the root of the state after it. One chain more has the small crowd alone: what its root takes less is
what the tree of the state grows by with its entries, whosever they are.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Signed
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking import eras, held_slashes
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.trie import Trie
from simulation.chains.evidence import double
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed
from simulation.stakes.season import PALLETS

COUNTS = (10, 1_000, 10_000)
ROUNDS = 300
LEAST = OGPU // 50
EPOCH_BLOCKS = 3
SAVER, FRESH, REPORTER = Keys("saver"), Keys("fresh"), Keys("reporter")
ALICE, BOB = named_keys(2)


@dataclass
class Backed:
    """A chain of two validators, behind one of which stand the saver and so many others, all for whole eras."""

    count: int
    total: int
    """All delegators of the chain."""
    chain: MarketChain
    trie: Trie
    bytes_each: float
    execution: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds, by step."""
    root: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, name: str, step: Callable[[Bound], object]) -> None:
        """A step on the newest state, which stays as it is."""
        bound = PREPARED.get(name, MarketChain.now)(self.chain)
        begun = time.thread_time()
        step(bound)
        done = time.thread_time()
        changes = bound.overlay.changes()
        hashed = time.thread_time()
        self.trie.updated(changes)
        self.execution.setdefault(name, []).append(1e6 * (done - begun))
        self.root.setdefault(name, []).append(1e6 * (time.thread_time() - hashed))


def backed(count: int, total: int) -> Backed:
    """Let so many delegate, and some eras pass, up to the last block of one."""
    rules = {"TrustStake.delegation_min": LEAST}
    others = [SAVER, FRESH, REPORTER]
    chain = MarketChain([ALICE, BOB], others, rules, epoch_blocks=EPOCH_BLOCKS, pallets=PALLETS, check=lambda *_: None)
    chain.block(signed(SAVER.stash, TrustStake.delegate(ALICE.stash, BOND)))
    crowd = [blake2_256(number.to_bytes(4, "big")) for number in range(total)]

    def paid(bound: Bound) -> None:
        for who in crowd:
            bound[Balances].transfer(SAVER.stash, who, 2 * LEAST)

    def delegated(bound: Bound) -> None:
        for place, who in enumerate(crowd):
            validator = ALICE.stash if place < count else BOB.stash
            bound.dispatch(TrustStake.delegate(validator, LEAST), Signed(who))

    chain.block(paid)
    without = sum(map(len, entries(chain)))
    chain.block(delegated)
    each = (sum(map(len, entries(chain))) - without) / total
    chain.blocks_to(4 * EPOCH_BLOCKS)
    chain.height += 1
    return Backed(count, total, chain, Trie(dict(chain.state.values)), each)


def entries(chain: MarketChain) -> list[bytes]:
    """What the state holds, by keys and values."""
    return [key + value for key, value in chain.state.values.items()]


def measure(crowds: Sequence[Backed], rounds: int, on_round: Callable[[], None] = lambda: None) -> None:
    """Every step on every chain, in turns."""
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for name, step in STEPS.items():
                for place in range(len(crowds)):
                    crowds[(place + number) % len(crowds)].measure(name, step)
            gc.collect(0)
            on_round()
    finally:
        gc.enable()


@dataclass(frozen=True)
class Compared:
    """One step over all crowds: medians in microseconds, in the order of the crowds."""

    step: str
    execution: tuple[float, ...]
    root: tuple[float, ...]

    @property
    def apart_percent(self) -> float:
        """How much more the dearest takes than the cheapest."""
        both = [execution + root for execution, root in zip(self.execution, self.root, strict=True)]
        return 100 * (max(both) / min(both) - 1)


def compared(crowds: Sequence[Backed]) -> list[Compared]:
    """The medians of each step."""
    return [
        Compared(
            name,
            tuple(statistics.median(crowd.execution[name]) for crowd in crowds),
            tuple(statistics.median(crowd.root[name]) for crowd in crowds),
        )
        for name in STEPS
    ]


def _first_block(bound: Bound) -> None:
    """The hooks of an era's first block."""
    for pallet in bound.pallets:
        pallet.on_initialize()


def _held(chain: MarketChain) -> Bound:
    bound = chain.now()
    held_slashes.hold_back(bound[TrustStake], ALICE.stash, 3, SlashStep(0, 50_000), REPORTER.stash)
    bound[TrustStake].current_era.set(bound[TrustStake].current_era.get() + 1)
    return bound


STEPS: dict[str, Callable[[Bound], object]] = {
    "bond": signed(FRESH.stash, TrustStake.bond(value=BOND)),
    "delegate": signed(SAVER.stash, TrustStake.delegate(ALICE.stash, OGPU)),
    "delegate anew": signed(FRESH.stash, TrustStake.delegate(ALICE.stash, OGPU)),
    "redelegate": signed(SAVER.stash, TrustStake.redelegate(ALICE.stash, BOB.stash, OGPU)),
    "undelegate": signed(SAVER.stash, TrustStake.undelegate(ALICE.stash, OGPU)),
    "claim": signed(SAVER.stash, TrustStake.claim(ALICE.stash)),
    "compound": signed(SAVER.stash, TrustStake.compound(ALICE.stash)),
    # what an era's turn does first: beside the election it would not be seen
    "payout": lambda bound: eras._pay_for(bound[TrustStake], bound[TrustStake].current_era.get()),  # noqa: SLF001
    "slash reported": signed(REPORTER.stash, double(ALICE, 9, 3)),
    "slash taken": lambda bound: held_slashes.take_due(bound[TrustStake]),
    "an era's first block": _first_block,
}
PREPARED: dict[str, Callable[[MarketChain], Bound]] = {"slash taken": _held, "an era's first block": MarketChain.begun}
"""What lies under a step, where it is not the newest state alone."""
