"""The end of a check: its money, the release of all holds, and the ruling for its handler.

Invariants: a check ends once. Then no account holds anything for it or has a duty in it. It is on no schedule, because
a step took it from there or the courts have it.
"""

from collections.abc import Sequence

from gpu_tasks.market.courts.cases import AUDIT_POT, PartyFault
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT, CheckOutcome, LeafCheck
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.fees import withheld_shares
from gpu_tasks.market.leaf_checks.storage import LeafStorage
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share

NO_ROOT = bytes(32)
"""The placeholder for the right root of a refuted result, because no party knows the right root."""

Faults = tuple[tuple[bytes, PartyFault], ...]


def end(
    room: LeafStorage,
    unit: bytes,
    check: LeafCheck,
    outcome: CheckOutcome,
    *,
    earner: bytes | None = None,
    faults: Faults = (),
) -> None:
    """End a check. `earner` is an auditor that was right, and `faults` are those of the answerers."""
    terms = check.terms
    # An unearned fee of an auditor pays for audits.
    room.lock.pay_out(terms.customer, Hold(LEAF_FEE, unit), (Share(earner or AUDIT_POT, terms.fee),))
    for who in check.silent:
        # A silent auditor could have looked if another one did. Otherwise the input may have been missing.
        _free(room, who, unit, burned=terms.fee if earner is not None else 0)
    if check.auditor is not None:
        _free(room, check.auditor, unit)
    _free_bond(room, unit, check)
    for reason in (LEAF_FEE, LEAF_SEAT, LEAF_BOND):
        room.lock.end(Hold(reason, unit))
    drop_duties(room, unit, check)
    del room.checks[unit]
    room.emit(LeafCheckEnded(unit, outcome, earner))
    room.handler(check).carry_out(unit, _ruling(outcome, faults))


def withhold(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """End a check without shown leaves: all answerers lose their holds, as if they withheld a wrong answer."""
    terms, handler = check.terms, room.handler(check)
    held = [(each.account, each.held) for each in terms.answerers]
    for who, shares in withheld_shares(terms.price, terms.customer, held):
        handler.charge_party(unit, who, shares)
    faults = tuple((who, PartyFault.LIED) for who, _ in held)
    end(room, unit, check, CheckOutcome.WITHHELD, faults=faults)


def release_auditor(room: LeafStorage, unit: bytes, auditor: bytes, *, but: int = 0) -> None:
    """Return an auditor's hold, except `but` grains."""
    hold = Hold(LEAF_SEAT, unit)
    room.lock.unlock(auditor, hold, room.lock.locked(auditor, hold) - but)


def drop_duties(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """Drop all duties of the check."""
    auditor = () if check.auditor is None else (check.auditor,)
    for who in (*(each.account for each in check.terms.answerers), *auditor):
        del room.duties[who, unit]


def _ruling(outcome: CheckOutcome, faults: Faults) -> CaseRuling:
    """Return the ruling for the batch's handler, in the form of an audit's."""
    if outcome in (CheckOutcome.REFUTED, CheckOutcome.WITHHELD):
        return CaseRuling(CaseOutcome.AUDIT_WRONG, Answered(NO_ROOT), faults)
    return CaseRuling(CaseOutcome.NOT_AUDITED, None)


def _free(room: LeafStorage, who: bytes, unit: bytes, *, burned: int = 0) -> None:
    """Return an auditor's hold, except the burned part."""
    hold = Hold(LEAF_SEAT, unit)
    held = room.lock.locked(who, hold)
    lost = min(burned, held)
    shares: Sequence[Share] = (Share(None, lost), Share(who, held - lost))
    room.lock.pay_out(who, hold, tuple(share for share in shares if share.amount))


def _free_bond(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    customer, hold = check.terms.customer, Hold(LEAF_BOND, unit)
    room.lock.unlock(customer, hold, room.lock.locked(customer, hold))
