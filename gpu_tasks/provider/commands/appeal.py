"""`appeal`: appeal against a verdict about a unit."""

from __future__ import annotations

from gpu_tasks.data import market_reads
from gpu_tasks.data.appeals import appeal_against
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions
from gpu_tasks.provider.registration import Planned
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.trust import hash_typed


def appeal(options: ProviderOptions, unit: str, dry_run: bool, yes: bool) -> None:
    """Appeal against a verdict about a unit."""
    unit_id = hash_typed(unit)

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        if unit_id is None:
            raise ProviderError(f"{unit!r} is not a unit. Write 0x and 64 hex digits", code="not_a_unit")
        # The operator may give the key of the stash itself, which is no provider key.
        stash = await market_reads.stash_of(client, signing_key.account) or signing_key.account
        found = await appeal_against(client, unit_id, stash)
        return [Planned(found.call, found.bond, "bond", stash, found.facts)]

    make(options.session, lambda: options.key, plan, dry_run=dry_run, is_agreed=yes)
