"""`appeal`: appeal against a decision of voters about a unit or a task."""

from __future__ import annotations

from gpu_tasks.data import market_reads
from gpu_tasks.data.appeals import appeal_against
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions
from gpu_tasks.provider.registration import Planned
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.trust import hash_typed


def appeal(options: ProviderOptions, work: str, dry_run: bool, yes: bool) -> None:
    """Appeal against a decision of voters about a unit or a task."""
    work_id = hash_typed(work)

    async def plan(client: ChainClient, key: Keypair) -> list[Planned]:
        if work_id is None:
            raise ProviderError(f"{work!r} is no unit and no task. Write 0x and 64 hex digits", code="not_a_work")
        stash = await market_reads.stash_of(client, key.public_key)
        found = await appeal_against(client, work_id, stash or key.public_key)
        return [Planned(found.call, facts=found.facts)]

    make(options.session, lambda: options.key, plan, dry_run=dry_run, is_agreed=yes)
