"""Random calls of every pallet: right ones and wrong ones.

Each argument is drawn by its name, as the modules of `simulation/pallets/` define. A call whose arguments depend on
each other has its own function in `WHOLE`. Invariant: every call of every pallet is drawn.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from genesis import dev_accounts
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.frame.call import Call, CallMethod
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Runtime
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.session import Session
from runtime.pallets.session_keys import SessionKeys
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from simulation.actors import BY_STASH, Actor, Value, World, always
from simulation.catalogue import arguments
from simulation.replay import duties

Draw = Callable[[World, Actor], Call]
NESTING_MAX = 1
UNITS_TRIED = 10
"""The random units from which one with racers is chosen."""
STAYS = 0.998
SHARES = {
    "Balances.transfer_allow_death": 4, "Balances.transfer_keep_alive": 4, "Utility.batch": 2, "Utility.batch_all": 2,
    "Utility.force_batch": 2, "TrustStake.unbond": 2, "TrustStake.withdraw_unbonded": 2, "TrustStake.validate": 2,
    "TrustStake.delegate": 4, "TrustStake.undelegate": 3, "TrustStake.redelegate": 2, "Devices.register_device": 2,
    "Devices.resume": 3, "InferenceMarket.offer": 2, "InferenceMarket.post": 14, "Attestations.reveal": 2,
    "Sudo.sudo": 3,
}  # fmt: skip
"""Relative frequencies of calls. An unlisted call has 1."""
ARGUMENTS: dict[str, Value] = {
    **dict.fromkeys(("commitment", "salt"), always(bytes(32))),
    "new": lambda _, who: who.stash.account,
    **arguments(),
}
"""Random arguments, by name, or by call and name for exceptions."""


def draw(world: World, who: Actor) -> Call:
    """Return a call for `who` to make."""
    methods, shares = _methods(world.bound.runtime)
    return _drawn(world.chance.choices(methods, shares)[0], world, who)


def draw_post(world: World, who: Actor) -> Call:
    """Return a post of random units."""
    return _drawn(world.bound.runtime.method("InferenceMarket", "post"), world, who)


@cache
def _methods(runtime: Runtime) -> tuple[list[CallMethod[Any, Any, Any]], list[int]]:
    methods = [method for pallet in runtime.pallets for method in pallet.methods if not method.is_inherent]
    return methods, [SHARES.get(_name(method), 1) for method in methods]


def _name(method: CallMethod[Any, Any, Any]) -> str:
    return f"{method.pallet.__name__}.{method.name}"


def _drawn(method: CallMethod[Any, Any, Any], world: World, who: Actor) -> Call:
    name = _name(method)
    if name in WHOLE:
        return WHOLE[name](world, who)
    values = [ARGUMENTS.get(f"{name}.{each}") or ARGUMENTS[each] for each in method.parameters]
    return Call(method, tuple(value(world, who) for value in values))


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


def _reveal(world: World, who: Actor) -> Call:
    """Return a racer's attestation of a unit, mostly out of turn."""
    market, tried = world.bound[InferenceMarket], [world.unit() for _ in range(UNITS_TRIED)]
    found = ((unit_id, market.units[unit_id]) for unit_id in tried)
    raced = ((unit_id, unit) for unit_id, unit in found if unit is not None and unit.racers)
    unit_id, unit = next(raced, (tried[0], None))
    if unit is None or unit.service not in market.services:
        return InferenceMarket.cancel(unit=unit_id)
    racer = world.chance.choice(unit.racers)
    signer = who if world.chance.random() < 0.5 else BY_STASH.get(racer.owner, who)
    return Attestations.reveal(attestation=duties.attestation(world, signer, unit_id, unit, racer))


def _simple(world: World, who: Actor) -> Call:
    """Return a call without inner calls."""
    methods = [method for method in _methods(world.bound.runtime)[0] if _name(method) not in NESTED]
    return _drawn(world.chance.choice(methods), world, who)


def _inner(world: World, who: Actor, depth: int = 0) -> tuple[Call, ...]:
    made = [_simple(world, who) for _ in range(world.chance.choice((0, 1, 2, 3, 5)))]
    if depth < NESTING_MAX and world.chance.random() < 0.3:
        made.append(Utility.force_batch(calls=_inner(world, who, depth + 1)))
    return tuple(made)


def _spend(world: World, who: Actor) -> Call:
    """Return a purchase from a budget: units, a session, or a call that no delegate may make."""
    opening = dict(_drawn(world.bound.runtime.method("Sessions", "open"), world, who).named_arguments)
    bought = (draw_post(world, who), Sessions.open(**{**opening, "signer": who.stash.account}), _simple(world, who))
    (inner,) = world.chance.choices(bought, (4, 4, 1))
    return Budgets.spend(budget=ARGUMENTS["budget"](world, who), call=inner)


def _set_parameter(world: World, _: Actor) -> Call:
    """Return a change of a parameter: to its default, above it, or out of bounds. Frozen ones are included."""
    declared = world.bound.runtime.parameters.parameters
    parameter = declared[world.chance.choice(sorted(declared))]
    values = (parameter.default, min(parameter.default * 11 // 10, parameter.greatest), parameter.greatest + 1)
    return ChainParameters.set_parameter(change=ParameterChange(parameter, world.chance.choice(values)))


def _forgive(world: World, _: Actor) -> Call:
    """Return a call that only Root may make."""
    if world.chance.random() < 0.5:
        return TrustLock.cancel_slashes(offender=world.validator())
    return TrustStake.lift_tombstone(stash=world.validator())


def _sudo(world: World, who: Actor) -> Call:
    calls = (
        System.remark(remark=b"root"),
        Utility.batch(calls=_inner(world, who)),
        Balances.burn(value=1, keep_alive=True),
        _set_parameter(world, who),
        _forgive(world, who),
        _forgive(world, who),
    )
    return Sudo.sudo(call=world.chance.choice(calls))


def _sudo_as(world: World, who: Actor) -> Call:
    return Sudo.sudo_as(who=world.account(), call=_simple(world, who))


def _chill(world: World, who: Actor) -> Call:
    """Return a chill, but rarely for a validator with a seat, because the others must keep working."""
    sits = world.bound[TrustStake].seat_of(who.stash.account) is not None
    return TrustStake.unjail() if sits and world.chance.random() < STAYS else TrustStake.chill()


POWERS: tuple[Draw, ...] = (_sudo, _sudo, _sudo_as, lambda w, _: Sudo.set_key(new=w.chance.choice(sorted(BY_STASH))))
"""Calls that only the holder of the Root key can make."""
NESTED = (
    "Utility.batch", "Utility.batch_all", "Utility.force_batch", "Sudo.sudo", "Sudo.sudo_as", "Budgets.spend",
)  # fmt: skip
ARGUMENTS["calls"] = _inner
WHOLE: dict[str, Draw] = {
    "TrustStake.validate": _validate,
    "Session.set_keys": _set_keys,
    "TrustStake.chill": _chill,
    "Attestations.reveal": _reveal,
    "ChainParameters.set_parameter": _set_parameter,
    "Budgets.spend": _spend,
    "Sudo.sudo": _sudo,
    "Sudo.sudo_as": _sudo_as,
}
