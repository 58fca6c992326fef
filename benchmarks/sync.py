"""A new node with an empty database syncs full blocks from another node. Both are real processes.

    Run: python -m benchmarks sync          about a minute

The chain has blocks of 2,000 transfers among 100,000 accounts, signed by their validator. Each block names its parent
as final. One node serves the chain. A new node connects, fetches, decodes, verifies, executes, finalises and writes it,
in an order of its own choice.

Times come from the new node's log, from the first block to the last final one. They are wall time, because the node may
use two cores. The signature limit is libsodium's rate on one core for the same signatures, measured before and after
each run (`reference`). `verifier_us` is the time of one signature in the chain's own verifier. Figures are medians of
several runs, each with a new node.

`cpu_of_limit` is the share that the busiest of the node's processes would reach without waiting. If `of_limit` is far
below it, the node waited, or other programs used the machine.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks import reference
from benchmarks.figures import Figures
from benchmarks.ledger import Ledger
from benchmarks.node import node, pids_by_role, wait_for_line, write_spec
from benchmarks.processes import cpu_seconds_of, peak_mib
from consensus.events import BlockFacts, CertifiedRef
from consensus.headers import final_ref_log, vrf_input
from devnet.launcher.lifecycle import ending_on_signals
from node.config import Paths
from node.pool.verifier import Claim
from runtime.blocks.digest import Digest, PreDigest, author_item, consensus_item, pre_digest_item
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.execution.block_builder import Authoring
from runtime.pallets.timestamp import Timestamp

BLOCKS, TRANSFERS = 20, 2_000
ROUNDS = 3
MICROSECONDS = 1e6
SIGNATURES = 5_000
LOG_TIME, LOG_TIME_LENGTH = "%Y-%m-%d %H:%M:%S,%f", 23
ADDRESS = "peers reach this node at "


FIRST_EPOCH = 0


def fill(ledger: Ledger, blocks: int, transfers: int) -> list[Claim]:
    """Add `blocks` blocks of `transfers` transfers. Each is final before the next one, which names it as final.

    Return the signatures of all transfers. The signatures are not checked here, because this process has just made them
    and the importing node verifies them.
    """
    claims: list[Claim] = []
    final: CertifiedRef | None = None
    for _ in range(blocks):
        facts = _block(ledger, ledger.transfers(transfers), final, claims)
        final = CertifiedRef(facts.height, facts.id, ledger.finalise(facts))
    return claims


def _block(ledger: Ledger, raws: list[bytes], final: CertifiedRef | None, claims: list[Claim]) -> BlockFacts:
    def note(scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        claims.append(Claim(scheme, signer, payload, signature))
        return True

    chain, now_ms = ledger.chain, ledger.next_slot_ms()
    parent = chain.final
    authoring = Authoring(chain.runtime, parent.state, parent.trie, parent.facts.id, _digest(ledger, final))
    authoring.inherent(Timestamp.set(now=now_ms))
    for raw in raws:
        authoring.offer(decode_extrinsic(chain.runtime, raw), note)
    built = authoring.finish()
    header = ledger.validator.seal(FIRST_EPOCH, ledger.slot, built.header)
    return chain.add_own(header, built, final, ledger.slot, ledger.seat.session)


def _digest(ledger: Ledger, final: CertifiedRef | None) -> Digest:
    epoch = ledger.chain.epochs(FIRST_EPOCH)
    if epoch is None:
        raise RuntimeError("the first epoch is always determined")
    output, proof = ledger.validator.prove_vrf(FIRST_EPOCH, vrf_input(ledger.chain.genesis, epoch.seed, ledger.slot))
    pre_digest = pre_digest_item(PreDigest(ledger.slot, FIRST_EPOCH, output, proof))
    items: Digest = (author_item(ledger.seat.stash), pre_digest)
    return items if final is None else (*items, consensus_item(final_ref_log(final)))


class Verified(NamedTuple):
    """The seconds of one signature on an otherwise idle core: libsodium's and the chain verifier's."""

    wall: float
    cpu: float
    own_cpu: float


class Run(NamedTuple):
    """The figures of one new node: transfers per second, signature times, CPU per transfer by role, and memory."""

    per_second: float
    signature: Verified
    cpu_us: dict[str, float]
    peak_mib: float


def measure() -> Figures:
    """Make the chain, serve it, and let new nodes sync it."""
    with tempfile.TemporaryDirectory() as name, ending_on_signals():
        folder = Path(name)
        spec, claims = _serve_from(folder / "server", folder)
        with node("server", spec, folder / "server", "--no-rpc") as server:
            address = wait_for_line(server, ADDRESS).partition(ADDRESS)[2]
            runs = [_run(spec, folder / f"new{number}", address, claims) for number in range(ROUNDS)]
    return _figures(runs)


def _serve_from(base: Path, folder: Path) -> tuple[Path, list[Claim]]:
    """Create a node's database with the chain.

    Return the specification's file and the signatures of the last blocks.
    """
    paths = Paths(base, "dev")
    paths.chain.mkdir(parents=True)
    ledger = Ledger(paths.chain, random.Random(1))
    claims = fill(ledger, BLOCKS, TRANSFERS)
    ledger.chain.storage.close()
    return write_spec(ledger.spec, folder), claims[-SIGNATURES:]


def _run(spec: Path, folder: Path, address: str, claims: list[Claim]) -> Run:
    """Run one new node from its start to the last block's finality."""
    before = _verified(claims)
    with node("new", spec, folder, "--no-rpc", "--bootnodes", address) as process:
        first = wait_for_line(process, "imported #1 ")
        pids = pids_by_role(process)
        used = {role: cpu_seconds_of(pid) for role, pid in pids.items()}
        last = wait_for_line(process, f"final #{BLOCKS} ")
        used = {role: cpu_seconds_of(pid) - used[role] for role, pid in pids.items()}
        peak = sum(peak_mib(pid) for pid in pids.values())
    after = _verified(claims)
    # The clock begins at the import of block 1, so it covers only the later blocks.
    transfers = (BLOCKS - 1) * TRANSFERS
    seconds = (_time_of(last) - _time_of(first)).total_seconds()
    cpu_us = {role: spent / transfers * MICROSECONDS for role, spent in used.items()}
    signature = Verified(*((first + second) / 2 for first, second in zip(before, after, strict=True)))
    return Run(transfers / seconds, signature, cpu_us, peak)


