"""A unit through real blocks: signed extrinsics, fees, the inherent; every block is executed again."""

import pytest

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import SignedAttestation, signing_payload
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, result_commitment, unit_id_of
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.block import block_id
from runtime.cryptography.signatures import Scheme, verify
from runtime.encoding.types import Pays
from runtime.execution.supply import recount
from runtime.frame.call import Call
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import ExtrinsicSuccess
from simulation.chains.market_chain import (
    CUSTOMER,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    attestation,
    genesis_config,
    named_keys,
    root_of,
    salt_of,
    terms,
)
from small_chain import Person, SmallChain, runtime_of

RIGHT = root_of(b"R" * 32)


class MarketBlocks(SmallChain):
    """A chain of all pallets whose blocks refer to their parent as final."""

    def __init__(self, validators: list[Keys]) -> None:
        runtime = runtime_of(
            TrustStake,
            TrustLock,
            Devices,
            Capacity,
            Courts,
            LeafChecks,
            LeafDisputes,
            TrainingMarket,
            InferenceMarket,
            Attestations,
        )
        config = genesis_config(validators, [])
        for keys in validators:
            config["Balances"]["balances"].append(["0x" + keys.provider.hex(), OGPU])
        super().__init__(runtime, config)

    def next(self, *calls: tuple[Keys, str, Call], attest: tuple[SignedAttestation, ...] = ()) -> None:
        """A block of these calls, each by a role of somebody."""
        final = (self.head.number, block_id(self.head)) if self.head.number else None
        authoring = self.begin(final=final)
        if attest:
            authoring.inherent(Attestations.attach(attestations=attest))
        for who, role, call in calls:
            person = Person(f"{who.name}/{role}", Scheme.ED25519)
            assert authoring.offer(self.signed(person, call), verify), repr(call)
        self.adopt(authoring.finish())
        recount(self.bound)

    def unit(self, unit_id: bytes) -> Unit:
        unit = self.bound[InferenceMarket].units[unit_id]
        assert unit is not None
        return unit


def resigned(signed: SignedAttestation, keys: Keys, genesis: bytes) -> SignedAttestation:
    """The same statement for this chain."""
    return SignedAttestation(signed.statement, keys.sign("provider", signing_payload(genesis, signed.statement)))


def test_post_race_attest_pay() -> None:
    validators = named_keys(4)
    chain = MarketBlocks(validators)
    by_stash = {keys.stash: keys for keys in validators}
    for _ in range(2):
        chain.next()
    chain.next((CUSTOMER, "stash", InferenceMarket.post(service=0, units=(terms(),))))
    unit_id = unit_id_of(chain.genesis_hash, CUSTOMER.stash, 0)
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.next()
    unit = chain.unit(unit_id)
    racers = [by_stash[racer.owner] for racer in unit.racers]
    before = [chain.bound[Balances].free_balance(keys.provider) for keys in racers]
    chain.next(*((keys, "provider", _commit(chain, keys, unit_id, unit)) for keys in racers))
    results = [one for one in chain.happened() if isinstance(one, ExtrinsicSuccess)]
    assert [one.dispatch_info.pays_fee for one in results[1:]] == [Pays.No] * 2
    assert [chain.bound[Balances].free_balance(keys.provider) for keys in racers] == before
    first, second = (resigned(attestation(keys, unit_id, unit, RIGHT), keys, chain.genesis_hash) for keys in racers)
    with pytest.raises(InvalidBlock):
        chain.next(attest=(second, first))
    chain.next(attest=(first, second))
    (settled,) = [one for one in chain.happened() if isinstance(one, ev.UnitSettled)]
    assert (settled.winner, settled.output_root) == (racers[0].stash, RIGHT)
    assert (first.statement.workload, first.statement.model) == (WORKLOAD, MODEL)


def test_the_signed_fallback_is_free_too() -> None:
    (alice,) = named_keys(1)
    chain = MarketBlocks([alice])
    for _ in range(2):
        chain.next()
    chain.next((CUSTOMER, "stash", InferenceMarket.post(service=0, units=(terms(racers=1),))))
    unit_id = unit_id_of(chain.genesis_hash, CUSTOMER.stash, 0)
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.next()
    unit = chain.unit(unit_id)
    chain.next((alice, "provider", _commit(chain, alice, unit_id, unit)))
    before = chain.bound[Balances].free_balance(alice.provider)
    signed = resigned(attestation(alice, unit_id, unit, RIGHT), alice, chain.genesis_hash)
    chain.next((alice, "provider", Attestations.reveal(attestation=signed)))
    assert chain.unit(unit_id).state is UnitState.SETTLED
    assert chain.bound[Balances].free_balance(alice.provider) == before


def _commit(chain: MarketBlocks, keys: Keys, unit_id: bytes, unit: Unit) -> Call:
    salt = salt_of(keys, unit_id)
    commitment = result_commitment(chain.genesis_hash, unit_id, unit.attempt, keys.stash, RIGHT, salt)
    return InferenceMarket.commit_result(unit=unit_id, attempt=unit.attempt, commitment=commitment)
