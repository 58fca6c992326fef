"""`LeafChecksApi`: what providers, auditors and customers ask about checks of batches by their leaves."""

from typing import Annotated

from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.api import RuntimeApi, query

CHECKS_SHOWN_MAX = 1_024
"""Each holds a collateral or a seat of who has the duty."""
KEYS_READ_MAX = 4_800
"""Of duties and their checks together: a node proves no call that reads more than 5,000 keys."""


@struct
class CheckStatus:
    """A check that is not over, with the batch that it is of."""

    unit: Hash
    check: LeafCheck


class LeafChecksApi(RuntimeApi, version=1):
    """Checks of batches."""

    @query
    def check(self, unit: Hash) -> LeafCheck | None:
        """The check of a batch, while it goes on."""
        return self.bound[LeafChecks].checks[unit]

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[CheckStatus, ...], Bounded(CHECKS_SHOWN_MAX)]:
        """What a stash has to do for checks: first who shows leaves, then who was called a liar, then who audits.

        Of each kind the earliest deadline first: however much dust there is to audit, what costs most is seen.
        """
        room = self.bound[LeafChecks]
        listed = sorted((duty, unit) for unit, duty in room.duties.under(stash))
        read = listed[: max(CHECKS_SHOWN_MAX, KEYS_READ_MAX - len(listed))]
        found = [(duty, check.deadline, unit, check) for duty, unit in read if (check := room.checks[unit]) is not None]
        found.sort(key=lambda each: each[:3])
        return tuple(CheckStatus(unit, check) for _, _, unit, check in found[:CHECKS_SHOWN_MAX])

    @query
    def check_of_case(self, case_id: Hash) -> CheckStatus | None:
        """The check that a case before the courts is about; None for another case."""
        room = self.bound[LeafChecks]
        unit = room.unit_of_case[case_id]
        check = None if unit is None else room.checks[unit]
        return None if unit is None or check is None else CheckStatus(unit, check)
