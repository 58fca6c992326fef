"""The real cost of a call and of a hook, in nanoseconds of reference time.

The CPU time of this process is divided by the time of one signature check at the same moment. Figures from a slow or
busy machine therefore equal those from a fast one.

A call is charged with all its work in a block: decoding, execution, and the encoding of its events. Each entry that it
reads or writes is charged at its cost in a full block (`Entries`). There no account is in a cache, and the supply rule,
the state's tree and the disk handle thousands of entries at once. The call is executed repeatedly on separate states,
as in a block of similar calls.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.weights.world import World
from node.ledger.storage import FinalEntry
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import ApplyExtrinsic, Origin, Signed, Unsigned
from runtime.execution.supply import check_supply
from runtime.frame.call import Call
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound
from runtime.frame.weights import SIGNATURE
from runtime.pallets.system import System
from runtime.state.overlay import StateReader
from runtime.state.written_keys import ITEM_PREFIX_BYTES

ROUNDS = 7
SIGNATURES = 150
MESSAGE_BYTES = 110
REPEATS_MAX, WHILE_SECONDS = 20, 0.002
ENTRIES = 4_000
"""Accounts in a sample: about half of those that a full block of transfers touches."""


@dataclass
class Scale:
    """The current cost of a signature check, the unit of every figure."""

    claims: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Sign the messages once. All later checks use these signatures."""
        for number in range(SIGNATURES):
            public, secret = signatures.keypair_from_seed(Scheme.ED25519, blake2_256(bytes([number])))
            message = blake2_256(public) + bytes(MESSAGE_BYTES - 32)
            self.claims.append((public, message, signatures.sign(Scheme.ED25519, public, secret, message)))

    def signature_seconds(self) -> float:
        """Return the CPU seconds of one signature check with the chain's own verifier."""
        started = time.process_time()
        for public, message, signature in self.claims:
            if not signatures.verify(Scheme.ED25519, public, message, signature):
                raise RuntimeError("a signature of ours does not verify")
        taken = (time.process_time() - started) / len(self.claims)
        self.seen.append(taken)
        return taken

    def least(self, rounds: int, once: Callable[[], float]) -> float:
        """Return the minimum of `once`, converted from CPU seconds to reference nanoseconds.

        Other load can only add time.
        """
        found, signature = [], []
        # The garbage collector would otherwise run within some of the rounds.
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                signature.append(self.signature_seconds())
                found.append(once())
        finally:
            gc.enable()
        return min(found) / min(signature) * SIGNATURE.ref_time / 1_000


class CountedReads:
    """A state that counts reads, except for those that every extrinsic or every block makes (`is_counted`)."""

    def __init__(self, below: StateReader, apart: bytes = b"") -> None:
        self.below = below
        self.apart = apart
        self.count = 0

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value of the state below."""
        self.count += self.is_counted(key)
        return self.below.get(key)

    def is_counted(self, key: bytes) -> bool:
        """Return False for the signer's account, already read by the extrinsic, and for a block's single values."""
        return len(key) > ITEM_PREFIX_BYTES and key != self.apart

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Return the keys of the state below."""
        return self.below.keys(prefix, start)


@dataclass(frozen=True, slots=True)
class Entries:
    """The cost of an entry in a full block beyond the call's own work, in reference nanoseconds."""

    read: float
    """The fetch from memory outside of the caches."""
    write: float
    """Encoding, the supply rule, the leaf with its share of the branches above, and the disk."""


