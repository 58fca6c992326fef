"""The costs of steps with few and with many delegators behind one validator: CPU time, and bytes of state.

The chains have the same accounts. A chain's `count` of them delegate to the measured validator, and the rest to
another. The chains are measured in turns, so that other load affects all of them. A step is its execution and the state
root after it. One more chain has only the small crowd. Its difference in the root's time is the effect of the state's
size.
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
    """A chain of two validators. The saver and `count` others delegate to one of them, all for whole eras."""

    count: int
    total: int
    """The number of delegators on the chain."""
    chain: MarketChain
    trie: Trie
    bytes_each: float
    execution: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds, by step."""
    root: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, name: str, step: Callable[[Bound], object]) -> None:
        """Measure a step on the newest state, and discard its changes."""
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
    """Return a chain with this many delegators after some eras, at the last block of an era."""
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
    """Return the state's entries, key and value joined."""
    return [key + value for key, value in chain.state.values.items()]


def measure(crowds: Sequence[Backed], rounds: int, on_round: Callable[[], None] = lambda: None) -> None:
    """Measure every step on every chain, in turns."""
    # The garbage collector would otherwise run within some of the steps.
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
        """The excess of the highest cost over the lowest, in percent."""
        both = [execution + root for execution, root in zip(self.execution, self.root, strict=True)]
        return 100 * (max(both) / min(both) - 1)


def compared(crowds: Sequence[Backed]) -> list[Compared]:
    """Return the medians of each step."""
    return [
        Compared(
            name,
            tuple(statistics.median(crowd.execution[name]) for crowd in crowds),
            tuple(statistics.median(crowd.root[name]) for crowd in crowds),
        )
        for name in STEPS
    ]


def _first_block(bound: Bound) -> None:
    """Run the hooks of an era's first block."""
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
    # the payout alone: within the era's change the election would hide it
    "payout": lambda bound: eras._pay_for(bound[TrustStake], bound[TrustStake].current_era.get()),  # noqa: SLF001
    "slash reported": signed(REPORTER.stash, double(ALICE, 9, 3)),
    "slash taken": lambda bound: held_slashes.take_due(bound[TrustStake]),
    "an era's first block": _first_block,
}
PREPARED: dict[str, Callable[[MarketChain], Bound]] = {"slash taken": _held, "an era's first block": MarketChain.begun}
"""The state under a step, if not the newest one."""
