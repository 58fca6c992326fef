"""What the hooks of one block may weigh: the budgets of every pallet that declares some, and one last piece of each.

Always: a piece of work that is begun within a budget is finished, so a budget may be passed by one piece.
"""

from gpu_tasks.market.capacity.capacity import RETURN_BUDGET, RETURN_WEIGHT
from gpu_tasks.market.courts import courts as of_the_courts
from gpu_tasks.market.courts.hearing import COURT_WEIGHT, END_WEIGHT, LOOKS_MAX, SEAT_LOOK_WEIGHT
from gpu_tasks.market.devices.device_work import RECALL_WEIGHT
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, QUEUE_MAX
from gpu_tasks.market.inference.catalogue import END_OFFER_WEIGHT
from gpu_tasks.market.inference.inference import DRAW_BUDGET, TENDING_BUDGET, WAKE_BUDGET
from gpu_tasks.market.inference.queue import STIR_WEIGHT, WELCOME_WEIGHT
from gpu_tasks.market.inference.schedules import EXPIRY_BUDGET, EXPIRY_WEIGHT, FINAL_BUDGET, HEIGHT_BUDGET, STEP_WEIGHT
from gpu_tasks.market.inference.services import OFFERS_PER_SERVICE_MAX
from gpu_tasks.market.inference.slots import draw_weight, reading_weight
from gpu_tasks.market.inference.units import RACERS_MAX
from gpu_tasks.market.leaf_checks import leaf_checks as of_checks
from gpu_tasks.market.leaf_disputes import leaf_disputes as of_disputes
from gpu_tasks.market.training import training_market as of_tasks
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.terms import SLOTS_MAX
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT

BUDGETS = (
    RETURN_BUDGET,
    of_the_courts.HEIGHT_BUDGET,
    of_the_courts.FINAL_BUDGET,
    of_the_courts.CASES_BUDGET,
    of_checks.HEIGHT_BUDGET,
    of_checks.FINAL_BUDGET,
    of_disputes.HEIGHT_BUDGET,
    of_disputes.FINAL_BUDGET,
    of_tasks.HEIGHT_BUDGET,
    of_tasks.FINAL_BUDGET,
    of_tasks.CLEARING_BUDGET,
    HEIGHT_BUDGET,
    FINAL_BUDGET,
    DRAW_BUDGET,
    WAKE_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    EXPIRY_BUDGET,
)
LAST_PIECES = (
    RETURN_WEIGHT + TAKE_WEIGHT,
    of_the_courts.DUE_WEIGHT + TAKE_WEIGHT,
    of_the_courts.DUE_WEIGHT + TAKE_WEIGHT,
    COURT_WEIGHT + END_WEIGHT + times(LOOKS_MAX, SEAT_LOOK_WEIGHT),
    *(of_checks.END_WEIGHT + of_checks.STEP_WEIGHT + TAKE_WEIGHT,) * 2,
    of_disputes.STEP_WEIGHT + TAKE_WEIGHT,
    of_disputes.BEGIN_WEIGHT + TAKE_WEIGHT,
    of_tasks.step_weight(SLOTS_MAX) + TAKE_WEIGHT,
    of_tasks.step_weight(SLOTS_MAX, BIDS_MAX) + TAKE_WEIGHT,
    times(CLEARED_MAX, of_tasks.BID_WEIGHT) + TAKE_WEIGHT,
    STEP_WEIGHT + TAKE_WEIGHT,
    STEP_WEIGHT + TAKE_WEIGHT,
    reading_weight(OFFERS_PER_SERVICE_MAX) + draw_weight(OFFERS_PER_SERVICE_MAX, RACERS_MAX),
    reading_weight(OFFERS_PER_SERVICE_MAX) + draw_weight(OFFERS_PER_SERVICE_MAX, RACERS_MAX),
    times(QUEUE_MAX, RECALL_WEIGHT),
    STIR_WEIGHT + TAKE_WEIGHT,
    Weight((DEVICES_PER_PROVIDER_MAX + 1) * WELCOME_WEIGHT.ref_time, 0),
    END_OFFER_WEIGHT,
    EXPIRY_WEIGHT + TAKE_WEIGHT,
)
HOOKS_MAX = Weight(sum(weight.ref_time for weight in (*BUDGETS, *LAST_PIECES)), 0)
