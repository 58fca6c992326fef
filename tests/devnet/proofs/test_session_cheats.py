"""The required outcomes of cheats in sessions, each of which can fail, and bent workers."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.cheats.findings import CheatFinding
from devnet.proofs.cheats.session_judgement import JudgedSession, PlayedSession
from devnet.proofs.cheats.session_scenes import CUSTOMER_SCENES, PROVIDER_SCENES
from devnet.stage.cheating.__main__ import SESSION_CHEATS
from devnet.stage.cheating.session_cheats import (
    FORGING_MODE,
    PADDING,
    STOPS_AFTER,
    BentHost,
    PaddedTokens,
    StoppingHost,
    WrongTokens,
)
from devnet.stage.measuring.session_ledger import SessionTrace
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider.execution.live import LivePiece

SESSION = bytes([3]) * 32
ANSWER = tuple(range(20))


class CountingHost:
    """An honest worker whose answer is `ANSWER`, five tokens at a time."""

    async def start(self) -> None:
        """See `Host`."""

    async def close(self) -> None:
        """See `Host`."""

    async def generate(self, request: bytes) -> AsyncGenerator[Any, None]:
        """See `Host`."""
        for place in range(0, len(ANSWER), 5):
            yield LivePiece(ANSWER[place : place + 5], 0 if place == 15 else None)


async def tokens_of(host: BentHost, most: int = 100) -> list[int]:
    """Return the tokens of an answer, or the first of them."""
    tokens: list[int] = []
    async for piece in host.generate(b""):
        tokens += piece.tokens
        if len(tokens) >= most:
            break
    return tokens


async def test_a_bent_worker_changes_what_it_says() -> None:
    wrong = await tokens_of(WrongTokens(CountingHost()))
    assert len(wrong) == len(ANSWER)
    assert all(told != right for told, right in zip(wrong, ANSWER, strict=True))
    assert await tokens_of(PaddedTokens(CountingHost())) == [*ANSWER, *(0,) * PADDING]
    assert await tokens_of(StoppingHost(CountingHost()), STOPS_AFTER) == list(ANSWER[:STOPS_AFTER])


def test_each_provider_scene_has_its_mode() -> None:
    assert {scene.mode for scene in PROVIDER_SCENES} == set(SESSION_CHEATS)


def a_voucher(tokens: int, period: int = 0) -> Voucher:
    return Voucher(SESSION, period, Totals(1, 4, tokens, bytes(32)))


def test_a_provider_that_claims_by_an_old_voucher_gets_the_first_of_each_period() -> None:
    scenes = {scene.mode: scene for scene in PROVIDER_SCENES}
    signed = [a_voucher(0), a_voucher(16), a_voucher(5, period=1), a_voucher(9, period=1)]
    forging = PlayedSession(SESSION, scenes[FORGING_MODE], signed)
    honest = replace(forging, scene=scenes["stops"], tokens=30)
    assert forging.claimable == [signed[0], signed[2]]
    assert honest.claimable == [signed[1], signed[3]]
    assert honest.unpaid == 30 - 16 - 9


@pytest.mark.parametrize("name", ["withholds", "never-pays"])
def test_an_unfinished_session_and_a_wrong_code_are_failures(name: str) -> None:
    scene = next(scene for scene in CUSTOMER_SCENES if scene.name == name)
    played = PlayedSession(SESSION, scene, [a_voucher(0)], tokens=scene.tokens + 1, code="other")
    judged = JudgedSession(played, SessionTrace(), ({"what": "Sessions.claim", "answer": "accepted"},))
    finding = CheatFinding(scene.name)
    judged.record_in(finding)
    assert (finding.sessions, finding.tried, finding.refused) == (1, 1, 0)
    assert len(finding.failures) == 5
    for word in ("ended as", "'other'", "promised", "unpaid tokens", "accepted"):
        assert any(word in failure for failure in finding.failures)
