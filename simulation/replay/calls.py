"""Random calls, one function for each call of each pallet: right ones and wrong ones.

Always: a pallet's call that no function here makes is reported by the recording, which then fails.
"""

from collections.abc import Callable

from genesis import dev_accounts
from gpu_tasks.batches.sum_tree import LeafPath, Totals
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROWS_MIN, SIZE_MIN, WorkShape
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import QUEUE_MAX, DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.blocks.block import HEADER, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.evidence import DoubleHeader
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.session import Session
from runtime.pallets.session_keys import SessionKeys
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from simulation.replay import duties
from simulation.replay.cast import ACTORS, BY_STASH, VALIDATORS, Actor
from simulation.replay.task_calls import TASK_CALLS
from simulation.replay.world import OGPU, World

Draw = Callable[[World, Actor], Call]
NESTING_MAX = 1
NO_TOTALS, NO_PATH = Totals(2, 0, 0, bytes(32)), LeafPath(0, 0, 0, bytes(32), ())
STAYS = 0.998


OFFENDERS = ("Dave", "Bob")
FIRST_OFFENCE_HEIGHT = 130


def report(world: World, _: Actor) -> Call:
    """A report that may be right, late, repeated or nonsense."""
    kind = world.chance.randrange(6)
    offenders = OFFENDERS if world.height > 3 * FIRST_OFFENCE_HEIGHT else OFFENDERS[:1]
    name = world.chance.choice(offenders) if world.height > FIRST_OFFENCE_HEIGHT else "Ferdie"
    offender = next(actor for actor in ACTORS if actor.name == name)
    epoch = world.bound[Beacon].epoch()
    if kind == 0:
        return _called(world.chance.randbytes(40), b"")
    if kind == 1:  # the same header twice
        header = _sealed(world, offender, 1, epoch)
        return _called(header, header)
    if kind == 2:
        validator = next(actor for actor in ACTORS if actor.name == VALIDATORS[0])
        old = (_sealed(world, validator, root, 0) for root in (1, 2))
        first, second = old
        if epoch > 4:
            return _called(first, second)
    return _called(_sealed(world, offender, 1, epoch), _sealed(world, offender, 2, epoch))


def _called(first: bytes, second: bytes) -> Call:
    return TrustLock.report_offence(evidence=DoubleHeader(first, second))


def _sealed(world: World, author: Actor, root: int, epoch: int) -> bytes:
    pre_digest = PreDigest(77, epoch, bytes(32), bytes(80))
    digest = (author_item(author.stash.account), pre_digest_item(pre_digest))
    header = Header(bytes(32), 9, bytes([root]) * 32, bytes(32), digest)
    seal = seal_item(author.session.sign(seal_payload(world.genesis_hash, header)))
    return HEADER.encode(Header(bytes(32), 9, header.state_root, bytes(32), (*digest, seal)))


def draw(world: World, who: Actor) -> Call:
    """A call that `who` may want to make."""
    functions = [function for function, _ in CALLS]
    weights = [weight for _, weight in CALLS]
    return world.chance.choices(functions, weights)[0](world, who)


