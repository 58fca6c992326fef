"""`LeafChecksApi`: what providers, auditors and customers ask about checks of batches by their leaves."""

from typing import Annotated

from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.api import RuntimeApi, query

CHECKS_SHOWN_MAX = 1_024
"""Each holds a collateral or a seat of who has the duty; the first by ascending unit are shown."""


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
        """The checks for which somebody shows leaves now, or computes them; by ascending unit."""
        room = self.bound[LeafChecks]
        listed = sorted(unit for unit, _ in room.duties.under(stash))[:CHECKS_SHOWN_MAX]
        named = ((unit, room.checks[unit]) for unit in listed)
        return tuple(CheckStatus(unit, check) for unit, check in named if check is not None)

    @query
    def check_of_case(self, case: Hash) -> CheckStatus | None:
        """The check that a case before the courts is about; None for another case."""
        room = self.bound[LeafChecks]
        unit = room.unit_of_case[case]
        check = None if unit is None else room.checks[unit]
        return None if unit is None or check is None else CheckStatus(unit, check)
