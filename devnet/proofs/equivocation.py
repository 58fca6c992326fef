"""`python -m devnet.proofs.equivocation`: a validator proposes twice on a live devnet, and is slashed for it.

Of four validators, Dave's node is `devnet.stage.cheating.equivocating_node`. The other nodes see both blocks and relay
the two headers. The next author attaches them. The chain tombstones Dave, and slashes an era later.

The requirements: an author proves the offence on chain. The amounts are the table's: for a quarter of the stake,
(3/4)^2 of it, half of it burned, a tenth to the author. No other validator is touched, and blocks continue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import all_processes, node_process, ready
from devnet.stage.measuring.ledger import LedgerEvent, block_hash, final_blocks
from devnet.stage.network import LOOK_SECONDS, fresh_layout
from devnet.stage.report import Report
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.slashing import SLASH_FLOOR_PPM, SLASH_SLOPE, SlashCurve, equivocation_ppm
from runtime.pallets.staking.staking_events import SlashTaken
from runtime.pallets.staking.trust_lock import OffenceProven
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

OFFENDER = "Dave"
MODULE = "devnet.stage.cheating.equivocating_node"
PROOF_SECONDS = 150.0
BLOCKS_AFTER = 5


@contextmanager
def with_offender(run: ProofRun) -> Iterator[Devnet]:
    """Run four nodes, one of which proposes twice."""
    net = fresh_layout(run, 4)
    try:
        for member in net.members:
            process = node_process(net, member)
            processes.start(replace(process, module=MODULE) if member.name == OFFENDER else process)
        asyncio.run(ready(net))
        yield net
    finally:
        processes.stop(*all_processes(net))


async def _watch(net: Devnet) -> Report:
    offender = dev_accounts.stash(OFFENDER)
    async with await ChainClient.connect(net.members[0].rpc_url) as client:
        before = await client.read(TrustStake.bonds, offender, at=await block_hash(client, 0))
        proven, height = await _event(client, OffenceProven, offender)
        taken, _ = await _event(client, SlashTaken, offender, height)  # an era later
        at = await client.finalized()
        after = await client.read(TrustStake.bonds, offender, at=at)
        facts: Report = {
            "block": height,
            "offender": ss58(offender),
            "reporter": ss58(proven.reporter),
            "validators": [member.name for member in net.members],
            "slot": proven.at,
            "ppm": proven.slashed_ppm,
            "slashed_grains": taken.amount,
            "stake_before": before,
            "stake_after": after,
            "tombstoned": await client.read(TrustStake.tombstones, offender, at=at) is not None,
            "others_tombstoned": await _others(client, net, at),
        }
        facts["blocks_after"] = await _blocks_after(client, height)
    return facts


async def _event(
    client: ChainClient, kind: type[LedgerEvent], offender: bytes, seen: int = 0
) -> tuple[LedgerEvent, int]:
    """Return the first event of a kind about the offender above a height of the final chain, with its height."""
    end = time.monotonic() + PROOF_SECONDS
    while time.monotonic() < end:
        async for height, _, events in final_blocks(client, seen + 1):
            for event in events:
                if isinstance(event, kind) and getattr(event, "offender", None) == offender:
                    return event, height
            seen = height
        await asyncio.sleep(LOOK_SECONDS)
    raise DevnetError(f"no {kind.__name__} within {PROOF_SECONDS:.0f} s")


async def _others(client: ChainClient, net: Devnet, at: bytes) -> int:
    stashes = [dev_accounts.stash(member.name) for member in net.members if member.name != OFFENDER]
    return sum([await client.read(TrustStake.tombstones, stash, at=at) is not None for stash in stashes])


async def _blocks_after(client: ChainClient, height: int) -> int:
    async for header in await client.finalized_heads():
        if int(header["number"], 16) >= height + BLOCKS_AFTER:
            return int(header["number"], 16) - height
    return 0


def _failures(facts: Report) -> list[str]:
    expected = equivocation_ppm(1, 4, SlashCurve(SLASH_FLOOR_PPM, SLASH_SLOPE))
    lost = facts["stake_before"] - facts["stake_after"]
    bars = {
        "the share slashed is not the table's": facts["ppm"] == expected,
        "the offender's stake did not fall by the slash": lost == facts["slashed_grains"] > 0,
        "the offender is not tombstoned": facts["tombstoned"],
        "somebody else is tombstoned": facts["others_tombstoned"] == 0,
        "no author attached it": facts["reporter"] in [ss58(dev_accounts.stash(name)) for name in facts["validators"]],
        "blocks did not go on": facts["blocks_after"] >= BLOCKS_AFTER,
    }
    return [text for text, held in bars.items() if not held]


def figures(facts: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    found = facts["twice"]
    return (
        f"slot {found['slot']} proposed twice by {OFFENDER}, proven in block {found['block']}, "
        f"{found['ppm'] / 10_000:g} % slashed ({found['slashed_grains']} grains); "
        f"{found['blocks_after']} final blocks after it"
    )


PROOF = LiveProof(
    "equivocation",
    "A validator proposes twice, and is slashed for it.",
    [
        Scenario(
            "twice", f"{OFFENDER} proposes twice in each of its slots", with_offender,
            lambda net: asyncio.run(_watch(net)), _failures,
        ),
    ],
    figures,
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