class Meter:
    """Measures calls and hooks on a world."""

    def __init__(self, world: World, scale: Scale) -> None:
        self.world = world
        self.scale = scale
        self.unit = SIGNATURE.ref_time / 1_000
        self.entries = Entries(self._read_cost(), self._write_cost())

    def call(self, origin: Origin, call: Call, rounds: int = ROUNDS, *, has_time: bool = True) -> float:
        """Return the reference nanoseconds of a call that succeeds in the world's next block."""
        execution = self.world.begin(has_time=has_time)
        state, _ = self.world.layered(execution.bound.overlay.changes())
        left = execution.bound.mandatory_left
        execution.bound.overlay.release()
        raw = self.world.runtime.call_codec.encode(call)

        account = self.world.runtime.item(System.account)
        apart = account.key(origin.account) if isinstance(origin, Signed) else b""

        def begin() -> Bound:
            bound = self.world.runtime.at(CountedReads(state, apart))
            bound.phase, bound.mandatory_left = ApplyExtrinsic(1), left
            return bound

        def work(bound: Bound) -> None:
            decoded = self.world.runtime.call_codec.decode(raw)
            with bound.overlay.transaction():
                bound.dispatch(decoded, origin)

        return self._least(rounds, begin, work)

    def hooks(self, kind: str, rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
        """Return the reference nanoseconds and the reported weight of each pallet's hook in the next block."""
        taken: dict[str, list[float]] = {}
        said: dict[str, float] = {}
        for _ in range(rounds):
            # The first run warms the caches and does not count.
            self._hooks_of_a_block(kind)
            for name, real, weight in self._hooks_of_a_block(kind):
                taken.setdefault(name, []).append(real)
                said[name] = weight
        return {name: (min(found), said[name]) for name, found in taken.items()}

    def _least(self, rounds: int, begin: Callable[[], Bound], work: Callable[[Bound], None]) -> float:
        """Return the minimum of several rounds. A round runs the work repeatedly, like the calls of a block."""
        first = begin()
        started = time.process_time()
        work(first)
        repeats = min(REPEATS_MAX, 1 + int(WHILE_SECONDS / (time.process_time() - started)))
        first.overlay.release()
        found = []
        for _ in range(rounds):
            states = [begin() for _ in range(repeats)]
            found.append(self._once(states, work))
            for bound in states:
                bound.overlay.release()
        return min(found)

    def _once(self, states: Sequence[Bound], work: Callable[[Bound], None]) -> float:
        """Return the mean reference nanoseconds of the work over these states, with the cost of entries."""
        last = states[-1]
        reader = last.overlay.reader
        assert isinstance(reader, CountedReads), "reads are counted"
        reads, written, events = reader.count, last.overlay.changes(), len(last.overlay.events)
        # Other load can only add time, so the lower of two measurements counts.
        signature = min(self.scale.signature_seconds(), self.scale.signature_seconds())
        gc.collect(0)
        gc.disable()
        started = time.process_time()
        for bound in states:
            work(bound)
            for _, happened in bound.overlay.events[events:]:
                bound.event_codec.encode(happened)
        taken = (time.process_time() - started) / len(states) / signature
        gc.enable()
        changes = last.overlay.changes()
        writes = sum(reader.is_counted(key) and written.get(key, b"") != raw for key, raw in changes.items())
        return taken * self.unit + (reader.count - reads) * self.entries.read + writes * self.entries.write

    def _hooks_of_a_block(self, kind: str) -> list[tuple[str, float, float]]:
        world = self.world
        bound = world.runtime.at(CountedReads(world.storage))
        bound[System].initialize(world.height + 1, world.hash_of(world.height), world.digest())
        if kind == "on_finalize":
            for pallet in bound.pallets:
                pallet.on_initialize()
            bound.dispatch(world.time(), Unsigned())
            bound[System].note_extrinsics(1, 100, bound[System].block_weight.get())
        hooked = [pallet for pallet in bound.pallets if getattr(type(pallet), kind) is not getattr(Pallet, kind)]
        found = [(type(pallet).__name__, *self._hook(bound, pallet, kind)) for pallet in hooked]
        bound.overlay.release()
        return found

    def _hook(self, bound: Bound, pallet: Pallet, kind: str) -> tuple[float, float]:
        said = []
        real = self._once((bound,), lambda _: said.append(getattr(pallet, kind)()))
        return real, said[0].ref_time / 1_000 if said[0] is not None else 0.0

    def _read_cost(self) -> float:
        """Return the extra cost of reading distant accounts over recently read ones."""
        world, scale = self.world, self.scale
        chosen = world.chance.sample(world.accounts, ENTRIES)

        def read(accounts: list[bytes]) -> float:
            account = world.now()[System].account
            started = time.process_time()
            for who in accounts:
                account[who]
            return (time.process_time() - started) / len(accounts) / scale.signature_seconds()

        apart = read(chosen)
        # This run brings the accounts into the caches.
        read(chosen[:50])
        at_hand = min(read(chosen[:50]) for _ in range(ROUNDS))
        return max(0.0, apart - at_hand) * self.unit

    def _write_cost(self) -> float:
        """Return the cost of writing an account in a block that changes very many. The accounts end unchanged."""
        world, found = self.world, []
        for _ in range(ROUNDS):
            chosen = world.chance.sample(world.accounts, ENTRIES)
            forth = self._rewritten(chosen, 1)
            found.append(forth)
            self._rewritten(chosen, -1)
        return min(found)

    def _rewritten(self, accounts: list[bytes], change: int) -> float:
        """Change the nonce of all accounts. Return the reference nanoseconds of each."""
        world = self.world
        bound = world.now()
        account = bound[System].account
        for who in accounts:
            account[who] = replace(account[who], nonce=account[who].nonce + change)
        started = time.process_time()
        changes = bound.overlay.changes()
        check_supply(bound)
        trie = world.trie.updated(changes)
        taken = time.process_time() - started
        stored = world.next_stored()
        started = time.process_time()
        world.storage.commit_final([FinalEntry(stored, changes, None)])
        taken += time.process_time() - started
        world.trie = trie
        world.storage.rest_on(trie)
        return taken / len(accounts) / self.scale.signature_seconds() * self.unit
