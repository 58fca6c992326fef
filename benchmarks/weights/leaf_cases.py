"""The calls and the hook of LeafChecks at their worst: batches of 4,096 requests, of which sixteen leaves are drawn."""

from collections.abc import Callable

from benchmarks.weights.actors import CUSTOMER, Actor
from benchmarks.weights.races import BLOCKS_BEFORE, LEAVES, MarketCases, raced
from gpu_tasks.batches.leaf_draws import drawn_points, index_at, weight_floor
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import leaf_path, leaf_paths, totals_of
from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.encoding.types import Root
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.pallets.chain_parameters import ChainParameters
from simulation.chains.market_chain import signed

HOOK = "LeafChecks.on_initialize"
STAGE_BLOCKS_MAX = 200
ROUNDS = 5
TOTALS = totals_of(LEAVES)
OTHER = b"O" * 32


class LeafCalls(MarketCases):
    """A batch that is shown, passed and disputed, and one that is not shown."""

    def measure(self) -> None:
        """Measure all cases, after the work left by earlier cases has ended."""
        world, found = self.world, self.found
        world.blocks(BLOCKS_BEFORE)
        numbers = (ParameterChange(LeafChecks.check_from, 2), ParameterChange(LeafChecks.show_blocks, 4))
        world.block(*(signed(Root(), ChainParameters.set_parameter(change=change)) for change in numbers))
        unit = raced(self.world, self.races)
        self._until(unit, lambda check: check.stage is LeafStage.SHOWING)
        shower, show = self._answerer(unit), self._show(unit)
        found.call(shower.provider, show)
        world.block(signed(shower.provider, show))
        check = self._until(unit, lambda check: check.auditor is not None)
        auditor, leaf = self._auditor(check), check.shown[0]
        passing = LeafChecks.pass_leaves(unit=unit, proof=OTHER)
        found.call(auditor.provider, passing)
        found.call(auditor.provider, LeafChecks.doubt_leaf(unit=unit, index=leaf.index, found=OTHER))
        world.block(signed(auditor.provider, passing))
        self._until(unit, lambda check: check.stage is LeafStage.OPEN)
        path = leaf_path(LEAVES, REQUESTS_MAX // 2)
        found.call(CUSTOMER.stash, LeafChecks.dispute_leaf(unit=unit, totals=TOTALS, path=path, found=OTHER))
        self._withheld()

    def _withheld(self) -> None:
        """Measure the most expensive look: eight racers lose everything.

        Any block budget has room for one such look.
        """
        unit = raced(self.world, self.races)
        check = self._until(unit, lambda check: check.stage is LeafStage.SHOWING)
        self.world.blocks(check.deadline - self.world.height)
        real, _ = self.found.hooks("missing leaves", rounds=ROUNDS)["LeafChecks"]
        self.found.rows[f"{HOOK} step"] = max(100.0, real - self.found.rows.get(HOOK, 0.0))
        self.world.block()
        if self._check(unit) is not None:
            raise RuntimeError("the check has not ended")
        self.races.wake_devices()

    def _show(self, unit: bytes) -> Call:
        check = self._check(unit)
        if check is None or check.seed is None:
            raise RuntimeError("its leaves are not drawn")
        floor = weight_floor(check.terms.allowed, REQUESTS_MAX)
        points = drawn_points(check.seed, unit, TOTALS, floor, input_share=check.terms.input_share)
        indices = [index_at(LEAVES, floor, point, input_share=check.terms.input_share) for point in points]
        return LeafChecks.show_leaves(unit=unit, totals=TOTALS, paths=tuple(leaf_paths(LEAVES, indices)))

    def _answerer(self, unit: bytes) -> Actor:
        return self.races.racers(unit)[-1]

    def _auditor(self, check: LeafCheck) -> Actor:
        if check.auditor is None:
            raise RuntimeError("nobody audits")
        return self.world.by_stash[check.auditor]

    def _check(self, unit: bytes) -> LeafCheck | None:
        return self.world.now()[LeafChecks].checks[unit]

    def _until(self, unit: bytes, holds: Callable[[LeafCheck], bool]) -> LeafCheck:
        for _ in range(STAGE_BLOCKS_MAX):
            check = self._check(unit)
            if check is None:
                break
            if holds(check):
                return check
            self.world.block()
        raise RuntimeError("the check does not go on")
