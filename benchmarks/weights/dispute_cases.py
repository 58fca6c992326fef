"""The call and the hook of LeafDisputes at their worst: eight answers of 4,096 leaves that differ in the last."""

from dataclasses import replace

from benchmarks.weights.actors import DEVICE_BOND, Actor
from benchmarks.weights.races import BLOCKS_BEFORE, LEAVES, Leaves, MarketCases, raced
from gpu_tasks.batches.sum_tree import nodes_below, subtrees_of, totals_of
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.units import RACERS_MAX
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Root
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.pallets.chain_parameters import ChainParameters
from simulation.chains.market_chain import signed

HOOK = "LeafDisputes.on_initialize"
ROUNDS = 5
ANSWERS: tuple[Leaves, ...] = tuple(
    (*LEAVES[:-1], replace(LEAVES[-1], digest=blake2_256(bytes([place])))) for place in range(RACERS_MAX)
)


class DisputeCalls(MarketCases):
    """Trees that are shown and compared, and trees that are not shown."""

    _unit = b""

    def measure(self) -> None:
        """Measure all cases, after the work left by earlier cases has ended."""
        world = self.world
        world.blocks(BLOCKS_BEFORE)
        change = ParameterChange(LeafDisputes.show_blocks, 4)
        world.block(signed(Root(), ChainParameters.set_parameter(change=change)))
        self._dispute()
        self._shown()  # the subtrees
        world.block()
        last = self._shown()  # the leaves of the last one
        if last.stage is not LeafDisputeStage.LEAVES:
            raise RuntimeError("leaves are not asked for")
        self._look("the last of 64 leaves of eight trees", LeafDisputeStage.JUDGED)
        self._dispute()
        world.blocks(self._now().deadline - world.height)
        self._look("eight missing trees", None)
        self._make_good()

    def _make_good(self) -> None:
        """Restore racers' bonds and resume their devices, because later cases need eight racers for many units."""
        bring = (Devices.bond_device_extra(device=actor.device(), value=DEVICE_BOND) for actor in self.world.validators)
        self.world.block(*(signed(actor.stash, call) for actor, call in zip(self.world.validators, bring, strict=True)))
        self.races.wake_devices()

    def _dispute(self) -> None:
        self.races.wake_devices()
        self._unit = raced(self.world, self.races, ANSWERS)
        while not self.world.now()[LeafDisputes].is_disputed(self._unit):
            self.world.block()

    def _shown(self) -> LeafDispute:
        """Have every side show its nodes, and measure the last call. Return the dispute before the look."""
        calls = [(actor, self._call(actor, place)) for place, actor in enumerate(self._racers())]
        self.world.block(*(signed(actor.provider, call) for actor, call in calls[:-1]))
        actor, call = calls[-1]
        self.found.call(actor.provider, call)
        self.world.block(signed(actor.provider, call))
        return self._now()

    def _look(self, name: str, then: LeafDisputeStage | None) -> None:
        real, _ = self.found.hooks(name, rounds=ROUNDS)["LeafDisputes"]
        rows, base = self.found.rows, self.found.rows.get(HOOK, 0.0)
        rows[f"{HOOK} step"] = max(100.0, real - base, rows.get(f"{HOOK} step", 0.0))
        self.world.block()
        found = self.world.now()[LeafDisputes].disputes[self._unit]
        if (None if found is None else found.stage) is not then:
            raise RuntimeError(f"{name}: the dispute has not gone on")

    def _call(self, actor: Actor, place: int) -> Call:
        dispute, leaves = self._now(), ANSWERS[place]
        is_first = dispute.stage is LeafDisputeStage.SUBTREES
        nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)
        return LeafDisputes.show_nodes(unit=self._unit, totals=totals_of(leaves), nodes=nodes)

    def _racers(self) -> list[Actor]:
        return list(self.races.racers(self._unit))[:RACERS_MAX]

    def _now(self) -> LeafDispute:
        return self.world.now()[LeafDisputes].open_dispute(self._unit)