def _verified(claims: list[Claim]) -> Verified:
    """Verify the signatures one after the other, with both libraries."""
    wall, cpu = time.perf_counter(), time.process_time()
    reference.verify_all(claims)
    wall, middle = time.perf_counter() - wall, time.process_time()
    if not all(signatures.verify(*claim) for claim in claims):
        raise RuntimeError("a signature of the chain is wrong")
    spent = (wall, middle - cpu, time.process_time() - middle)
    return Verified(*(seconds / len(claims) for seconds in spent))


def _time_of(line: str) -> datetime:
    """Return the time of a log line, to the millisecond."""
    return datetime.strptime(line[:LOG_TIME_LENGTH], LOG_TIME)  # noqa: DTZ007  # two lines of one log


def _figures(runs: list[Run]) -> Figures:
    def median(values: Iterable[float], digits: int) -> float:
        return round(statistics.median(values), digits)

    cpu = {f"cpu_{role}_us": median((run.cpu_us[role] for run in runs), 1) for role in runs[0].cpu_us}
    return {
        "per_second": median((run.per_second for run in runs), 0),
        "libsodium_limit_per_second": median((1 / run.signature.wall for run in runs), 0),
        "of_limit": median((run.per_second * run.signature.wall for run in runs), 2),
        "libsodium_us": median((run.signature.cpu * MICROSECONDS for run in runs), 1),
        "verifier_us": median((run.signature.own_cpu * MICROSECONDS for run in runs), 1),
        "cpu_us": median((sum(run.cpu_us.values()) for run in runs), 1),
        **cpu,
        "cpu_of_limit": median((run.signature.cpu * MICROSECONDS / max(run.cpu_us.values()) for run in runs), 2),
        "peak_mib": median((run.peak_mib for run in runs), 1),
    }
