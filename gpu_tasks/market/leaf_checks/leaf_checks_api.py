"""`LeafChecksApi`: queries of providers, auditors and customers about checks of batches."""

from typing import Annotated

from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.api import RuntimeApi, query

CHECKS_SHOWN_MAX = 1_024
"""The most duties in one answer. Each holds a collateral or a seat."""
KEYS_READ_MAX = 4_800
"""The most reads of duties and their checks together: a node proves no call that reads more than 5,000 keys."""


@struct
class CheckStatus:
    """An open check with its batch."""

    unit: Hash
    check: LeafCheck


class LeafChecksApi(RuntimeApi, version=1):
    """Checks of batches."""

    @query
    def check(self, unit: Hash) -> LeafCheck | None:
        """Return the check of a batch while it is open, or None."""
        return self.bound[LeafChecks].checks[unit]

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[CheckStatus, ...], Bounded(CHECKS_SHOWN_MAX)]:
        """Return a stash's duties in checks: to show leaves, then to appeal, then to audit.

        Duties of a kind come with the earliest deadline first, so the costliest ones are shown, however many cheap
        audits there are.
        """
        room = self.bound[LeafChecks]
        listed = sorted((duty, unit) for unit, duty in room.duties.under(stash))
        read = listed[: max(CHECKS_SHOWN_MAX, KEYS_READ_MAX - len(listed))]
        found = [(duty, check.deadline, unit, check) for duty, unit in read if (check := room.checks[unit]) is not None]
        found.sort(key=lambda each: each[:3])
        return tuple(CheckStatus(unit, check) for _, _, unit, check in found[:CHECKS_SHOWN_MAX])

    @query
    def check_of_case(self, case_id: Hash) -> CheckStatus | None:
        """Return the check that a case is about, or None for another case."""
        room = self.bound[LeafChecks]
        unit = room.unit_of_case[case_id]
        check = None if unit is None else room.checks[unit]
        return None if unit is None or check is None else CheckStatus(unit, check)
