"""Double proposals that a node saw."""

from __future__ import annotations

from gpu_tasks.provider.chain.port import DoubleHeaderEvidence
from runtime.pallets.staking.double_headers import double_proposal
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

EVIDENCE_MAX = 128
"""So many pairs of headers of one answer are looked at."""


async def offences(client: ChainClient) -> list[DoubleHeaderEvidence]:
    """Those that are offences: a report of what is none would cost its fee, for each name that a node makes up."""
    found = await client.rpc.call("ogpu_inspect", "offences")
    pairs = [
        DoubleHeaderEvidence(bytes.fromhex(pair["first"][2:]), bytes.fromhex(pair["second"][2:]))
        for pair in found[:EVIDENCE_MAX]
    ]
    if not pairs:
        return []
    seats = await client.read(TrustStake.seats)
    keys = {seat.stash: seat.session_key for seat in seats}
    return [pair for pair in pairs if double_proposal(pair.first, pair.second, client.genesis_hash, keys.get)]
