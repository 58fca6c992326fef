"""Node and network of a chain in a test's process: what is submitted goes into the next block that the test makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_tasks.market.api import GpuTasksApi
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation, OrderKey
from gpu_tasks.market.courts_api import CourtsApi
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks_api import CheckStatus, DisputeStatus, LeafChecksApi, LeafDisputesApi
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.cryptography.signatures import verify
from runtime.encoding.types import Signed, Unsigned
from runtime.frame.api import Apis, RuntimeApi
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import MarketChain
from state_node import KeptBlocks

Api = TypeVar("Api", bound=RuntimeApi)


@dataclass
class FakeNode:
    """A chain and what waits for its next block."""

    chain: MarketChain
    calls: list[tuple[bytes, Call]] = field(default_factory=list)
    attestations: dict[OrderKey, AnyAttestation] = field(default_factory=dict)
    attached: list[AnyAttestation] = field(default_factory=list)
    """What blocks hold of those."""
    failed: list[str] = field(default_factory=list)
    is_omitting: bool = False
    """Whether authors leave attestations out."""
    is_late: bool = False
    """Whether calls come into the block after the next."""
    waiting: list[tuple[bytes, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.apis = Apis(self.chain.runtime, (GpuTasksApi, CourtsApi, LeafChecksApi))
        self.kept = KeptBlocks(self.chain)
        self._answering: dict[type[RuntimeApi], RuntimeApi] = {}

    def block(self) -> None:
        """A block with everything that waits and is admissible."""
        calls, self.calls = self.calls, []
        if self.is_late:
            calls, self.waiting = self.waiting, calls
        steps = [self._attach] if self.attestations and not self.is_omitting else []
        self.chain.block(*steps, *(self._attempt(account, call) for account, call in calls))

    def _attach(self, bound: Bound) -> None:
        waiting = [signed for _, signed in sorted(self.attestations.items())]
        ready = [signed for signed in waiting if not bound[Attestations].problem(signed)]
        if ready:
            bound.dispatch(Attestations.attach(attestations=tuple(ready)), Unsigned())
            self.attached += ready
        self.attestations.clear()

    def _attempt(self, account: bytes, call: Call) -> Any:
        def step(bound: Bound) -> None:
            try:
                with bound.overlay.transaction():
                    bound.dispatch(call, Signed(account))
            except DispatchError as error:
                self.failed.append(f"{call.name}: {type(error).__name__}")

        return step

    def api(self) -> GpuTasksApi:
        return self._over_state(GpuTasksApi)

    def leaves(self) -> LeafChecksApi:
        return self._over_state(LeafChecksApi)

    def _disputed(self) -> LeafDisputesApi:
        return self._over_state(LeafDisputesApi)

    def _over_state(self, api: type[Api]) -> Api:
        """The API over the newest state: one for all daemons, which ask the same in each block."""
        held = self._answering.get(api)
        if held is None or held.reader is not self.chain.state:
            held = self._answering[api] = api(self.apis, self.chain.state, bytes(32), verify)
        return held  # type: ignore[return-value]  # by its class

    def checks(self, stash: bytes) -> tuple[CheckStatus, ...]:
        return self.leaves().duties(stash) if LeafChecks in self.chain.pallets else ()

    def disputes(self, stash: bytes) -> tuple[DisputeStatus, ...]:
        """In which a stash shows its tree now."""
        return self._disputed().duties(stash) if LeafDisputes in self.chain.pallets else ()

    def dispute(self, unit: bytes) -> LeafDispute | None:
        """About a batch."""
        return self._disputed().dispute(unit) if LeafDisputes in self.chain.pallets else None

    def courts(self) -> CourtsApi:
        return self._over_state(CourtsApi)
