"""An honest provider whose node lies: real pallets, daemons and journals (finding B3)."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.units import Unit, racer_of
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.journal.pause_book import PauseCause
from gpu_tasks.provider.journal.records import Sent
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, FakeChain, Miner, Village, in_village
from simulation.chains.market_chain import signed

OTHER_REQUEST = b"complete something else"


class Lie:
    """Makes a provider's node return false units, in the best state, in the final one, or in both."""

    def __init__(self, miner: Miner, change: Callable[[Unit], Unit]) -> None:
        self.change = change
        self.is_told_as_best = self.is_told_as_final = False
        self.chain: FakeChain = miner.chain
        self._view, self._final, self._unit = miner.chain.view, miner.chain.final_unit, miner.chain.unit
        miner.chain.view = self.view  # type: ignore[method-assign]  # the node lies
        miner.chain.final_unit = self.final_unit  # type: ignore[method-assign]
        miner.chain.unit = self.unit  # type: ignore[method-assign]

    def view(self) -> View:
        view = self._view()
        if not self.is_told_as_best:
            return view
        return replace(view, duties=tuple(replace(duty, status=self._told(duty.status)) for duty in view.duties))

    async def unit(self, unit: bytes) -> UnitStatus | None:
        status = await self._unit(unit)
        return self._told(status) if status is not None and self.is_told_as_best else status

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        status = await self._final(unit)
        return self._told(status) if status is not None and self.is_told_as_final else status

    def _told(self, status: UnitStatus) -> UnitStatus:
        return replace(status, unit=self.change(status.unit))


async def other_input(village: Village) -> Callable[[Unit], Unit]:
    """Return a change of a unit's input into another available and usable one."""
    other = await village.post(OTHER_REQUEST, racers=8)
    status = village.unit(other)
    terms = status.unit.terms
    assert terms.input_commitment == commitment_of(encode_input(INPUT_SALT, CUSTOMER_SEAL.public, OTHER_REQUEST))

    def changed(unit: Unit) -> Unit:
        new = replace(unit.terms, input_root=terms.input_root, input_commitment=terms.input_commitment)
        return replace(unit, terms=new)

    return changed


@pytest.mark.parametrize("also_final", [False, True])
@in_village(3)
async def test_one_false_answer_about_the_input_costs_work_and_no_bond(village: Village, *, also_final: bool) -> None:
    """B3: results for another input are never signed. No promise exists yet, so the daemon computes again."""
    lie = Lie(village.miners[0], await other_input(village))
    victim = village.miners[0]
    unit = await village.post(racers=3)
    while not victim.executor.runs:
        village.node.block()
        lie.is_told_as_best, lie.is_told_as_final = True, also_final
        victim.chain.is_away = False
        original = victim.chain.submit

        async def swallow(_: object) -> None:
            return None

        if also_final:
            victim.chain.submit = swallow  # type: ignore[method-assign,assignment]  # the lie lasts: no commit gets through
        await victim.step()
        victim.chain.submit = original  # type: ignore[method-assign]
    lie.is_told_as_best = lie.is_told_as_final = False
    status = await village.run(unit)
    assert status.unit.ended_at
    assert not village.happened(ProviderSlashed)
    entry = victim.daemon.parts.journal.races[unit, 1]
    if also_final:
        assert Sent.COMMIT in entry.sent
        assert Sent.ATTESTATION not in entry.sent
        assert victim.executor.runs == [OTHER_REQUEST]
    else:
        assert len(victim.executor.runs) == 2
        assert not village.happened(RaceMissed)
        assert victim.heard.problems("not_final")


@pytest.mark.parametrize("also_final", [False, True])
@in_village(2)
async def test_nothing_is_revealed_before_the_commit_is_final(village: Village, *, also_final: bool) -> None:
    """B3: a node drops the commit, and claims that it is in the chain and reveals are open."""
    victim = village.miners[0]
    stash = victim.keys.stash
    unit = await village.post()
    while racer_of(village.unit(unit).unit, stash) is None:
        village.node.block()
        if village.unit(unit).unit.ended_at:
            unit = await village.post()
    swallowed: list[object] = []
    attested: list[object] = []

    async def swallow(call: object) -> None:
        swallowed.append(call)

    async def attest(attestation: object) -> None:
        attested.append(attestation)

    victim.chain.submit, victim.chain.attest = swallow, attest  # type: ignore[method-assign]
    while not swallowed:
        village.node.block()
        await victim.step()

    def told(record: Unit) -> Unit:
        assert record.round is not None
        commitment = swallowed[0].named_arguments["commitment"]  # type: ignore[attr-defined]  # a commit_result
        racers = tuple(
            replace(racer, commitment=commitment, committed_at=5) if racer.owner == stash else racer
            for racer in record.racers
        )
        return replace(record, racers=racers, round=replace(record.round, closed_at=5, reveals_from=6))

    lie = Lie(victim, told)
    lie.is_told_as_best, lie.is_told_as_final = True, also_final
    view = victim.chain.view()
    duties = tuple(replace(duty, status=replace(duty.status, reveals_from=6)) for duty in view.duties)
    await victim.daemon.step(replace(view, duties=duties))
    # A node that lies about the final chain too would have to forge a proof, where answers are proved.
    assert bool(attested) is also_final
    if not also_final:
        assert [str(problem).split()[-1] for problem in victim.heard.problems("not_final")] == ["commit"]


@in_village(2)
async def test_a_node_that_lies_while_the_daemon_settles_costs_a_retry(village: Village) -> None:
    miner = village.miners[0]
    honest, views = miner.chain.provider, 0

    async def lie(_: bytes) -> Provider | None:
        raise ChainError("do not believe the node")

    async def two_views() -> AsyncIterator[View]:
        nonlocal views
        for answer in (lie, honest):
            miner.chain.provider = answer  # type: ignore[method-assign,assignment]
            views += 1
            yield miner.chain.view()

    miner.chain.views = two_views  # type: ignore[method-assign]
    await miner.daemon.run()
    assert views == 2
    assert miner.heard.problems("not_settled") == ["do not believe the node"]


@in_village(2)
async def test_a_daemon_that_was_not_told_of_its_devices_asks_again(village: Village) -> None:
    miner = village.miners[0]
    honest, device = miner.chain.own_devices, miner.keys.device
    miner.daemon.parts.pauses.note(device, cause=PauseCause.UNSERVED)
    village.node.chain.block(signed(miner.keys.provider, Devices.pause(device=device)))

    async def two_views() -> AsyncIterator[View]:
        for answer in (AsyncMock(side_effect=ChainError("do not believe the node")), honest):
            miner.chain.own_devices = answer  # type: ignore[method-assign]
            yield miner.chain.view()

    miner.chain.views = two_views  # type: ignore[method-assign]
    await miner.daemon.run()
    assert miner.heard.problems("not_settled") == ["do not believe the node"]
    assert "resumed" in miner.heard.names(), "what is paused is offered again, if later"
