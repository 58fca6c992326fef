"""TrainingMarket: tasks that go to sealed auctions. No chain lists it yet: events, errors and reasons stand.

Always: a device has one active assignment, and a bid is one; what a task can cost its customer is locked when it is
submitted; each state has a deadline that the agenda keeps, so that nobody waits for anybody's transaction.
"""

from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.ground import TrainingGround
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
)


class TrainingMarket(TrainingGround, index=15):
    """Tasks, bids, milestones and results."""

    events = (
        ev.TaskSubmitted, ev.BidCommitted, ev.BidsClosed, ev.BidRevealed, ev.TaskAwarded, ev.StandbyNamed,
        ev.StandbyReleased, ev.BidEnded, ev.SlotStarted, ev.TaskRunning, ev.MilestoneReported, ev.MilestoneCounted,
        ev.ResultStated, ev.ResultAccepted, ev.StandbyAsked, ev.TaskReopened, ev.SegmentsDrawn, ev.StatesShown,
        ev.TaskJudged, ev.TaskAmended, ev.CloseOffered, ev.SlotSettled, ev.TaskEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownTask, ev.UnsoundOrder, ev.StaleOrder, ev.TooManyTasks, ev.NotTaskCustomer, ev.WrongTaskState,
        ev.NotEligible, ev.TooManyBids, ev.DeviceHasBid, ev.NoSuchBid, ev.WrongBidOpening, ev.CollateralTooLow,
        ev.NotSlotOwner, ev.DoneAlready, ev.WrongMilestone, ev.NothingToHold, ev.MayNotHold, ev.NotShown,
        ev.NoCloseOffer, ev.UnsoundAmendment,
    )  # fmt: skip
    hold_reasons = (TASK_ESCROW, TASK_BOND, TASK_DEPOSIT, TASK_DISPUTE, BID_BOND, TASK_COLLATERAL)
