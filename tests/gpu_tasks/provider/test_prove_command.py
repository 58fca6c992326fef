"""`prove` between claim and proof: its messages, their times, and the repeat after an interruption."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import FraudClaim
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.commands import prove
from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.registration import Planned
from gpu_tasks.provider.tasks.fraud_search import Fraud
from gpu_tasks.traces.trace import proof_of_fraud, state_hash
from provider_runner import Operator
from runtime.cryptography.signatures import Scheme
from wallet.suri import keypair_from_suri

TASK, STASH = b"t" * 32, b"m" * 32
KEY = keypair_from_suri("//Alice//provider", Scheme.ED25519)
ME = Identity(STASH, KEY, SealKey.of(KEY), b"g" * 32)
RUN = [state_hash(bytes((number,))) for number in range(5)]
FRAUD = Fraud(0, proof_of_fraud(RUN, 2, b"r" * 32), 500, 1_000)
MINE = FRAUD.commitment(ME, TASK)


class Scene:
    """A chain that may have a claim, and whose final blocks come one by one."""

    def __init__(self, made: FraudClaim | None) -> None:
        self.made = made
        self.height = 6
        self.planned: list[list[Planned]] = []

    async def read(self, _item: object, task: bytes, stash: bytes) -> FraudClaim | None:
        assert (task, stash) == (TASK, STASH)
        return self.made

    async def finalized_heads(self) -> AsyncIterator[int]:
        return self._heads()

    async def _heads(self) -> AsyncIterator[int]:
        while True:
            self.height += 1
            yield self.height

    async def finalized(self) -> bytes:
        return bytes((self.height,))

    async def height_of(self, block: bytes) -> int:
        return block[0]

    def make(
        self,
        _session: object,
        key: Callable[[], Any],
        plan: Callable[[Any, Any], Awaitable[Sequence[Planned]]],
        *,
        dry_run: bool,
        is_agreed: bool,
    ) -> None:
        """Return the command's calls at each send."""
        assert is_agreed or dry_run
        client = SimpleNamespace(
            read=self.read, finalized_heads=self.finalized_heads, finalized=self.finalized, height=self.height_of
        )
        self.planned.append(asyncio.run(_planned(plan(client, key()))))


async def _planned(work: Awaitable[Sequence[Planned]]) -> list[Planned]:
    return list(await work)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scene]:
    async def looked_at(*_: object) -> tuple[Identity, Fraud]:
        return ME, FRAUD

    def play(made: FraudClaim | None, *words: str) -> Scene:
        scene = Scene(made)
        monkeypatch.setattr(prove, "_looked_at", looked_at)
        monkeypatch.setattr(prove, "make", scene.make)
        result = Operator(tmp_path, "ws://127.0.0.1:1", "Alice").run("prove", "0x" + TASK.hex(), *(words or ["--yes"]))
        assert result.exit_code == 0, result.output
        return scene

    return play


def called(planned: Sequence[Planned]) -> list[tuple[str, int, bytes | None]]:
    return [(step.call.name, step.grains, step.stash) for step in planned]


def test_a_claim_binds_the_stashs_bond_and_the_proof_follows(played: Callable[..., Scene]) -> None:
    claim, proof = played(None).planned
    assert called(claim) == [("TrainingMarket.claim_fraud", 500, STASH)]
    assert claim[0].call.named_arguments == {"task": TASK, "commitment": MINE}
    assert called(proof) == [("TrainingMarket.show_fraud", 0, None)]
    shown = proof[0].call.named_arguments
    assert (shown["place"], shown["proof"], shown["salt"]) == (0, FRAUD.proof, FRAUD.salt(ME, TASK))


def test_a_claim_that_stands_is_not_made_again_but_another_one_is_none_of_this_proof(
    played: Callable[..., Scene],
) -> None:
    claim, proof = played(FraudClaim(MINE, 5)).planned
    assert not claim
    assert called(proof) == [("TrainingMarket.show_fraud", 0, None)]
    with pytest.raises(AssertionError, match=r"another claim in block 5"):
        played(FraudClaim(b"c" * 32, 5))


def test_a_proof_waits_for_a_block_behind_its_claim(played: Callable[..., Scene]) -> None:
    assert played(FraudClaim(MINE, 9)).height == 10


def test_what_was_shown_is_forgotten_and_what_was_tried_is_not(played: Callable[..., Scene], tmp_path: Path) -> None:
    kept = tmp_path / "Alice" / f"proof-{TASK.hex()}"
    kept.parent.mkdir()
    kept.write_bytes(b"a proof")
    assert len(played(None, "--dry-run").planned) == 1, "a proof is not tried before its claim is there"
    assert kept.exists()
    played(None)
    assert not kept.exists()


def test_who_waits_for_a_chain_that_stands_still_is_told() -> None:
    seen: list[int] = []

    async def blocks(*, stands_still: bool) -> AsyncIterator[int]:
        for number in range(3):
            yield number
        if stands_still:
            await asyncio.Event().wait()

    async def look(*, stands_still: bool) -> None:
        async for number in prove.in_time(blocks(stands_still=stands_still), 0.05):
            seen.append(number)  # noqa: PERF401  # what came before it stood still

    asyncio.run(look(stands_still=False))
    with pytest.raises(ProviderError, match="no block has become final for 0 s"):
        asyncio.run(look(stands_still=True))
    assert seen == [0, 1, 2, 0, 1, 2]
