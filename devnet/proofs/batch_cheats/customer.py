"""The customer of all batches: posts them, knows what is right, and disputes leaves, rightly or not.

Always: it allows four times what its requests ask for, so there is something to be made up; requests are the same in
each batch, and so are right answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devnet.demo.purchase import DEFAULT_PROMPTS, SERVICE, read_prompts
from devnet.demo.stage import CUSTOMER
from devnet.launcher import programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.proofs.cheating.lies import RightAnswers
from devnet.proofs.cheating.lying_daemons import most_of
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.batches.work import price_of, work_of
from gpu_tasks.client.batches.leaf_looks import WrongLeaf
from gpu_tasks.client.posting import Sealer, UnitWish
from gpu_tasks.client.posting_kind import UnitPosting
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.placement import stores_for
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.data.unit_input import decode_input
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads.outcomes import outcomes_of
from gpu_tasks.workloads.registry import form_named, open_workload
from runtime.encoding.types import GRAINS_PER_OGPU
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

WORKLOAD = "textgen-int8"
REQUESTS, TOKENS = 96, 6
"""Three leaves are drawn of each batch."""
ALLOWED = 4 * TOKENS
"""Of each request, on the chain."""
RATE = GRAINS_PER_OGPU // 20
"""For a thousand tokens."""
KEY = f"//{CUSTOMER}"


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """What every batch asks, and what is right."""

    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]


def asked() -> AskedBatch:
    """Computed here, on the processor."""
    form, workload = form_named(WORKLOAD), open_workload(WORKLOAD)
    lines = enumerate(read_prompts(DEFAULT_PROMPTS, REQUESTS))
    requests = tuple(form.encode(line, TOKENS, {}, number.to_bytes(32, "little")) for number, line in lines)
    outputs: list[bytes | None] = [None] * len(requests)
    for place, output in workload.run_many(requests):
        outputs[place] = output
    return AskedBatch(requests, outcomes_of(form, requests, outputs))


async def post(chain: ChainClient, batch: AskedBatch, count: int, racers: int) -> list[RightAnswers]:
    """So many units that ask the same, in one transaction; each with what is right of it."""
    service = await market_reads.service(chain, SERVICE)
    if service is None:
        raise DevnetError(f"there is no service {SERVICE}")
    form, key = form_named(WORKLOAD), keypair_from_suri(KEY)
    tokens_in, tokens_max = sum(map(form.cost_in, batch.requests)), REQUESTS * ALLOWED
    price = price_of(RATE, work_of(service.terms.input_share, tokens_in, tokens_max))
    wish = UnitWish(encode_requests(batch.requests), REQUESTS, tokens_in, tokens_max, price)
    async with BlobClient(private=True) as blobs:
        terms = await Sealer(chain, blobs, key, SERVICE, racers).terms([wish] * count, lambda: None)
        salts = [await _salt(chain, blobs, each) for each in terms]
    outcome = await chain.submit(UnitPosting(SERVICE).call(terms), key)
    units = [event.unit for event in outcome.events if isinstance(event, UnitPosted)]
    if len(units) != count:
        raise DevnetError(f"{len(units)} of {count} units were posted: {outcome.error}")
    return [
        RightAnswers(chain.genesis_hash, unit, salt, batch.outcomes, most_of(each))
        for unit, salt, each in zip(units, salts, terms, strict=True)
    ]


async def _salt(chain: ChainClient, blobs: BlobClient, terms: UnitTerms) -> bytes:
    """That is in each leaf of the unit: out of its sealed input."""
    endpoints = endpoints_of(await market_reads.providers(chain))
    sealed = await blobs.get(terms.input_root, stores_for(terms.input_root, endpoints))
    return decode_input(SealKey.of(keypair_from_suri(KEY)).open(sealed)).salt


def dispute(net: Devnet, unit: bytes, leaf: int) -> None:
    """Call a leaf wrong with `ogpu`, which computes it first, and disputes nothing that is right."""
    words = ["--url", net.members[0].rpc_url, "dispute", "0x" + unit.hex(), "--leaf", str(leaf)]
    programs.run("ogpu", *words, "--key", KEY, "--yes", keyring=net.keyring)


async def dispute_falsely(chain: ChainClient, right: RightAnswers, leaf: int) -> str | None:
    """Call a right leaf wrong, with a claim that is made up; why the chain refuses, if it does."""
    leaves: Sequence[Leaf] = right.leaves
    true = leaves[leaf]
    call = WrongLeaf(leaf, tuple(leaves), Leaf(true.tokens_in, true.tokens_out, bytes(32))).dispute(right.unit)
    return (await chain.submit(call, keypair_from_suri(KEY))).error
