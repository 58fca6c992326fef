"""Every lie to a provider, told to a daemon's chain over a real RPC server: reported if it matters, and survived."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from devnet.proofs.liars.catalogue import LIES_BY_NAME, PROOF_WORDS
from devnet.proofs.liars.lie import NodeLie, Noticed, Program
from devnet.proofs.liars.proxies import NodeProxy
from genesis import dev_accounts
from gpu_tasks.provider.chain import live
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.keys import provider_key
from nightly_but import nightly_but
from played_node import growing, served
from wallet.trust import Trust

KEY, ALICE = provider_key("//Alice//provider", None), dev_accounts.stash("Alice")
FOR_PROVIDERS = [lie for lie in LIES_BY_NAME.values() if isinstance(lie, NodeLie) and Program.PROVIDER in lie.told]
LIVE_ONLY = ("signed_by_one", "duties_swallowed", "duties_refused", "duties_of_another")
"""Without effect here: one validator, one provider, and no duty that asks for a call."""
TOLD_TIMES = 4
BLOCKS_BEFORE_THE_LIE = 10
BLOCK_SECONDS = 0.15
SECONDS_AT_MOST = 12.0


class Following:
    """A daemon's chain at work: it follows the blocks, reads duties, and keeps the errors."""

    def __init__(self, chain: LiveChain, told: list[str]) -> None:
        self.chain, self.told = chain, told
        self.heights: list[int] = []

    async def run(self) -> None:
        chain = self.chain
        questions: list[Callable[[], Awaitable[object]]] = [
            lambda: chain.final_unit(bytes(32)), lambda: chain.service(0), chain.own_devices,
            lambda: chain.provider(ALICE), chain.checking_readers,
        ]  # fmt: skip
        async for view in chain.views():
            self.heights.append(view.height)
            for question in questions:
                try:
                    await question()
                except ChainError as error:
                    self.told.append(str(error))


@pytest.mark.parametrize(
    "lie", nightly_but(3, [lie for lie in FOR_PROVIDERS if lie.name not in LIVE_ONLY]), ids=lambda lie: lie.name
)
def test_a_daemon_names_what_matters_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: NodeLie) -> None:
    monkeypatch.setattr(live, "RECONNECT_SECONDS", (0.01,))
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(live, "ANSWER_SECONDS", (0.5,))
    told: list[str] = []

    async def main() -> None:
        async with served(tmp_path) as (node, port), NodeProxy(f"ws://127.0.0.1:{port}") as proxy:
            for _ in range(BLOCKS_BEFORE_THE_LIE):
                node.author()
            chain = await LiveChain.connect(proxy.url, KEY, Trust(tmp_path / "provider"), told.append)
            following = Following(chain, told)
            task = asyncio.create_task(following.run())
            async with growing(node, BLOCK_SECONDS, lambda _: True):
                while not following.heights or following.heights[-1] < BLOCKS_BEFORE_THE_LIE:
                    await asyncio.sleep(0.01)
                told.clear()
                proxy.lie = lie
                if lie.is_met_anew:
                    proxy.abort_connections()
                while proxy.told < TOLD_TIMES or (lie.noticed is Noticed.NAMED and not named(lie, told)):
                    await asyncio.sleep(0.01)
                proxy.lie = None
                before = following.heights[-1]
                while following.heights[-1] <= before:
                    await asyncio.sleep(0.01)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await chain.close()
            assert following.heights == sorted(following.heights)  # final blocks stay final

    asyncio.run(asyncio.wait_for(main(), SECONDS_AT_MOST))


def named(lie: NodeLie, told: list[str]) -> bool:
    """Return True if the daemon reported it in one of the lie's words."""
    return any(word in text for text in told for word in (*lie.words, *PROOF_WORDS))
