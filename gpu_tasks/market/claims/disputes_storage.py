"""The storage of Disputes: records, ballots, schedules, and the eligible voters.

Invariants: every open dispute is scheduled, so each ends by itself. `ballots` has exactly the voters of open disputes,
each with its hold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gpu_tasks.market.claims.dispute_events import UnknownDispute
from gpu_tasks.market.claims.disputes import VOTER_FEES, Dispute, DisputeTerms, VotingSeat
from gpu_tasks.market.claims.numbers import DisputeNumbers
from gpu_tasks.market.devices.checkers import reads_since
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.rounds import Windows
from runtime.encoding.types import AccountId, Hash
from runtime.frame.pallet import ScheduleItem, StorageDoubleMap, StorageMap, known
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System


@dataclass(slots=True)
class Tally:
    """The counts of a block's work beside its steps."""

    looks: int = 0
    """Validators checked for a vote, and accounts that may not vote."""
    voters: int = 0
    """Voters drawn or released."""


class DisputesStorage(DisputeNumbers):
    """Disputes, ballots and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    lock: TrustLock
    devices: Devices

    disputes: StorageMap[Hash, Dispute | None] = StorageMap(doc="Open disputes.")
    ballots: StorageDoubleMap[AccountId, Hash, VotingSeat | None] = StorageDoubleMap(
        doc="The disputes of a voter, by stash."
    )
    agenda: ScheduleItem[Hash] = ScheduleItem("height", doc="Disputes to process at a block.")
    final_agenda: ScheduleItem[Hash] = ScheduleItem("final", doc="Disputes to process once a height is final.")

    @cached_property
    def tally(self) -> Tally:
        """The counts of this block."""
        return Tally()

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def open_dispute(self, dispute_id: bytes) -> Dispute:
        """Return a dispute that is not over. Raise UnknownDispute if there is none."""
        return known(self.disputes[dispute_id], UnknownDispute)

    def ballot(self, voter: bytes, dispute_id: bytes) -> VotingSeat:
        """Return the ballot of a voter of an open dispute."""
        found = self.ballots[voter, dispute_id]
        assert found is not None, "a voter has a ballot until its dispute ends"
        return found

    def may_vote(self, dispute_id: bytes, terms: DisputeTerms) -> Callable[[bytes], bool]:
        """Return a predicate: the validator can read the input, has no part in the dispute, and can hold its bond.

        A validator that drops out after the beacon is known (by spending its grains) only makes room for the next one
        of the lottery.
        """
        # A stash may act with its provider key.
        named = (*terms.parties, *terms.excluded)
        barred = {each: None for who in named for each in (who, self.devices.operator(who))}
        self.tally.looks += len(named)
        # The hold must leave a voter's account above the existential deposit.
        needed = bond_of(terms) + self.balances.existential_deposit

        def may(stash: bytes) -> bool:
            self.tally.looks += 1
            since = None if stash in barred else reads_since(self.devices, stash)
            if since is None or since > terms.sealed_at:
                return False
            return self.ballots[stash, dispute_id] is not None or self.balances.free_balance(stash) >= needed

        return may


def bond_of(terms: DisputeTerms) -> int:
    """Return the grains that each voter holds."""
    return VOTER_FEES * terms.fee


def windows_of(dispute: Dispute) -> Windows:
    """Return the windows of a dispute's rounds. Commits close when all have committed, or the window is over."""
    commit = dispute.windows.commit
    return Windows(commit_window=commit, close=commit, reveal=dispute.windows.reveal)
