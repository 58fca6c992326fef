"""The required outcomes of cheats about units: each caught, amounts as the table states, no honest party charged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from devnet.proofs.cheats.findings import AmountCheck
from devnet.proofs.cheats.unit_money import ExpectedMoney, UnitFacts
from devnet.proofs.cheats.unit_scenes import CHECKER_EVENTS, UnitScene
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.cheating.__main__ import COPYING_MODE
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.measuring.claim_money import CheckMoney, HoldPayment
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, CheckEnd
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoterCharged
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitSettled
from gpu_tasks.market.inference.units import Refund
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked

COMMIT_CALL = "InferenceMarket.commit_result"
COPIED = "copied-result"
NO_REVEAL = (COPIED, "late-reveal")
"""Race cheats that never reveal in time, so each costs a fine."""
BONDS = (CHECKER_BOND.name, DISPUTE_BOND.name, VOTER_BOND.name)


@dataclass(frozen=True, slots=True)
class JudgedUnit:
    """One unit of a scene that has ended."""

    scene: UnitScene
    facts: UnitFacts
    expected: ExpectedMoney
    attempts: tuple[Mapping[str, Any], ...] = ()
    """The cheats' forbidden messages about the unit, with the chain's answers."""

    def caught(self) -> frozenset[str]:
        """Return the modes that lost money, or whose calls were refused."""
        payers = {payer for payer, reason, _ in self.expected.payments if reason in (COLLATERAL.name, *BONDS)}
        modes = {self.facts.modes[payer] for payer in payers if payer in self.facts.modes}
        refused = {attempt["mode"] for attempt in self.attempts if self.is_refused(attempt)}
        return frozenset(modes | (refused - set(NO_REVEAL)))

    def is_refused(self, attempt: Mapping[str, Any]) -> bool:
        """Return True if the chain has nothing of a forbidden message."""
        if attempt["what"] == "attestation":
            return not self._undue_attestations()
        # A copied commitment is opaque. Only its reveal must fail.
        is_opaque = attempt["what"] == COMMIT_CALL and attempt["mode"] == COPIED
        return is_opaque or bool(attempt["answer"] != ACCEPTED_ANSWER)

    def failures(self) -> list[str]:
        """Return a sentence for each failed requirement."""
        failures = [*self._end_failures(), *self._check_failures(), *self._lie_failures(), *self._race_failures()]
        return [*failures, *self._honest_losses(), *self._wrong_sums(), *self._left_behind()]

    def amounts(self) -> list[AmountCheck]:
        """Return each loss of a provider, beside the table's."""
        unit_text = "0x" + self.facts.right.unit.hex()
        record = self.facts.record
        events: list[tuple[int, ProviderSlashed | RaceMissed]] = [*record.all(ProviderSlashed), *record.all(RaceMissed)]
        return [
            AmountCheck(type(event).__name__, unit_text, height, event.amount, self._due_from(event.provider))
            for height, event in events
        ]

    # ---------------------------------------------------------------------------------------------------------- the end

    def _end_failures(self) -> Iterator[str]:
        record, facts = self.facts.record, self.facts
        if self._is_undecided or self._is_claim_refuted():
            reason = Refund.INCONCLUSIVE if self._is_undecided else Refund.REFUTED
            if record.settled or [event.refund for _, event in record.refunded] != [reason]:
                yield f"it was to be refunded as {reason.name}, and has {record.settled or record.refunded}"
            return
        if len(record.settled) != 1 or record.refunded:
            yield f"it was settled {len(record.settled)} times and refunded {len(record.refunded)} times"
        for event in record.events(UnitSettled):
            mode = facts.modes.get(event.winner)
            root = batch_root(facts.told_by(mode or "").totals)
            if event.output_root != root:
                yield f"another result was paid than {name_of_account(event.winner)} computed"
            if mode in NO_REVEAL:
                yield f"{name_of_account(event.winner)} was paid"

    @property
    def _is_undecided(self) -> bool:
        """Return True if too few voters were left beside the parties and earlier checkers."""
        return any(event.vote is None for event in self.facts.record.events(DisputeEnded))

    def _is_claim_refuted(self) -> bool:
        """Return True if the claim's provider is false, and its customer or a checker was to find it."""
        if self.facts.claim is None or not self.facts.is_false(self.facts.winner):
            return False
        return self.expected.is_by_customer or any(
            self._is_hit(check) and self.facts.modes.get(check.checker) != COPYING_MODE
            for check in self.expected.checks
        )

    def _is_hit(self, check: CheckMoney) -> bool:
        """Return True if a check covers a false item, or if samples or delivery are false as a whole."""
        facts = self.facts
        if not facts.is_false(facts.winner):
            return False
        pairs = zip(facts.told_by(facts.modes[facts.winner]).outcomes, facts.right.outcomes, strict=True)
        false_items = {index for index, (told, right) in enumerate(pairs) if told != right}
        return not false_items or not check.shown or any(sample.index in false_items for sample in check.shown)

    def _check_failures(self) -> Iterator[str]:
        for check in self.expected.checks:
            mode = self.facts.modes.get(check.checker, "")
            end = CHECKER_EVENTS[mode][0] if mode in CHECKER_EVENTS else CheckEnd.PASSED
            if self._is_hit(check):
                # A copying checker states the samples that a lying provider invents.
                end = CheckEnd.PASSED if mode == COPYING_MODE else CheckEnd.UPHELD
            # The end of a claim leaves its last check open, if no ruling ended that.
            is_left = check.end is CheckEnd.OPEN and (self._is_undecided or self.expected.is_by_customer)
            if check.end is not end and not is_left:
                yield f"the check of {name_of_account(check.checker)} ({mode or 'honest'}) ended {check.end.name}"

    def _lie_failures(self) -> Iterator[str]:
        facts = self.facts
        expected = sorted(
            owner for owner, reason, _ in self.expected.payments if reason == COLLATERAL.name and facts.is_false(owner)
        )
        slashed = sorted(event.provider for event in facts.record.events(ProviderSlashed))
        if slashed != sorted(set(expected)):
            yield f"{len(slashed)} providers were slashed, where {len(set(expected))} gave a false result"

    def _race_failures(self) -> Iterator[str]:
        for attempt in self.attempts:
            if not self.is_refused(attempt):
                yield f"accepted: {attempt['what']} of {attempt['mode']}"
        missed = [event.provider for event in self.facts.record.events(RaceMissed)]
        for owner in self.facts.record.racers:
            if self.facts.modes.get(owner) in NO_REVEAL and owner not in missed:
                yield f"{name_of_account(owner)} did not reveal in time, and was not fined"

    def _undue_attestations(self) -> list[bytes]:
        """Return the authors of attestations beyond one of each racer that may reveal."""
        authors = Counter(event.provider for event in self.facts.record.events(Attested))
        racers = [racer for racer in self.facts.record.racers if self.facts.modes.get(racer) not in NO_REVEAL]
        return [author for author, count in authors.items() if count > 1 or author not in racers]

    # -------------------------------------------------------------------------------------------------------- the money

    def _honest_losses(self) -> Iterator[str]:
        for event in self.facts.record.events(RaceMissed):
            if self.facts.modes.get(event.provider) not in NO_REVEAL:
                yield f"{name_of_account(event.provider)} was late in a race"
        for charge in self.facts.record.events(VoterCharged):
            yield f"{name_of_account(charge.voter)} lost {charge.amount} grains as a voter"

    def _wrong_sums(self) -> Iterator[str]:
        paid: Counter[HoldPayment] = Counter()
        for event in self.facts.record.events(Paid):
            paid[event.who, event.reason.name, event.payee] += event.amount
        expected = self.expected.payments
        for payment in sorted({*paid, *expected}, key=repr):
            if paid[payment] != expected[payment]:
                payer, reason, payee = payment
                to = "nobody" if payee is None else name_of_account(payee)
                sums = f"{paid[payment]} grains of {reason}, and not {expected[payment]}"
                yield f"{name_of_account(payer)} paid {to} {sums}"
        claimed, claim = self.facts.claimed, self.facts.claim
        if claimed is not None and claim is not None and claim.terms.collateral != money.collateral_of(claimed):
            yield f"the claim's collateral is {claim.terms.collateral}, and not {money.collateral_of(claimed)}"

    def _due_from(self, provider: bytes) -> int:
        rows = self.expected.payments.items()
        return sum(grains for (payer, reason, _), grains in rows if (payer, reason) == (provider, COLLATERAL.name))

    def _left_behind(self) -> Iterator[str]:
        """Yield each bond of a checker, a disputer or a voter that is still locked."""
        locked: Counter[tuple[bytes, str]] = Counter()
        for _, event in self.facts.record.happened:
            if isinstance(event, Locked | Unlocked | Paid) and event.reason.name in BONDS:
                locked[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
        for (owner, reason), grains in locked.items():
            if grains:
                yield f"{grains} grains of {name_of_account(owner)} are left in {reason}"
