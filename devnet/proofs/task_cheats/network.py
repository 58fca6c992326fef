"""The devnet of the cheats about tasks: five validators with a provider each, and one more provider that cheats.

Always: the chain's rules are those of every chain, but for windows, which are as short as a network of this size bears.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from devnet.demo import stage
from devnet.demo.task_sale import KIND
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes
from devnet.launcher.layout import Devnet, Guest, NodeLayout, replace_guest
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from genesis import dev_accounts
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from runtime.encoding.types import GRAINS_PER_OGPU
from wallet.client import ChainClient

VALIDATORS = 5
"""A pair and a committee beside a liar that stands alone."""
WINDOWS = {
    "TrainingMarket.commit_blocks": 8,
    "TrainingMarket.reveal_blocks": 6,
    "TrainingMarket.grace_blocks": 4,
    "TrainingMarket.dispute_blocks": 16,
    "TrainingMarket.accept_blocks": 24,
    "Courts.commit_blocks": 12,
}
HOUR_MS = 3_600_000
CHEATS_ASK = 1
HONEST_ASK = 2
"""In oGPU an hour: the cheat is the cheaper one; among the honest each name asks for one more than the one before."""


def fresh(folder: Path, tell: Narrator) -> Devnet:
    """The devnet, with the provider that will cheat, and is honest as yet."""
    net = stage.fresh_network(folder, VALIDATORS, any_ports=True, detach=False, tell=tell, numbers=WINDOWS)
    return stage.add_cheat(net, "honest", detach=False, tell=tell)


def let_bid(net: Devnet, names: Iterable[str], *, cheat_bids: bool) -> None:
    """These bid from the next block on, and nobody else; the cheat asks for less than anybody."""
    asks = {name: HONEST_ASK + number for number, name in enumerate(names)}
    for who in network.offering(net):
        ask = asks.get(who.name, CHEATS_ASK if cheat_bids and isinstance(who, Guest) else 0)
        kinds = (KIND,) if ask else ()
        policy = BidPolicy(kinds, Rate(ask * GRAINS_PER_OGPU, TimeSpan(milliseconds=HOUR_MS)))
        write_policy(net.home(who) / "provider", policy)


def in_mode(net: Devnet, mode: str) -> Devnet:
    """The devnet whose cheat cheats so; it is started anew where it did otherwise."""
    (guest,) = net.guests
    if guest.options == stage.cheat_options(mode):
        return net
    processes.stop(provider_process(net, guest))
    guest = replace(guest, options=stage.cheat_options(mode))
    net = replace_guest(net, guest)
    processes.start(provider_process(net, guest))
    network.wait_for_provider(net, guest)
    return net


def accounts(net: Devnet) -> dict[str, tuple[bytes, ...]]:
    """Everybody by name, with the key that signs for it."""
    names = [who.name for who in network.offering(net)]
    keyed = {name: (dev_accounts.stash(name), dev_accounts.key(name, dev_accounts.PROVIDER)) for name in names}
    return {**keyed, stage.CUSTOMER: (dev_accounts.stash(stage.CUSTOMER),)}


def wealth(net: Devnet, people: Mapping[str, tuple[bytes, ...]], height: int) -> dict[str, int]:
    """What everybody owns after a final block."""
    return asyncio.run(_wealth(net.members[0].rpc_url, people, height))


async def _wealth(url: str, people: Mapping[str, tuple[bytes, ...]], height: int) -> dict[str, int]:
    async with await ChainClient.connect(url) as chain:
        return {
            name: sum([await ledger.wealth(chain, account, height) for account in owned])
            for name, owned in people.items()
        }


def telemetry(net: Devnet, who: NodeLayout | Guest) -> Path:
    """Where a provider writes what happened."""
    return net.home(who) / "provider" / "telemetry.jsonl"
