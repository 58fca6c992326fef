"""CPU time of a transfer on its way through a node, stage by stage: pool, block, execution, root, disk.

    Run: python -m benchmarks transfers          about 30 seconds

Blocks have 2,000 transfers, each from a different sender among 100,000 accounts. Each block passes through the node's
own parts: admission to the pool (signatures in a worker process), building, import, and finality in a real LevelDB with
sync. The stages measure the same block step by step. Figures are medians over the blocks, per transfer. The signature
limit is libsodium's rate for the same signatures alone (`reference`), beside `verify_us` of the chain's own verifier.

A block is imported from its bytes three times:
* `fresh`: by a second chain with its own database and no known signature, including finality. A syncing node does the
  same in one thread (`benchmarks.sync` measures a real one).
* `at_hand`: by the chain that has just built it, with no known signature. Its accounts and trie are in caches.
* `warm`: by the same chain, with all signatures known from the pool.
"""

import random
import tempfile
import time
from pathlib import Path

import trio

from benchmarks import reference
from benchmarks.figures import Figures, Stopwatch, median_figures
from benchmarks.ledger import Ledger
from benchmarks.processes import children, cpu_seconds_of
from consensus.certificates import Certificate
from consensus.events import Build
from node import process
from node.clock import Clock
from node.duty.author import Author
from node.ledger.chain import Chain, ExecutedBlock
from node.pool.relay import Relay
from node.pool.transaction_pool import TransactionPool
from node.pool.verifier import Claim, Verifier
from runtime.blocks.block import BLOCK, Block, extrinsics_root, without_seal
from runtime.blocks.extrinsic import Extrinsic, decode_extrinsic
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.execution.executive import BlockExecution

TRANSFERS = 2_000
BLOCKS = 9
ADMISSION_SECONDS_MAX = 60
MICROSECONDS = 1e6


class StillClock(Clock):
    """A clock fixed at the current block's slot, so that a block never runs out of time on a slow machine."""

    at_ms = 0

    def now_ms(self) -> int:
        """Return the fixed time."""
        return self.at_ms


class ListingRelay(Relay):
    """A relay that lists admitted extrinsics instead of sending them, because there are no peers."""

    def __init__(self, admitted: list[bytes]) -> None:
        self._admitted = admitted

    def has_passed_on(self, extrinsic_hash: bytes) -> bool:
        """Return False, because every extrinsic of the benchmark is new."""
        return False

    def pass_on(self, extrinsic_hash: bytes, raw: bytes, source: str | None) -> None:
        """Note the admission of an extrinsic to the pool."""
        self._admitted.append(extrinsic_hash)


def measure() -> Figures:
    """Measure everything in one process and its worker."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), random.Random(1))
        fresh = ledger.open(Path(folder) / "fresh")
        process.settle_memory()  # as the node does after its start
        return trio.run(_measure, ledger, fresh)


async def _measure(ledger: Ledger, fresh: Chain) -> Figures:
    rounds = []
    async with trio.open_nursery() as nursery:
        clock, workers = StillClock(), Verifier()
        admitted: list[bytes] = []
        pool = TransactionPool(
            chain=ledger.chain,
            verifier=workers,
            clock=clock,
            relay=ListingRelay(admitted),
            on_status=lambda *_: None,
        )
        nursery.start_soon(pool.run)
        nursery.start_soon(workers.run_worker)
        author = Author(
            chain=ledger.chain,
            validator_keys=ledger.validator,
            transaction_pool=pool,
            verify=workers.verify,
            clock=clock,
            inherents=lambda _: (),
        )
        while not (pids := children()):  # noqa: ASYNC110  # the worker process is still starting
            await trio.sleep(0.01)
        before = cpu_seconds_of(pids[0])
        for _ in range(BLOCKS):
            clock.at_ms = ledger.next_slot_ms()
            rounds.append(await _one_block(ledger, fresh, pool, author, admitted))
        in_worker = cpu_seconds_of(pids[0]) - before
        nursery.cancel_scope.cancel()
    figures = median_figures(rounds)
    figures["admission_in_worker_us"] = round(in_worker / BLOCKS / TRANSFERS * MICROSECONDS, 2)
    return figures | shares(figures)


def shares(figures: Figures) -> Figures:
    """Return import rates, also as shares of libsodium's rate for the signatures on one core."""
    limit = figures["libsodium_us"]
    found: Figures = {"libsodium_limit_per_second": round(MICROSECONDS / limit)}
    for kind in ("fresh", "at_hand", "warm"):
        used = figures[f"import_{kind}_us"]
        found[f"import_{kind}_per_second"] = round(MICROSECONDS / used)
        found[f"import_{kind}_of_limit"] = round(limit / used, 2)
    return found


