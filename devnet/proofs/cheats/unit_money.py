"""The payments of a unit by the money tables, computed again from its events and from the modes of its parties.

Invariant: the truth about a result or a check comes from the modes of their authors, and never from the chain's
decision. So a wrong decision gives other payments than these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from devnet.stage.cheating.__main__ import DEAF_MODE, FALSE_MODES, LIES_BY_MODE, MODEL_CHEATS
from devnet.stage.cheating.daemons import lie_about_batch
from devnet.stage.cheating.lies import RightAnswers, ToldBatch, batch_with
from devnet.stage.measuring.claim_money import BOND_REASONS, ReckonedClaim, Votes, agreeing
from devnet.stage.measuring.ledger import UnitRecord
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import ItemVote
from gpu_tasks.market.claims.money import MoneyEvent, Payee, Purse
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import (
    RaceMissed,
    ResultClaimed,
    ResultCommitted,
    UnitDisputed,
    UnitMatched,
    UnitSettled,
)
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.units import UNIT_MONEY, Racer, Unit, racer_of
from runtime.frame.holds import HoldReason
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part

READ_AT = (UnitMatched, UnitDisputed, ResultClaimed)
"""The events in whose blocks the unit's records are read."""


@dataclass(slots=True)
class UnitFacts:
    """One unit of a scene: its events, its parties' modes, and its records on the chain."""

    right: RightAnswers
    modes: Mapping[bytes, str]
    """The mode of each cheating stash."""
    told: Mapping[str, tuple[BatchOutcome, ...]] = field(default_factory=dict)
    """The outcomes of wrong models, by mode."""
    record: UnitRecord = field(default_factory=UnitRecord)
    matched: Unit | None = None
    disputed: Unit | None = None
    """The unit when its racers' results differed."""
    claimed: Unit | None = None
    claim: ResultClaim | None = None
    """The claim at its opening."""

    def read(self, event: object, status: UnitStatus) -> None:
        """Keep the unit as it is after the block of one of `READ_AT`."""
        match event:
            case UnitMatched():
                self.matched = status.unit
            case UnitDisputed():
                self.disputed = status.unit
            case ResultClaimed():
                self.claimed, self.claim = status.unit, status.claim
            case _:
                raise AssertionError("payments depend on no record at this event")

    def told_by(self, mode: str) -> ToldBatch:
        """Return the result that a cheat states."""
        if mode in LIES_BY_MODE:
            return lie_about_batch(LIES_BY_MODE[mode], self.right)
        return batch_with(self.right, dict(enumerate(self.told.get(mode, self.right.outcomes))))

    def is_false(self, owner: bytes) -> bool:
        """Return True if a racer states a false result, or withholds its items or its samples."""
        mode = self.modes.get(owner, "")
        if mode in MODEL_CHEATS:
            return self.told_by(mode).outcomes != self.right.outcomes
        return mode in FALSE_MODES

    @property
    def winner(self) -> bytes:
        """The provider of the claim."""
        return self.record.events(ResultClaimed)[-1].winner


@dataclass
class ExpectedMoney(ReckonedClaim):
    """The payments that the tables state for the events of a unit."""

    reasons: ClassVar[Mapping[Purse, HoldReason]] = {
        **BOND_REASONS, Purse.CUSTOMER: UNIT_MONEY, Purse.PROVIDER: COLLATERAL,
    }  # fmt: skip

    facts: UnitFacts = field(kw_only=True)

    @classmethod
    def of(cls, facts: UnitFacts) -> ExpectedMoney:
        """Return the payments of a unit that has ended."""
        expected = cls(facts=facts)
        for height, event in facts.record.happened:
            expected.take(height, event)
        return expected

    def is_false(self, provider: bytes) -> bool:
        """See `ReckonedClaim`."""
        return self.facts.is_false(provider)

    def is_deaf(self, checker: bytes) -> bool:
        """See `ReckonedClaim`."""
        return self.facts.modes.get(checker) == DEAF_MODE

    def take(self, height: int, event: object) -> None:
        """Note an event, and add its payments."""
        match event:
            case ResultClaimed():
                self.claim = self.facts.claim
            case RaceMissed():
                self._fine(event.provider)
            case UnitSettled():
                self._settle(event)
            case _:
                super().take(height, event)

    def stakes(self) -> tuple[int, int]:
        """See `ReckonedClaim`."""
        if self.claim is not None:
            return super().stakes()
        disputed = self._disputed
        return money.check_fee_max(disputed.rules, disputed.price), money.collateral_of(disputed)

    def rule(self, votes: Votes, decision: ItemVote) -> None:
        """Add the payments of a decision about an item, or about the results of racers."""
        if self.claim is not None:
            super().rule(votes, decision)
            return
        voters = agreeing(votes, decision, DisputeQuestion.SIDES)
        self.pay(MoneyEvent.PROVIDER_FALSE, {Purse.PROVIDER: self._false_sides()}, {Payee.VOTERS: voters})

    def _false_sides(self) -> tuple[tuple[bytes, int], ...]:
        revealed = (racer for racer in self._disputed.racers if racer.reveal is not None)
        return tuple((racer.owner, racer.collateral) for racer in revealed if self.facts.is_false(racer.owner))

    @property
    def _disputed(self) -> Unit:
        assert self.facts.disputed is not None, "a dispute without a claim is about a disputed unit"
        return self.facts.disputed

    # ---------------------------------------------------------------------------------------------- races and the price

    def _fine(self, owner: bytes) -> None:
        matched = self.facts.matched
        assert matched is not None, "a racer that missed was drawn"
        collateral = money.collateral_of(matched)
        has_committed = any(event.provider == owner for event in self.facts.record.events(ResultCommitted))
        if has_committed:
            fine = min(part(matched.price, matched.rules.withheld_penalty), collateral)
        else:
            fine = part(collateral, matched.rules.idle_penalty)
        self.add(owner, COLLATERAL, None, fine)

    def _settle(self, event: UnitSettled) -> None:
        claimed = self.facts.claimed
        assert claimed is not None, "a paid result was claimed"
        winner = racer_of(claimed, event.winner)
        assert winner is not None, "a racer is paid"
        witness: Racer | None = None if event.witness is None else racer_of(claimed, event.witness)
        held_grains = claimed.escrow + claimed.bond - self.fees_paid
        for share in money.settlement(claimed, held_grains, winner=winner, witness=witness, treasury=TREASURY):
            self.add(claimed.customer, UNIT_MONEY, share.payee, share.amount)
