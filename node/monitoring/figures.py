"""Log lines and figures about blocks."""

from __future__ import annotations

import logging
from collections.abc import Container

from consensus.machine import Machine
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.work_source import open_work
from node.clock import Clock
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.monitoring.metrics import Metrics
from runtime.cryptography import ss58
from runtime.frame.storage import StorageValue

IMPORTS_MIN = 3
"""The fewest blocks that show a delay: one or two come late by chance."""
_LOG = logging.getLogger("node")


class Figures(Listener):
    """The log lines and figures of one node's blocks."""

    def __init__(self, chain: Chain, machine: Machine, metrics: Metrics, clock: Clock) -> None:
        self._chain = chain
        self._machine = machine
        self._metrics = metrics
        self._clock = clock
        self._attested = chain.runtime.item(Attestations.attested)
        self._open_work = [
            (chain.runtime.item(open_kind.count), metrics.gauge(open_kind.figure, open_kind.text))
            for open_kind in open_work(chain.runtime.pallets)
        ]

    def on_imported(self, block: ExecutedBlock) -> None:
        """Log an imported block."""
        facts = block.facts
        _LOG.info("imported #%d 0x%s (%d extrinsics)", facts.height, facts.id.hex()[:12], len(block.extrinsics))
        self._metrics.leaves.set(self._chain.leaves())

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """Measure the time from the start of a block's slot to its acceptance."""
        if reverted:
            _LOG.warning("finality overruled accepted blocks: now at 0x%s", block.hex()[:12])
            self._metrics.soft_reverts.inc()
        executed = self._chain.get(block)
        if executed is not None:
            self._metrics.accepted_seconds.observe(self._seconds_since(executed))
        self._metrics.best_height.set(self._machine.best.height)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Measure the time from the start of the blocks' slots to their finality."""
        for block in blocks:
            self._metrics.final_seconds.observe(self._seconds_since(block))
            self._metrics.extrinsics.inc(len(block.extrinsics))
        final = blocks[-1].facts
        self._metrics.attestations.set(_number_in(blocks[-1], self._attested))
        for work_count, work_gauge in self._open_work:
            work_gauge.set(_number_in(blocks[-1], work_count))
        _LOG.info("final #%d 0x%s", final.height, final.id.hex()[:12])
        self._metrics.final_height.set(final.height)
        self._metrics.best_height.set(max(final.height, self._machine.best.height))
        gadget_epoch, round_ = self._machine.gadget_round
        self._metrics.epoch.set(gadget_epoch)
        self._metrics.round.set(round_)

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """A validator sealed two blocks for one slot."""
        del first, second
        _LOG.warning("validator %s sealed two blocks in slot %d", self._named_validator(author), slot)

    def on_evidence(self, accused: bytes, evidence: bytes) -> None:
        """A validator voted or proposed twice in one round."""
        del evidence
        _LOG.warning("validator %s voted twice in one round", self._named_validator(accused))

    def _named_validator(self, session: bytes) -> str:
        """Return the address of the stash with a session key, as wallets show it; the key of an earlier epoch's set."""
        gadget_epoch = self._chain.epochs(self._machine.gadget_round[0])
        index = None if gadget_epoch is None else gadget_epoch.validators.index.get(session)
        if gadget_epoch is None or index is None:
            return f"with the session key 0x{session.hex()}"
        return ss58.encode(gadget_epoch.validators.members[index].stash)

    def _seconds_since(self, block: ExecutedBlock) -> float:
        # A block may come from a slot slightly ahead of this clock.
        return max(0, self._clock.now_ms() - block.facts.slot * self._chain.parameters.slot_ms) / 1000


class ImportWatch(Listener):
    """The imported blocks of other nodes since the last status line: the highest, and how late they came."""

    def __init__(self, chain: Chain, clock: Clock, own_sessions: Container[bytes]) -> None:
        """`own_sessions`: session keys of this node, whose blocks never come late."""
        self._slot_ms = chain.parameters.slot_ms
        self._clock = clock
        self._own_sessions = own_sessions
        self._late_ms: list[int] = []
        self.height = chain.final.facts.height

    def on_imported(self, block: ExecutedBlock) -> None:
        """Note a block."""
        self.height = max(self.height, block.facts.height)
        if block.facts.author not in self._own_sessions:
            self._late_ms.append(self._clock.now_ms() - block.facts.slot * self._slot_ms)

    def take_late_ms(self) -> int:
        """Return the least delay of a block after the start of its slot, and begin anew; 0 for too few blocks."""
        least_ms = min(self._late_ms) if len(self._late_ms) >= IMPORTS_MIN else 0
        self._late_ms.clear()
        return least_ms


def _number_in(block: ExecutedBlock, item: StorageValue[int]) -> int:
    """Return a counter in the state after a block."""
    raw = block.state.get(item.key())
    return 0 if raw is None else int(item.decode(raw))