async def _one_block(
    ledger: Ledger, fresh: Chain, pool: TransactionPool, author: Author, admitted: list[bytes]
) -> Figures:
    """Take one block from transfers to disk."""
    raws = ledger.transfers(TRANSFERS)
    spent: Figures = {}
    watch = Stopwatch()
    with trio.fail_after(ADMISSION_SECONDS_MAX):
        for raw in raws:
            pool.offer(raw, "peer", blake2_256(raw))
        while len(admitted) < TRANSFERS:  # noqa: ASYNC110  # the worker answers batch after batch
            await trio.sleep(0.01)
    spent["admission_in_node_us"] = watch.split()
    admitted.clear()
    parent = ledger.chain.final
    facts = author.build(Build(ledger.slot, parent.facts.id, parent.facts.height + 1, 0, None, heartbeat=True))
    spent["build_us"] = watch.split()
    # A block also has the inherent that sets its time.
    if facts is None or len(ledger.chain[facts.id].extrinsics) != TRANSFERS + 1:
        raise RuntimeError("the block does not hold every transfer")
    made = ledger.chain[facts.id]
    spent |= _stages(ledger, parent, made) | _imports(ledger, made)
    watch.split()
    pool.on_tip(facts.id)
    spent["pool_after_block_us"] = watch.split()
    start = time.perf_counter()
    certificate = ledger.finalise(facts)
    spent["persist_us"] = watch.split()
    spent["persist_wall_us"] = time.perf_counter() - start
    spent["import_fresh_us"] = _import_fresh(ledger, fresh, made, certificate)
    return {name: seconds / TRANSFERS * MICROSECONDS for name, seconds in spent.items()}


def _stages(ledger: Ledger, parent: ExecutedBlock, made: ExecutedBlock) -> Figures:
    """Return the CPU seconds of each step of an import, measured separately."""
    runtime, header, raws = ledger.chain.runtime, without_seal(made.header), made.extrinsics
    claims: list[Claim] = []

    def note(scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        claims.append(Claim(scheme, signer, payload, signature))
        return True

    spent: Figures = {}
    watch = Stopwatch()
    extrinsics = [decode_extrinsic(runtime, raw) for raw in raws]
    spent["decode_us"] = watch.split()
    for raw in raws:
        blake2_256(raw)
    spent["hash_us"] = watch.split()
    execution = BlockExecution(runtime, parent.state, header.number, header.parent_hash, header.digest)
    _apply(execution, extrinsics, note)
    spent["execute_us"] = watch.split()
    changes = execution.finalize()
    spent["finalise_us"] = watch.split()
    trie = parent.trie.updated(changes)
    root = extrinsics_root(raws)
    spent["root_us"] = watch.split()
    valid = all(signatures.verify(*claim) for claim in claims)
    spent["verify_us"] = watch.split()
    reference.verify_all(claims)
    spent["libsodium_us"] = watch.split()
    if not valid or len(claims) != TRANSFERS or (trie.root, root) != (header.state_root, header.extrinsics_root):
        raise RuntimeError("the stages do not add up to the time of the block")
    return spent


def _apply(execution: BlockExecution, extrinsics: list[Extrinsic], verify: object) -> None:
    """Apply a block's extrinsics in order. Inherents come first and have no authorization."""
    for extrinsic in extrinsics:
        if extrinsic.authorization is None:
            execution.apply_inherent(extrinsic)
        else:
            execution.apply_signed(extrinsic, verify)  # type: ignore[arg-type]


def _import_fresh(ledger: Ledger, fresh: Chain, made: ExecutedBlock, certificate: Certificate) -> float:
    """Return the CPU seconds from a block's bytes to finality, in a separate database, with no known signature."""
    received = BLOCK.encode(Block(made.header, made.extrinsics))
    # A new verifier knows no signature yet.
    ledger.verifier = Verifier()
    watch = Stopwatch()
    facts = fresh.import_block(BLOCK.decode(received), ledger.slot_ms)
    fresh.finalise((facts.id,), certificate)
    return watch.split()


def _imports(ledger: Ledger, made: ExecutedBlock) -> Figures:
    """Return the CPU seconds from a locally built block's bytes to its state, with signatures unknown and known."""
    received = BLOCK.encode(Block(made.header, made.extrinsics))
    # A new verifier knows no signature yet.
    ledger.verifier = Verifier()
    watch = Stopwatch()
    ledger.chain.import_block(BLOCK.decode(received), ledger.slot_ms)
    at_hand = watch.split()
    ledger.chain.import_block(BLOCK.decode(received), ledger.slot_ms)
    return {"import_at_hand_us": at_hand, "import_warm_us": watch.split()}
