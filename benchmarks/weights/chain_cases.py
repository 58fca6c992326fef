"""Every call of the chain's own pallets at its worst, staking apart."""

from benchmarks.weights.actors import CUSTOMER, ROOT
from benchmarks.weights.findings import Findings
from benchmarks.weights.world import World
from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.encoding.types import Root, Unsigned
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.im_online import HEARTBEATS_MAX
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from simulation.chains.market_chain import OGPU, signed
from simulation.chains.presence import attached, heartbeat

LONG, MANY = 64 * 1024, 200


def measure(world: World, found: Findings) -> None:
    """All of them, at the newest block."""
    rich, poor = world.senders[0].stash, world.others[0]
    found.quiet_hooks()
    found.call(Unsigned(), world.time(), has_time=False)
    for transfer in (Balances.transfer_allow_death, Balances.transfer_keep_alive):
        found.alone(rich, transfer(dest=b"\x01" * 32, value=OGPU))  # the row: from whole blocks
    found.call(poor, Balances.transfer_all(dest=b"\x03" * 32, keep_alive=False))
    found.call(rich, Balances.burn(value=OGPU, keep_alive=False))
    for remark in (System.remark, System.remark_with_event):
        found.growing(rich, "kibibyte", {0: remark(remark=b""), LONG // 1024: remark(remark=bytes(LONG))})
    nothing = System.remark(remark=b"")
    inner = found.rows["System.remark"]
    for batch in (Utility.batch, Utility.batch_all, Utility.force_batch):
        # the row of each call in one: from whole blocks
        found.growing(rich, "call", {1: batch(calls=(nothing,)), MANY: batch(calls=(nothing,) * MANY)}, inner=inner)
    _parameters(world, found)
    _heartbeats(world, found)
    sudo: tuple[Call, ...] = (
        Sudo.sudo(call=nothing),
        Sudo.sudo_as(who=CUSTOMER.stash, call=nothing),
        Sudo.set_key(new=CUSTOMER.stash),
    )
    for call in sudo:
        found.call(ROOT.stash, call)


def _heartbeats(world: World, found: Findings) -> None:
    """Of those who were not heard in this epoch: a full inherent."""
    bound = world.begin().bound  # whose author is on line
    epoch, final = bound[Beacon].epoch(), bound[Beacon].final_height()
    silent = [who for who in world.validators if not bound[TrustStake].was_on_line(who.stash, epoch)]
    beats = [heartbeat(who, world.genesis, final, world.hash_of(final)) for who in silent[:HEARTBEATS_MAX]]
    found.growing(Unsigned(), "heartbeat", {count: attached(beats[:count]) for count in (1, HEARTBEATS_MAX)})


def _parameters(world: World, found: Findings) -> None:
    """A parameter that stands in relations, while every other one has been changed too."""
    # the greatest first: windows of this world are shorter than by default, and what has to exceed one grows before it
    greatest_first = sorted(world.runtime.parameters.parameters.values(), key=lambda each: -each.default)
    changes = [
        ChainParameters.set_parameter(change=ParameterChange(parameter, parameter.default))
        for parameter in greatest_first
        if not parameter.is_frozen and parameter is not InferenceMarket.unit_keep
    ]
    world.block(*(signed(Root(), call) for call in changes))
    worst = ParameterChange(InferenceMarket.race_reveal, InferenceMarket.race_reveal.default + 1)
    found.call(Root(), ChainParameters.set_parameter(change=worst))
