"""The storage of ResultClaims: claims, their duties and schedules, and the validators that may check.

Invariants: an open claim waits for a block, for a final height, or for a ruling, so each ends by itself. The duties of
an account are stored under its stash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gpu_tasks.market.claims.claim_events import UnknownClaim
from gpu_tasks.market.claims.claims import CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.handlers import ClaimHandler, claim_handler_at
from gpu_tasks.market.claims.numbers import ClaimNumbers
from gpu_tasks.market.devices.checkers import in_office, reads_since
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.due import DueCase, due_case
from runtime.encoding.types import AccountId, Hash
from runtime.frame.pallet import Hasher, ScheduleItem, StorageDoubleMap, StorageMap, known
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System


@dataclass(slots=True)
class CheckerTally:
    """The count of validators looked at for a check."""

    looks: int = 0


class ClaimsStorage(ClaimNumbers):
    """Claims, duties and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    lock: TrustLock
    devices: Devices
    disputes: Disputes

    claims: StorageMap[Hash, ResultClaim | None] = StorageMap(doc="Open claims.")
    claim_of_dispute: StorageMap[Hash, Hash | None] = StorageMap(doc="The claim of an open dispute.")
    duties: StorageDoubleMap[AccountId, Hash, ClaimStage] = StorageDoubleMap(
        default=ClaimStage.DRAWING, doc="The claims in which a stash must act or may appeal, each with its stage."
    )
    agenda: ScheduleItem[Hash] = ScheduleItem("height", doc="Claims to process at a block.")
    final_agenda: ScheduleItem[Hash] = ScheduleItem("final", doc="Claims to process once a height is final.")
    due: StorageMap[DueCase, bool] = StorageMap(
        default=False, hasher=Hasher.IDENTITY, doc="Due claims without a step so far, the most valuable first."
    )

    @cached_property
    def tally(self) -> CheckerTally:
        """The number of validators that this block has looked at for checks."""
        return CheckerTally()

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def open_claim(self, claim_id: bytes) -> ResultClaim:
        """Return a claim that is not over. Raise UnknownClaim if there is none."""
        return known(self.claims[claim_id], UnknownClaim)

    def market(self, claim: ResultClaim) -> ClaimHandler:
        """Return the market of a claim."""
        return claim_handler_at(claim.terms.handler, self.context.members.values())

    def put(self, claim_id: bytes, claim: ResultClaim) -> None:
        """Store a claim with the duties of its stage."""
        self._change_duties(claim_id, self.claims[claim_id], claim)
        self.claims[claim_id] = claim

    def remove(self, claim_id: bytes, claim: ResultClaim) -> None:
        """Drop a claim that is over, with its duties and its places in schedules."""
        self._change_duties(claim_id, self.claims[claim_id], None)
        self.drop_steps(claim_id, claim)
        del self.claims[claim_id]

    def drop_steps(self, claim_id: bytes, claim: ResultClaim) -> None:
        """Drop the places of a claim in schedules, and its due step if no block had room for it."""
        self.agenda.drop(claim_id)
        self.final_agenda.drop(claim_id)
        del self.due[due_case(claim.terms.price, claim_id)]

    def entrants(self) -> list[tuple[bytes, int]]:
        """Return the active set with its stakes, from which checkers are drawn."""
        return in_office(self.devices)

    def barred(self, claim: ResultClaim) -> tuple[bytes, ...]:
        """Return the accounts that have a part in a claim, beside its provider: they neither check nor vote."""
        # A stash may act with its provider key.
        named = [claim.terms.customer] if claim.disputer is None else [claim.terms.customer, claim.disputer]
        stashes = (self.devices.operator(account) for account in named)
        checkers = (check.checker for check in claim.checks)
        return tuple(dict.fromkeys((*named, *stashes, *claim.terms.excluded, *checkers)))

    def may_check(self, claim: ResultClaim) -> Callable[[bytes], bool]:
        """Return a predicate: the validator has no part in the claim, can read the input, and can pay the collateral.

        A validator that spends its grains after the beacon is known only makes room for the next one.
        """
        outside = dict.fromkeys((claim.terms.provider, *self.barred(claim)))
        # The hold must leave a checker's account above the existential deposit.
        needed = claim.terms.collateral + self.balances.existential_deposit

        def may(stash: bytes) -> bool:
            self.tally.looks += 1
            if stash in outside:
                return False
            since = reads_since(self.devices, stash)
            return since is not None and since <= claim.terms.sealed_at and self.balances.free_balance(stash) >= needed

        return may

    def _change_duties(self, claim_id: bytes, before: ResultClaim | None, after: ResultClaim | None) -> None:
        old, new = ({} if claim is None else owed(claim) for claim in (before, after))
        for stash in old:
            if stash not in new:
                del self.duties[stash, claim_id]
        for stash, stage in new.items():
            if old.get(stash) is not stage:
                self.duties[stash, claim_id] = stage


def owed(claim: ResultClaim) -> dict[bytes, ClaimStage]:
    """Return the accounts that must act in a claim now, or may appeal, with its stage."""
    stage, check = claim.stage, open_check(claim)
    if stage is ClaimStage.SHOWING:
        return {claim.terms.provider: stage}
    if stage is ClaimStage.DISPUTED:
        return dict.fromkeys(parties_of(claim), stage)
    is_opened = stage is ClaimStage.OPENING and check is not None and check.finding is not None
    if stage in (ClaimStage.COMMITTING, ClaimStage.OPENING, ClaimStage.CONCEDING) and check and not is_opened:
        return {check.checker: stage}
    return {}


def parties_of(claim: ResultClaim) -> tuple[bytes, ...]:
    """Return the parties of a claim's present dispute: accounts that may lose collateral."""
    if claim.disputer is not None:
        return tuple(dict.fromkeys((claim.terms.provider, claim.disputer)))
    passed = (check.checker for check in claim.checks if check.end is CheckEnd.PASSED)
    check = open_check(claim)
    return (claim.terms.provider, *passed, *(() if check is None else (check.checker,)))
