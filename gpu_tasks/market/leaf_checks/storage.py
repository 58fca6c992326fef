"""The storage of LeafChecks: records, schedules, and the validators that may audit.

Invariants: a check waits for a block, for a final height, or for the courts, so each ends by itself. The duties of an
account are stored under its stash.
"""

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.handlers import CaseHandler, handler_at
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, reads_since
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_checks.checks import CALLED_MAX, CheckTerms, CheckWindows, LeafCheck, LeafDuty
from gpu_tasks.market.leaf_checks.events import UnknownCheck
from gpu_tasks.market.leaf_checks.fees import auditor_seat
from runtime.cryptography.draw import lottery
from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.pallet import Pallet, Parameter, ScheduleItem, StorageDoubleMap, StorageMap, known
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

_LABEL = b"leaf-auditor"


# The parameters of LeafChecks, each with its bounds and its reason.
#
# Invariant: a check follows the `windows_for` of its opening. The post of a batch decides if it is checked.
CHECK_WINDOW_MAX = 7_200
"""The longest window of a check, in blocks."""
BATCH_MIN = 2
"""The least requests of a batch."""


class LeafNumbers(Pallet):
    """The least size of a batch that is checked by its leaves, and the windows of a check."""

    check_from: Parameter[U32] = Parameter(
        16, unit="requests", least=0, greatest=REQUESTS_MAX,
        doc="Least requests of a batch that is checked by leaves; 0 for none. Other batches are audited as a unit.",
    )  # fmt: skip
    show_blocks: Parameter[BlockNumber] = Parameter(
        300, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="Window to show drawn leaves. A silent provider loses its collateral, so a machine must have time to "
            "come back.",
    )  # fmt: skip
    check_blocks: Parameter[BlockNumber] = Parameter(
        40, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="Window for an auditor to fetch the input and compute, or 1.5 times the run of the whole batch if that "
            "is longer.",
    )  # fmt: skip
    dispute_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="Window for a customer to dispute a leaf after the audit.",
    )  # fmt: skip

    def is_checked(self, requests: int) -> bool:
        """Return True if batches of this size are checked by leaves, given enough judges."""
        return bool(self.check_from) and requests >= max(BATCH_MIN, self.check_from)

    def windows_for(self, run_blocks: int) -> CheckWindows:
        """Return the windows of a check that opens now."""
        return CheckWindows(
            show=self.show_blocks,
            check=max(self.check_blocks, run_blocks * 3 // 2),
            dispute=self.dispute_blocks,
        )


class LeafStorage(LeafNumbers):
    """Checks, duties and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    lock: TrustLock
    devices: Devices
    courts: Courts

    checks: StorageMap[UnitId, LeafCheck | None] = StorageMap(doc="Batches with a check of their leaves.")
    unit_of_case: StorageMap[Hash, UnitId | None] = StorageMap(doc="The batch of a case in court.")
    duties: StorageDoubleMap[AccountId, UnitId, LeafDuty] = StorageDoubleMap(
        default=LeafDuty.NONE,
        doc="The batches of a stash that shows leaves, computes them, or has collateral for its statement.",
    )

    agenda: ScheduleItem[UnitId] = ScheduleItem("height", doc="Checks to process at a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem("final", doc="Checks to process once a height is final.")

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def handler(self, check: LeafCheck) -> CaseHandler:
        """Return the pallet with the batch."""
        return handler_at(check.terms.handler, self.context.members.values())

    def open_check(self, unit: bytes) -> LeafCheck:
        """Return a check that is not over. Raise UnknownCheck if there is none."""
        return known(self.checks[unit], UnknownCheck)

    def of_case(self, case: bytes) -> tuple[bytes, LeafCheck]:
        """Return the batch and the check of a case that is before the courts."""
        unit = self.unit_of_case[case]
        check = self.checks[unit] if unit is not None else None
        assert unit is not None and check is not None, "a check's record outlives its case"  # noqa: PT018
        return unit, check

    def awaits_finality(self, unit: bytes) -> bool:
        """Return True if the awaited height is not final yet: of a beacon, or of the drawn leaves."""
        return bool(self.final_agenda.places[unit])

    def put(self, unit: bytes, check: LeafCheck) -> None:
        """Store a check, and schedule its step for the block after its window."""
        self.checks[unit] = check
        if check.deadline:
            self.agenda.put(check.deadline + 1, unit)
        else:
            self.agenda.drop(unit)

    def call_auditors(self, unit: bytes, terms: CheckTerms, seed: bytes) -> tuple[tuple[bytes, ...], int]:
        """Return possible auditors, drawn by stake from the active set, and the number of checked validators.

        They are drawn with the leaves, before any are shown. Otherwise an answerer could wait for an active set in
        which the first auditor is its friend.
        """
        entrants = in_office(self.devices)
        outside = dict.fromkeys(self._outside(terms))
        called: list[bytes] = []
        looks = 0
        for place in lottery(seed, _LABEL + unit, entrants, len(entrants)):
            looks += 1
            stash = entrants[place][0]
            if stash not in outside and self._can_read(stash, terms.sealed_at):
                called.append(stash)
                if len(called) == CALLED_MAX:
                    break
        return tuple(called), looks

    def next_auditor(self, check: LeafCheck) -> bytes | None:
        """Return the next auditor: the first called one that was not asked yet and can pay for a seat."""
        sealed_at, needed = check.terms.sealed_at, seat_of(check.terms) + self.balances.existential_deposit
        left = (stash for stash in check.called if stash not in check.drawn)
        return next((stash for stash in left if self._can_audit(stash, sealed_at, needed)), None)

    def _outside(self, terms: CheckTerms) -> tuple[bytes, ...]:
        """Return the accounts that may not audit, because they have a part in the batch."""
        own = (terms.customer, self.devices.operator(terms.customer))
        return (*own, *terms.excluded, *(each.account for each in terms.answerers))

    def _can_audit(self, stash: bytes, sealed_at: int, needed: int) -> bool:
        return self._can_read(stash, sealed_at) and self.balances.free_balance(stash) >= needed

    def _can_read(self, stash: bytes, sealed_at: int) -> bool:
        since = reads_since(self.devices, stash)
        return since is not None and since <= sealed_at


def seat_of(terms: CheckTerms) -> int:
    """Return an auditor's hold for a check."""
    return auditor_seat(terms.collateral, terms.fee)
