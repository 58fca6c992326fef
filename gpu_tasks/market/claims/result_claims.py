"""The pallet ResultClaims: claims of results, their checks, and their disputes, for any market.

A market (see `handlers`) opens a claim with its terms. Beacons draw some of its items. A validator checks them. If
provider and checker differ, the pallet Disputes decides. This module has the calls, the hook, and the methods for
markets and for Disputes.

Invariants: a claim is keyed by an id of its market and is open once. Its parameters are frozen when it opens. The work
of the hook is bounded. Checkers and disputers pay only from their own holds, and nothing is held for a claim that is
over.
"""

from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.claims import checking
from gpu_tasks.market.claims import claim_events as ev
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, ClaimTerms
from gpu_tasks.market.claims.claims_storage import ClaimsStorage
from gpu_tasks.market.claims.findings import Finding, Samples
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.due import case_of, due_case
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32
from runtime.encoding.types import Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

DUE_WEIGHT = work(reads=1, writes=1, microseconds=60)
"""The weight of noting a due claim: its price orders it."""
STEP_WEIGHT = WEIGHTS["ResultClaims.on_initialize step"]
"""The weight of a step: the end of a window, or a draw without a point."""
NAME_WEIGHT = WEIGHTS["ResultClaims.on_initialize name"]
"""The weight of naming a checker: the lottery of all validators."""
END_WEIGHT = WEIGHTS["ResultClaims.on_initialize end"]
"""The weight of ending a claim without checks: its market pays or refunds."""
CHECKER_WEIGHT = WEIGHTS["ResultClaims.on_initialize checker"]
"""The weight of paying or charging and releasing one checker at the end."""
CHECKER_LOOK_WEIGHT = WEIGHTS["ResultClaims.on_initialize look"]
"""The weight of looking at one validator for a check. Most often the first one is eligible."""
HEIGHT_BUDGET = work(microseconds=4_000)
FINAL_BUDGET = work(microseconds=4_000)
"""The weight for finding due claims."""
CLAIMS_BUDGET = work(microseconds=28_000)
"""The weight for stepping them, the highest price first."""


class ResultClaims(ClaimsStorage, index=20):
    """Claims and their checks, keyed by claim, for every market."""

    events = (
        ev.ClaimOpened, ev.PointsDrawn, ev.CheckerDrawn, ev.FindingCommitted, ev.SamplesShown, ev.FindingOpened,
        ev.CheckEnded, ev.ItemDisputed, ev.ClaimEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownClaim, ev.NotChecker, ev.NotClaimProvider, ev.ClaimWindowClosed, ev.WrongSamples, ev.WrongFinding,
        ev.MalformedFinding, ev.NotDisputable,
    )  # fmt: skip
    hold_reasons = (CHECKER_BOND, DISPUTE_BOND)

    # ----------------------------------------------------- duty calls: signed by the provider key, free if they succeed

    @call(index=0, weight=WEIGHTS["ResultClaims.commit_finding"])
    def commit_finding(self, origin: Signed, claim: Hash, commitment: Hash) -> PostDispatch:
        """Commit to a finding as the checker of a claim (`findings.finding_commitment`). Free if it succeeds."""
        checker = self.devices.operator(origin.account)
        checking.commit(self, claim, self.open_claim(claim), checker, commitment)
        return FREE

    @call(index=1, weight=WEIGHTS["ResultClaims.show_samples"])
    def show_samples(self, origin: Signed, claim: Hash, samples: Samples) -> PostDispatch:
        """Show your samples of the drawn items as the provider, at the checker's seed. Free if it succeeds."""
        provider = self.devices.operator(origin.account)
        checking.show(self, claim, self.open_claim(claim), provider, samples)
        return FREE

    @call(index=2, weight=WEIGHTS["ResultClaims.open_finding"])
    def open_finding(self, origin: Signed, claim: Hash, finding: Finding, salt: Hash) -> PostDispatch:
        """Open your committed finding. Free if it succeeds."""
        checker = self.devices.operator(origin.account)
        checking.open_finding(self, claim, self.open_claim(claim), checker, finding, salt)
        return FREE

    @call(index=3, weight=WEIGHTS["ResultClaims.concede"])
    def concede(self, origin: Signed, claim: Hash) -> None:
        """Take your finding back as the checker, for two fees. Other validators check the claim."""
        checking.concede(self, claim, self.open_claim(claim), self.devices.operator(origin.account))

    # -------------------------------------------------------------------------------------------------------- everybody

    @call(index=4, weight=WEIGHTS["ResultClaims.dispute"])
    def dispute(self, origin: Signed, claim: Hash, index: U32) -> None:
        """Dispute an item of a claim, with a bond that pays its voters if the item is right. If not, you are paid."""
        checking.dispute(self, claim, self.open_claim(claim), origin.account, index)

    # ---------------------------------------------------------------------------------------------- methods for markets

    def open(self, claim: bytes, terms: ClaimTerms) -> None:
        """Open a claim. Its market holds the money of the terms until it receives the outcome (`handlers`)."""
        checking.begin(self, claim, terms)

    def is_open(self, claim: bytes) -> bool:
        """Return True if the claim is not over."""
        return claim in self.claims

    # ----------------------------------------------------------------------------- a handler: the interface to Disputes

    def rule(self, dispute: bytes, ruling: Ruling) -> None:
        """Carry out the ruling of a claim's dispute."""
        checking.rule(self, dispute, ruling)

    # ------------------------------------------------------------------------------------------------------------- hook

    def on_initialize(self) -> Weight:
        """Find the due claims, by height and by finality. Then step them, the highest price first.

        Cheap claims delay no valuable one. Calls follow the clock, so a late step changes no window.
        """
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final, claims = (room.budget(kind) for kind in (HEIGHT_BUDGET, FINAL_BUDGET, CLAIMS_BUDGET))
        for claim_id in self.agenda.take(self.system.number.get(), reached, DUE_WEIGHT):
            self._note_due(claim_id)
        for claim_id in self.final_agenda.take(self.beacon.final_height(), final, DUE_WEIGHT):
            self._note_due(claim_id)
        for due in self.due.keys():  # noqa: SIM118 - a storage item, not a dictionary
            if claims.is_spent:
                break
            del self.due[due]
            self._step(case_of(due), claims)
        return reached.spent + final.spent + claims.spent

    def _note_due(self, claim_id: bytes) -> None:
        self.due[due_case(self.open_claim(claim_id).terms.price, claim_id)] = True

    def _step(self, claim_id: bytes, budget: WeightMeter) -> None:
        claim, looks = self.open_claim(claim_id), self.tally.looks
        checking.step(self, claim_id, claim)
        looks = self.tally.looks - looks
        weight = STEP_WEIGHT + times(looks, CHECKER_LOOK_WEIGHT)
        if looks:
            weight += NAME_WEIGHT
        if not self.is_open(claim_id):
            # Most claims end without a check, so a flat weight would let few of them end in a block.
            weight += END_WEIGHT + times(len(claim.checks), CHECKER_WEIGHT)
        budget.spend(weight)
