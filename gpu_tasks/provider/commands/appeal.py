"""`appeal`: appeal against a decision of voters about a unit."""

from __future__ import annotations

from gpu_tasks.data.claim_appeals import dispute_appeal
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions
from gpu_tasks.provider.registration import Planned
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.trust import hash_typed


def appeal(options: ProviderOptions, unit: str, dry_run: bool, yes: bool) -> None:
    """Appeal against a decision of voters about a unit."""
    unit_id = hash_typed(unit)

    async def plan(client: ChainClient, _: Keypair) -> list[Planned]:
        if unit_id is None:
            raise ProviderError(f"{unit!r} is not a unit. Write 0x and 64 hex digits", code="not_a_unit")
        found = await dispute_appeal(client, unit_id)
        return [Planned(found.call, facts=found.facts)]

    make(options.session, lambda: options.key, plan, dry_run=dry_run, is_agreed=yes)
