"""The newest block that this node may trust, and for how long: a checkpoint, or its own last final block.

A validator whose bond was returned loses nothing by signing another history. A node that was away for longer than the
trusting period therefore cannot tell who may certify the next blocks. The period is shorter than the unbonding time.
The operator has to give such a node a recent block from a source that they trust.

Invariant on a live chain: no block becomes final upon a point older than the trusting period. The exception is a block
that the operator named as the one at which the whole network halted. Other chains only log a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from consensus.events import BlockFacts
from consensus.headers import TrustedBlock
from genesis.parameters import CONSENSUS, outside
from genesis.spec import ChainSpec
from node.errors import BadInputError, TrustExpiredHereError
from node.ledger.chain import Chain

LIVE = "Live"
MS_PER_HOUR = 3_600_000
_LOG = logging.getLogger("node")


class TrustedPoint:
    """A check, by the clock, that this node's last final block or checkpoint is recent enough."""

    def __init__(self, chain: Chain, spec: ChainSpec, checkpoint: TrustedBlock | None = None) -> None:
        """Check an open chain before any execution. Raise `BadInputError` if its history contradicts the checkpoint."""
        self._chain = chain
        self._is_live = spec.chain_type == LIVE
        self._period_ms = trusting_period_ms(spec)
        self._checkpoint = checkpoint
        self._start_ms = spec.start_time * 1_000
        self._has_reported = False
        final = chain.final.facts
        self._stood_still_at = final.height if checkpoint is not None and checkpoint.height == final.height else None
        if checkpoint is not None:
            self._require_in_database(checkpoint)
            chain.rules = replace(chain.rules, checkpoint=checkpoint)

    @property
    def height(self) -> int:
        """The checkpoint's height, 0 without one: a node below it is syncing, and signs nothing."""
        return 0 if self._checkpoint is None else self._checkpoint.height

    def is_ahead(self) -> bool:
        """Return whether the final chain has not reached the checkpoint yet."""
        return self._chain.final.facts.height < self.height

    def judge(self, now_ms: int) -> None:
        """Check that the point is recent enough. Raise `TrustExpiredHereError` if it is not, on a live chain only."""
        final = self._chain.final.facts
        if self.is_ahead() or final.height == self._stood_still_at:
            return
        self._require_young(final, now_ms)

    def judge_final(self, becoming: Sequence[BlockFacts], now_ms: int) -> None:
        """Check the point before blocks become final, and also a checkpoint among them."""
        self.judge(now_ms)
        # The last of them is checked once it is final: there may be no block above it yet.
        for facts in becoming[:-1]:
            if facts.height == self.height:
                self._require_young(facts, now_ms)

    # --- inside

    def _require_in_database(self, checkpoint: TrustedBlock) -> None:
        if checkpoint.height > self._chain.final.facts.height:
            return
        own_id = self._chain.storage.id_at(checkpoint.height)
        if own_id != checkpoint.id:
            raise BadInputError(
                f"final block {checkpoint.height} in {self._chain.storage.path} is 0x{(own_id or b'').hex()}, but the "
                f"checkpoint is 0x{checkpoint.id.hex()}: they belong to two histories. Ask a second source for the "
                "hash. If the checkpoint is right, run `ogpu-node purge-chain`, then start with the checkpoint and "
                "other --bootnodes",
                code="other_history",
            )

    def _require_young(self, facts: BlockFacts, now_ms: int) -> None:
        # Block 0 has no slot. If its specification gives no start time, the first block upon it shows the chain's age.
        begun_ms = facts.slot * self._chain.parameters.slot_ms if facts.height else self._start_ms or now_ms
        age_ms = now_ms - begun_ms
        if age_ms <= self._period_ms:
            self._has_reported = False
            return
        if self._is_live:
            raise self._expired_error(facts, age_ms)
        if not self._has_reported:
            self._has_reported = True
            _LOG.warning(
                "the last final block here is %s old, more than the trusting period of %s. A node of a live chain "
                "would stop; this chain is for development", _whole_hours(age_ms), _whole_hours(self._period_ms),
            )  # fmt: skip

    def _expired_error(self, facts: BlockFacts, age_ms: int) -> TrustExpiredHereError:
        is_checkpoint = 0 < facts.height == self.height
        point_name = "the checkpoint" if is_checkpoint else "the last final block here"
        return TrustExpiredHereError(
            f"{point_name}, {facts.height} 0x{facts.id.hex()}, is {_whole_hours(age_ms)} old, more than "
            f"the trusting period of {_whole_hours(self._period_ms)}: validators of that time may have left, and can "
            "certify a false history without loss. Ask a person whom you trust, not a bootnode, for height and hash "
            "of a recent final block, and start with --checkpoint HEIGHT:HASH. If the whole network stood still, "
            "start every node with its last final block as the checkpoint (docs/operators.md)",
            code="checkpoint_too_old" if is_checkpoint else "final_block_too_old",
        )


def trusting_period_ms(spec: ChainSpec) -> int:
    """Return the time for which a point can be trusted, in milliseconds of slot time."""
    parameter_numbers = outside(spec.parameters)
    trusting_epochs = parameter_numbers["Consensus.trusting_epochs"]
    epoch_blocks = parameter_numbers["Consensus.epoch_blocks"]
    return trusting_epochs * epoch_blocks * CONSENSUS[spec.parameters].slot_ms


def _whole_hours(duration_ms: int) -> str:
    return (
        f"{duration_ms // MS_PER_HOUR} hours" if duration_ms >= 2 * MS_PER_HOUR else f"{duration_ms // 1_000} seconds"
    )