def _post(world: World, _: Actor) -> Call:
    chance = world.chance
    terms = tuple(
        UnitTerms(
            chance.choice((OGPU // 100, OGPU // 10, OGPU // 2, OGPU)) if chance.random() < 0.95 else 2 * OGPU,
            chance.choice((1, 1, 2, 2, 2, 3)) if chance.random() < 0.95 else chance.choice((0, 9)),
            chance.randbytes(32),
            chance.randbytes(32),
            max(0, world.final_height() - (0 if chance.random() < 0.9 else chance.choice((1, -1)))),
            chance.choice((1, 64, 256, 257)) if chance.random() < 0.1 else 64,
            chance.choice((0, 2, 16, 64, 64, 64, 4_097)) if chance.random() < 0.3 else 1,
            chance.choice((1, 80)) if chance.random() < 0.3 else 0,
            chance.choice((None, *DeviceClass)),
        )
        for _ in range(chance.choice((1, 1, 1, 2, 3)))
    )
    return InferenceMarket.post(service=0 if chance.random() < 0.8 else world.service(), units=terms)


def _create_service(world: World, _: Actor) -> Call:
    low, high = world.chance.choice(((1, 2), (2, 1), (OGPU // 100, OGPU)))
    lease = world.chance.choice((0, 20, 601))
    chosen = world.chance.choice(((0, 0), (250_000, 64), (0, 64, 90, 0), (1_000_001, 0), (0, 10**9 + 1), (0, 9, 8)))
    return InferenceMarket.create_service(
        terms=ServiceTerms(b"other", world.chance.randbytes(32), bytes(32), low, high, 10, lease, 64, *chosen)
    )


def _validate(world: World, who: Actor) -> Call:
    keys = who if world.chance.random() < 0.8 else world.chance.choice(sorted(BY_STASH.items()))[1]
    named = dev_accounts.node_keys(keys.name)
    proof = dev_accounts.keys_proof(keys.name, world.genesis_hash, who.stash.account)
    return TrustStake.validate(
        keys=named if world.chance.random() < 0.9 else SessionKeys(bytes(32), named.vrf),
        proof=proof,
        provider_key=keys.provider.account,
        commission_ppm=world.chance.choice((50_000, 50_000, 60_000, 49_999, 1_000_001)),
    )


def _set_keys(world: World, who: Actor) -> Call:
    keys = who if world.chance.random() < 0.7 else world.chance.choice(sorted(BY_STASH.items()))[1]
    proof = dev_accounts.keys_proof(keys.name, world.genesis_hash, who.stash.account)
    return Session.set_keys(keys=dev_accounts.node_keys(keys.name), proof=proof)


def _drop_provider(world: World, _: Actor) -> Call:
    """Somebody who has left without a word, else anybody."""
    devices, stake = world.bound[Devices], world.bound[TrustStake]
    gone = [stash for stash, _ in devices.providers.items() if stash not in stake.candidates and not stake.bonds[stash]]
    return Devices.drop_provider(stash=world.chance.choice(gone) if gone else world.account())


def _behind(world: World, who: Actor) -> bytes:
    """A validator that somebody is behind, else any."""
    behind = [validator for validator, _ in world.bound[TrustStake].positions.under(who.stash.account)]
    return world.chance.choice(behind) if behind else world.validator()


def _undelegate(world: World, who: Actor) -> Call:
    return TrustStake.undelegate(validator=_behind(world, who), value=world.amount())


def _redelegate(world: World, who: Actor) -> Call:
    return TrustStake.redelegate(source=_behind(world, who), target=world.validator(), value=world.amount())


def _claim(world: World, who: Actor) -> Call:
    pull = world.chance.choice((TrustStake.claim, TrustStake.compound))
    return pull(validator=world.chance.choice((who.stash.account, _behind(world, who))))


def _collect(world: World, who: Actor) -> Call:
    return TrustStake.collect(staker=who.stash.account, validator=_behind(world, who))


def _forgive(world: World, _: Actor) -> Call:
    """Only Root may."""
    if world.chance.random() < 0.5:
        return TrustLock.cancel_slashes(offender=world.validator())
    return TrustStake.lift_tombstone(stash=world.validator())


def _announce(world: World, _: Actor) -> Call:
    return TrustStake.announce_commission(commission_ppm=world.chance.choice((50_000, 55_000, 60_000, 900_000, 1)))


def _profile(world: World, _: Actor) -> Call:
    name = world.chance.choice((b"", b"Alice & sons", world.chance.randbytes(32)))
    return TrustStake.set_profile(name=name, web=b"https://example.org" if name else b"")


def _reveal(world: World, who: Actor) -> Call:
    """Somebody's attestation of a unit, most often out of place."""
    unit_id = world.unit()
    market = world.bound[InferenceMarket]
    unit = market.units[unit_id]
    if unit is None or not unit.racers or unit.service not in market.services:
        return InferenceMarket.cancel(unit=unit_id)
    racer = world.chance.choice(unit.racers)
    signer = who if world.chance.random() < 0.5 else BY_STASH.get(racer.owner, who)
    return Attestations.reveal(attestation=duties.attestation(world, signer, unit_id, unit, racer))


def _inner(world: World, who: Actor, depth: int = 0) -> tuple[Call, ...]:
    count = world.chance.choice((0, 1, 2, 3, 5))
    simple = [function for function, _ in CALLS if function not in NESTED]
    made = [world.chance.choice(simple)(world, who) for _ in range(count)]
    if depth < NESTING_MAX and world.chance.random() < 0.3:
        made.append(Utility.force_batch(calls=_inner(world, who, depth + 1)))
    return tuple(made)


def _batch(world: World, who: Actor) -> Call:
    return Utility.batch(calls=_inner(world, who))


def _batch_all(world: World, who: Actor) -> Call:
    return Utility.batch_all(calls=_inner(world, who))


def _force_batch(world: World, who: Actor) -> Call:
    return Utility.force_batch(calls=_inner(world, who))


def _set_parameter(world: World, _: Actor) -> Call:
    """A parameter somewhat above its default, or beyond its bounds; frozen ones too."""
    declared = world.bound.runtime.parameters.parameters
    parameter = declared[world.chance.choice(sorted(declared))]
    values = (parameter.default, min(parameter.default * 11 // 10, parameter.greatest), parameter.greatest + 1)
    return ChainParameters.set_parameter(change=ParameterChange(parameter, world.chance.choice(values)))


def _sudo(world: World, who: Actor) -> Call:
    calls = (
        System.remark(remark=b"root"),
        _batch(world, who),
        Balances.burn(value=1, keep_alive=True),
        _set_parameter(world, who),
        _forgive(world, who),
        _forgive(world, who),
    )
    return Sudo.sudo(call=world.chance.choice(calls))


def _sudo_as(world: World, who: Actor) -> Call:
    simple = [function for function, _ in CALLS if function not in NESTED]
    return Sudo.sudo_as(who=world.account(), call=world.chance.choice(simple)(world, who))


POWERS: tuple[Draw, ...] = (_sudo, _sudo, _sudo_as, lambda w, _: Sudo.set_key(new=w.chance.choice(sorted(BY_STASH))))
"""What only the holder of the key of Root can do."""


def _chill(world: World, who: Actor) -> Call:
    """Who sits mostly means to go on: else nobody would be left to work."""
    sits = world.bound[TrustStake].seat_of(who.stash.account) is not None
    return TrustStake.unjail() if sits and world.chance.random() < STAYS else TrustStake.chill()


NESTED: tuple[Draw, ...] = (_batch, _batch_all, _force_batch, _sudo, _sudo_as)
CALLS: tuple[tuple[Draw, int], ...] = (
    (lambda w, _: System.remark(remark=w.chance.randbytes(w.chance.randrange(200))), 1),
    (lambda w, _: System.remark_with_event(remark=w.chance.randbytes(w.chance.randrange(200))), 1),
    (lambda w, _: Balances.transfer_allow_death(dest=w.account(), value=w.amount()), 4),
    (lambda w, _: Balances.transfer_keep_alive(dest=w.account(), value=w.amount()), 4),
    (lambda w, who: Balances.transfer_all(dest=who.stash.account, keep_alive=w.chance.random() < 0.5), 1),
    (lambda w, _: Balances.burn(value=w.chance.choice((1, 100_000, 2**127)), keep_alive=True), 1),
    (_batch, 2),
    (_batch_all, 2),
    (_force_batch, 2),
    (lambda w, _: TrustStake.bond(value=w.amount()), 1),
    (lambda w, _: TrustStake.bond_extra(value=w.amount()), 1),
    (lambda w, _: TrustStake.unbond(value=w.amount()), 2),
    (lambda _w, _: TrustStake.withdraw_unbonded(), 2),
    (_validate, 2),
    (_set_keys, 1),
    (_chill, 1),
    (lambda _w, _: TrustStake.unjail(), 1),
    (lambda w, _: TrustStake.delegate(validator=w.validator(), value=w.amount()), 4),
    (_undelegate, 3),
    (_redelegate, 2),
    (_claim, 2),
    (_collect, 1),
    (_announce, 1),
    (_profile, 1),
    (_forgive, 1),
    (report, 1),
    (
        lambda w, who: Devices.register_provider(
            seal_key=who.vrf, endpoint=w.chance.choice((b"http://127.0.0.1:1", b"ftp://nowhere", b"http://a b"))
        ),
        1,
    ),
    (
        lambda w, _: Devices.register_device(
            kind=w.chance.choice(list(DeviceClass)), uuid_hash=bytes([w.chance.randrange(4)]) * 32, bond=w.amount()
        ),
        2,
    ),
    (lambda _w, _: Devices.unregister_provider(), 1),
    (_drop_provider, 1),
    (lambda w, who: Devices.unregister_device(device=w.device(who)), 1),
    (lambda w, who: Devices.bond_device_extra(device=w.device(who), value=w.amount()), 1),
    (lambda w, who: Devices.set_queue(device=w.device(who), queue=w.chance.randint(0, QUEUE_MAX + 1)), 1),
    (lambda w, who: Devices.pause(device=w.device(who)), 1),
    (lambda w, who: Devices.resume(device=w.device(who)), 3),
    (
        lambda w, who: Capacity.enrol(
            device=w.device(who), shape=WorkShape(w.chance.choice((SIZE_MIN, 1)), ROWS_MIN, 4_096)
        ),
        1,
    ),
    (lambda w, who: Capacity.withdraw(device=w.device(who)), 1),
    (lambda w, who: Capacity.commit(device=w.device(who), root=bytes(32)), 1),
    (lambda w, who: Capacity.show_rows(device=w.device(who), rows=()), 1),
    (lambda w, who: Capacity.object(device=w.device(who)), 1),
    (_create_service, 1),
    (lambda w, _: InferenceMarket.close_service(service=1 + w.service()), 1),
    (
        lambda w, who: InferenceMarket.offer(device=w.device(who), service=w.service(), ask=w.chance.choice((1, OGPU))),
        2,
    ),
    (lambda w, who: InferenceMarket.withdraw_offer(device=w.device(who), service=1 + w.service()), 1),
    (_post, 14),
    (lambda w, who: InferenceMarket.cancel(unit=w.unit(who.stash.account)), 1),
    (lambda w, _: InferenceMarket.commit_result(unit=w.unit(), attempt=1, commitment=bytes(32)), 1),
    (lambda w, _: InferenceMarket.decline(unit=w.unit(), attempt=1), 1),
    (lambda w, _: Courts.commit_opinion(case_id=w.unit(), commitment=bytes(32)), 1),
    (
        lambda w, _: Courts.open_opinion(
            case_id=w.unit(),
            statement=Statement(w.chance.choice((Unanswerable(), Answered(bytes(32)))), bytes(32)),
            salt=bytes(32),
        ),
        1,
    ),
    (lambda w, _: Courts.appeal(case_id=w.unit()), 1),
    (lambda w, _: LeafChecks.show_leaves(unit=w.unit(), totals=NO_TOTALS, paths=()), 1),
    (lambda w, _: LeafChecks.pass_leaves(unit=w.unit(), proof=bytes(32)), 1),
    (lambda w, _: LeafChecks.doubt_leaf(unit=w.unit(), index=0, found=bytes(32)), 1),
    (lambda w, _: LeafChecks.dispute_leaf(unit=w.unit(), totals=NO_TOTALS, path=NO_PATH, found=bytes(32)), 1),
    (lambda w, _: LeafDisputes.show_nodes(unit=w.unit(), totals=NO_TOTALS, nodes=()), 1),
    (_reveal, 2),
    *((task_call, 1) for task_call in TASK_CALLS),
    (_set_parameter, 1),
    (_sudo, 3),
    (_sudo_as, 1),
    (lambda _w, who: Sudo.set_key(new=who.stash.account), 1),
)
