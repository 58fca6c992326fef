"""Offences that the node saw, proven by this client."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from gpu_tasks.provider.chain.port import SeenOffence
from runtime.blocks.evidence import EVIDENCE
from runtime.encoding.codec import DecodeError
from runtime.pallets.staking.offences import proven
from runtime.pallets.staking.stakers import Seats
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

EVIDENCE_MAX = 128
"""The most entries of one answer that are examined."""


async def offences(client: ChainClient) -> list[SeenOffence]:
    """Return the seen offences that are proven.

    Reporting anything else would cost a fee for each name that a node invents.
    """
    inspected_offences = await client.rpc.call("ogpu_inspect", "offences")
    if not inspected_offences:
        return []
    validators = await _validators(client)
    seen_offences = []
    for shown_evidence in inspected_offences[:EVIDENCE_MAX]:
        try:
            evidence = EVIDENCE.decode(bytes.fromhex(shown_evidence["evidence"][2:]))
        except DecodeError:
            continue
        proven_offence = proven(evidence, client.genesis_hash, validators)
        if proven_offence is not None:
            seen_offences.append(SeenOffence(proven_offence.offender, evidence))
    return seen_offences


async def _validators(client: ChainClient) -> Callable[[int], Seats]:
    """Return a function that gives the active set of an epoch, if evidence about it still counts."""
    block_hash = await client.finalized()
    set_starts = await client.read(TrustStake.validator_set_starts, at=block_hash)
    elected_to = await client.read(TrustStake.last_elected_epoch, at=block_hash)
    validator_sets = await client.read_many(TrustStake.validator_sets, set_starts, at=block_hash)

    def validators(epoch: int) -> Seats:
        set_index = bisect_right(set_starts, epoch)
        seats: Seats = validator_sets[set_index - 1] if set_index and epoch <= elected_to else ()
        return seats

    return validators
