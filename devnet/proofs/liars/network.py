"""The devnet of the liars: each provider asks its node through a proxy, and the world asks its store through another.

Always: the chain's own record says where a store answers, so everybody goes through the proxy in front of it; the nodes
themselves are honest, and are asked directly by those who judge.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.proofs.liars.proxies import NodeProxy, StoreProxy
from genesis import dev_accounts
from genesis.presets import load_spec
from genesis.spec import to_json
from runtime.cryptography import ss58

VALIDATORS = 4


@dataclass(slots=True)
class ProviderAtWork:
    """A provider's daemon, the proxies around it, and where it stands."""

    member: NodeLayout
    process: Process
    node: NodeProxy
    store: StoreProxy


def fresh(folder: Path) -> tuple[Devnet, dict[str, int]]:
    """Four validators with providers in an emptied folder, not started; and at which port each store is asked."""
    shutil.rmtree(folder, ignore_errors=True)
    net = layout.create(folder, VALIDATORS, providers=True, any_ports=True, is_fast=True)  # sets to hand on
    spec = load_spec(net.chain_spec.read_bytes())
    assert spec.patch is not None  # presets are for people
    doors = {member.name: one_free_port() for member in net.members}
    by_stash = {ss58.encode(dev_accounts.stash(name)): port for name, port in doors.items()}
    for provider in spec.patch["devices"]["providers"]:
        provider["endpoint"] = f"http://127.0.0.1:{by_stash[provider['stash']]}"
    net.chain_spec.write_text(to_json(spec), encoding="utf-8")
    return net, doors


def provider_behind(net: Devnet, member: NodeLayout, node_url: str) -> Process:
    """A member's provider that asks its node at `node_url`, with its store where it would be without a proxy."""
    process = lifecycle.provider_process(net, member)
    words = list(process.arguments)
    words[words.index("--url") + 1] = node_url
    return replace(process, arguments=(*words, "--blob-port", str(member.ports.blobs)))


async def start_providers(net: Devnet, doors: dict[str, int], exits: contextlib.AsyncExitStack) -> list[ProviderAtWork]:
    """All proxies and the providers behind them, ready to work; `exits` ends the proxies."""
    providers = []
    for member in net.members:
        node = await exits.enter_async_context(NodeProxy(member.rpc_url))
        store = await exits.enter_async_context(StoreProxy(doors[member.name], member.blob_url))
        process = provider_behind(net, member, node.url)
        processes.start(process)
        providers.append(ProviderAtWork(member, process, node, store))
    for provider in providers:
        await asyncio.to_thread(lifecycle.wait_for_provider, net, provider.member)
    return providers
