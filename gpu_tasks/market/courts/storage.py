"""The storage of Courts: records, the validators that may judge, and the schedules of cases.

Invariants: every open case is scheduled or due, so each ends by itself. A case that is over is neither. `seats` has
exactly the judges of open cases, each with the hold of its seat.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated

from gpu_tasks.market.courts.benches import COURT_MIN
from gpu_tasks.market.courts.cases import CourtCase, JudgeSeat, parties_of
from gpu_tasks.market.courts.handlers import CaseHandler, handler_at
from gpu_tasks.market.courts.numbers import CourtNumbers
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, reads_since
from gpu_tasks.market.due import DueCase
from gpu_tasks.market.rounds import Windows
from runtime.encoding.codec import Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import Hasher, ScheduleItem, StorageDoubleMap, StorageMap
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

CONVICTIONS_MAX = 2
"""The number of remembered lies. The next one is the third."""

Convictions = Annotated[tuple[BlockNumber, ...], Bounded(CONVICTIONS_MAX)]


@dataclass(slots=True)
class SeatTally:
    """The count of checked validators."""

    looks: int = 0


class CourtsStorage(CourtNumbers):
    """Cases, seats and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake
    lock: TrustLock
    devices: Devices

    cases: StorageMap[Hash, CourtCase | None] = StorageMap(doc="Open cases.")
    seats: StorageDoubleMap[AccountId, Hash, JudgeSeat | None] = StorageDoubleMap(doc="The cases of a judge, by stash.")
    convictions: StorageMap[AccountId, Convictions] = StorageMap(
        default=(), doc="The blocks of an account's convicted lies."
    )
    agenda: ScheduleItem[Hash] = ScheduleItem("height", doc="Cases to process at a block.")
    final_agenda: ScheduleItem[Hash] = ScheduleItem("final", doc="Cases to process once a height is final.")

    due: StorageMap[DueCase, bool] = StorageMap(
        default=False, hasher=Hasher.IDENTITY, doc="Due cases without a look so far, the most valuable first."
    )
    prices: StorageMap[Hash, Balance] = StorageMap(
        default=0, doc="The prices of open cases, which set the order of due cases."
    )

    @cached_property
    def tally(self) -> SeatTally:
        """The number of validators that this block has checked for a seat."""
        return SeatTally()

    def handler(self, index: int) -> CaseHandler:
        """Return the pallet that opened a case."""
        return handler_at(index, self.context.members.values())

    def windows(self, case: CourtCase) -> Windows:
        """Return the windows of a case's judges. Commits close when all have committed, or the window is over."""
        commit_window = max(case.rules.commit_blocks, case.terms.run_blocks * 3 // 2)
        return Windows(commit_window=commit_window, close=commit_window, reveal=case.rules.open_blocks)

    def entrants(self) -> list[tuple[bytes, int]]:
        """Return the active set with its weights, from which judges are drawn."""
        return in_office(self.devices)

    def may_sit(self, case: CourtCase) -> Callable[[bytes], bool]:
        """Return a predicate: the validator is a candidate, can read the input, is no party, and can pay for its seat.

        A validator that drops out after the beacon is known (by spending its grains) only makes room. Its replacement
        follows it in the lottery anyway.
        """
        parties = dict.fromkeys(parties_of(case))
        # A stash may act with its provider key.
        parties[self.devices.operator(case.terms.customer)] = None
        # The hold must leave a judge's account above the existential deposit.
        needed = case.seat + self.balances.existential_deposit

        def may(stash: bytes) -> bool:
            self.tally.looks += 1
            return stash not in parties and self._can_judge(stash, case.terms.sealed_at, needed)

        return may

    def count_left(self, case: CourtCase, most: int) -> int:
        """Return the number of validators that may judge, counted up to `most`."""
        may = self.may_sit(case)
        return sum(1 for _ in islice((stash for stash, _ in self.entrants() if may(stash)), most))

    def has_court(self, case: CourtCase) -> bool:
        """Return True if enough validators are left for a court."""
        # The count ends at the least size, because each look reads a validator's keys and balance.
        return self.count_left(case, COURT_MIN) == COURT_MIN

    def once_final(self, case_id: bytes, height: int) -> None:
        """Schedule the case for the first block whose `final_ref` covers `height`."""
        self.final_agenda.put(height, case_id)

    def _can_judge(self, stash: bytes, sealed_at: int, needed: int) -> bool:
        since = reads_since(self.devices, stash)
        return since is not None and since <= sealed_at and self.balances.free_balance(stash) >= needed
