"""Every call of the chain's own pallets at its worst, except for staking."""

from benchmarks.weights.actors import CUSTOMER, ROOT
from benchmarks.weights.findings import Findings
from benchmarks.weights.world import World
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.training_market import TrainingMarket
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
KEPT = (InferenceMarket.unit_keep, TrainingMarket.task_keep, TrustStake.validator_count)
"""Parameters that keep their values of block 0. The default of `validator_count` would unseat most validators."""


def measure(world: World, found: Findings) -> None:
    """Measure all of them at the newest block."""
    rich, poor = world.senders[0].stash, world.others[0]
    found.quiet_hooks()
    found.call(Unsigned(), world.time(), has_time=False)
    for transfer in (Balances.transfer_allow_death, Balances.transfer_keep_alive):
        found.alone(rich, transfer(dest=b"\x01" * 32, value=OGPU))  # the row comes from whole blocks
    found.call(poor, Balances.transfer_all(dest=b"\x03" * 32, keep_alive=False))
    found.call(rich, Balances.burn(value=OGPU, keep_alive=False))
    for remark in (System.remark, System.remark_with_event):
        found.growing(rich, "kibibyte", {0: remark(remark=b""), LONG // 1024: remark(remark=bytes(LONG))})
    nothing = System.remark(remark=b"")
    inner = found.rows["System.remark"]
    for batch in (Utility.batch, Utility.batch_all, Utility.force_batch):
        # the row of each inner call comes from whole blocks
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
    """Measure a full inherent of heartbeats, from validators not yet heard in this epoch."""
    bound = world.begin().bound  # its author counts as on line
    epoch, final = bound[Beacon].epoch(), bound[Beacon].final_height()
    silent = [who for who in world.validators if not bound[TrustStake].was_on_line(who.stash, epoch)]
    beats = [heartbeat(who, world.genesis, final, world.hash_of(final)) for who in silent[:HEARTBEATS_MAX]]
    found.growing(Unsigned(), "heartbeat", {count: attached(beats[:count]) for count in (1, HEARTBEATS_MAX)})


def _parameters(world: World, found: Findings) -> None:
    """Measure the change of a parameter that has relations to others, after every other parameter was changed."""
    world.block(*(signed(Root(), call) for call in to_defaults(world)))
    worst = ParameterChange(InferenceMarket.race_reveal, InferenceMarket.race_reveal.default + 1)
    found.call(Root(), ChainParameters.set_parameter(change=worst))


def to_defaults(world: World) -> list[Call]:
    """Return the calls that set every parameter to its default, except for those in `KEPT`."""
    # the greatest first: this world's windows are shorter than the defaults, and a bound must grow before its window
    greatest_first = sorted(world.runtime.parameters.parameters.values(), key=lambda each: -each.default)
    return [
        ChainParameters.set_parameter(change=ParameterChange(parameter, parameter.default))
        for parameter in greatest_first
        if not parameter.is_frozen and parameter not in KEPT
    ]
