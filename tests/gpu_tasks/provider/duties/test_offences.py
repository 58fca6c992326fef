"""Reports of offences: each once, if no author attached it, never of oneself, and again after a refusal."""

import asyncio

import pytest

from gpu_tasks.provider.chain.port import ChainError, SeenOffence, View
from gpu_tasks.provider.duties.offences import Reporter
from gpu_tasks.provider.telemetry import LogTelemetry
from runtime.blocks.block import HEADER, Header
from runtime.blocks.digest import author_item
from runtime.blocks.evidence import DoubleHeader
from runtime.frame.call import Call
from runtime.pallets.staking.trust_lock import TrustLock

OWN, DAVE, EVE = b"\1" * 32, b"\2" * 32, b"\3" * 32


def evidence(author: bytes, number: int = 1) -> SeenOffence:
    headers = (Header(bytes(32), number, bytes([n]) * 32, bytes(32), (author_item(author),)) for n in (1, 2))
    return SeenOffence(author, DoubleHeader(*(HEADER.encode(header) for header in headers)))


class FakeChain:
    """The chain queries of a reporter, answered from memory."""

    def __init__(self, *found: SeenOffence) -> None:
        self.found = list(found)
        self.tombstones: set[bytes] = set()
        self.calls: list[Call] = []
        self.is_away = False

    async def offences(self) -> list[SeenOffence]:
        return self.found

    async def is_tombstoned(self, stash: bytes) -> bool:
        return stash in self.tombstones

    async def submit(self, call: Call) -> None:
        if self.is_away:
            raise ChainError("away")
        self.calls.append(call)


def reporter(chain: FakeChain) -> Reporter:
    return Reporter(OWN, chain, LogTelemetry())  # type: ignore[arg-type]  # the part of `Chain` that it uses


def steps(chain: FakeChain, count: int = 3) -> None:
    accuser = reporter(chain)
    for _ in range(count):
        asyncio.run(accuser.step(View(4, ())))


def test_each_offender_is_reported_once() -> None:
    chain = FakeChain(evidence(DAVE), evidence(DAVE), evidence(EVE))
    steps(chain)
    assert chain.calls[0] == TrustLock.report_offence(evidence=evidence(DAVE).evidence)
    assert len(chain.calls) == 2


def test_authors_have_until_the_next_step_to_attach_it_for_nothing() -> None:
    chain = FakeChain(evidence(DAVE), evidence(EVE))
    accuser = reporter(chain)
    asyncio.run(accuser.step(View(4, ())))
    assert chain.calls == []
    chain.tombstones.add(DAVE)
    asyncio.run(accuser.step(View(4, ())))
    assert chain.calls == [TrustLock.report_offence(evidence=evidence(EVE).evidence)]


def test_nobody_accuses_itself() -> None:
    chain = FakeChain(evidence(OWN))
    steps(chain)
    assert chain.calls == []


def test_who_was_punished_is_not_reported_again() -> None:
    chain = FakeChain(evidence(DAVE))
    chain.tombstones.add(DAVE)
    steps(chain)
    assert chain.calls == []


def test_after_its_tombstone_was_lifted_a_new_offence_is_reported_and_no_old_one() -> None:
    chain = FakeChain(evidence(DAVE))
    accuser = reporter(chain)
    for _ in range(2):
        asyncio.run(accuser.step(View(4, ())))
    chain.tombstones.add(DAVE)
    asyncio.run(accuser.step(View(4, ())))
    chain.tombstones.clear()
    for _ in range(2):
        asyncio.run(accuser.step(View(4, ())))
    assert len(chain.calls) == 1
    chain.found.append(evidence(DAVE, 7))
    for _ in range(2):
        asyncio.run(accuser.step(View(4, ())))
    assert chain.calls[1] == TrustLock.report_offence(evidence=evidence(DAVE, 7).evidence)


def test_a_report_that_the_node_did_not_take_is_sent_again() -> None:
    chain = FakeChain(evidence(DAVE))
    accuser = reporter(chain)
    asyncio.run(accuser.step(View(4, ())))
    chain.is_away = True
    with pytest.raises(ChainError):
        asyncio.run(accuser.step(View(4, ())))
    chain.is_away = False
    asyncio.run(accuser.step(View(4, ())))
    assert len(chain.calls) == 1
