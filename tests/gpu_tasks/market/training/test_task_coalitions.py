"""A third of the stake against who worked rightly: its customer disputes, its judges find a lie, its rest votes."""

from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState, slot_case
from looked_at import CALLED_FEE, PAID, judges_say, submitted
from simulation.chains.market_chain import OGPU, Keys, signed
from task_chain import COLLATERAL, PRICE, RIGHT, WRONG, Books, TaskChain, net, with_offers

LARGE, OWN, SMALL = 1_800 * OGPU, 540 * OGPU, 220 * OGPU
BONDS = (*(LARGE,) * 3, *(OWN,) * 6, *(SMALL,) * 6)
"""Of who works, stands by, and has bid in vain; of six who are one, 32.5 % of all; of six others."""


def judged_by(chain: TaskChain, coalition: list[Keys]) -> None:
    """A right result that is disputed: judges of a coalition say another, and who is found wrong by that appeals."""
    chain.dispute()
    cases = {slot_case(chain.task, place): slot.provider for place, slot in enumerate(chain.now().slots)}

    def says(keys: Keys) -> Answered:
        return Answered(WRONG if keys in coalition else RIGHT)

    while chain.state() is not TaskState.ENDED:
        courts = chain.chain.now()[Courts]
        for case_id, provider in cases.items():
            case = courts.cases[case_id]
            if case is not None and case.stage is CaseStage.APPEALABLE and case.verdict == Answered(WRONG):
                chain.block(signed(provider, Courts.appeal(case_id=case_id)))
        chain.block(*judges_say(chain, says))


def robbed(seed: int) -> tuple[TaskChain, Books, CaseOutcome]:
    """A task of Alice's before such judges; how its case ends."""
    chain = TaskChain(size=len(BONDS), bonds=BONDS)
    chain.chain.chance.seed(seed)
    books = Books(chain)
    submitted(chain)
    judged_by(chain, chain.keys[3:9])
    return chain, books, CaseOutcome(chain.happened(CaseEnded)[0].outcome)


def test_a_third_that_keeps_courts_from_deciding_robs_nobody() -> None:
    """Two of three of a committee were enough, one dispute in two: a court of all left could not put it away."""
    undecided = 0
    for seed in range(8):
        chain, books, outcome = robbed(seed)
        assert chain.now().outcome is TaskOutcome.DISPUTED_FALSELY
        assert books.change(chain.alice) >= net(PAID), "what its appeal cost came back"
        undecided += outcome is CaseOutcome.AUDIT_RIGHT and len(chain.happened(CaseAppealed)) > 0
    assert undecided, "the court of one of them found nothing"


def test_a_gang_of_the_largest_stakes_loses_no_more_than_it_is_about() -> None:
    """Partners may not judge, so of those who are left the coalition is most, and less than a third of all."""
    chain = TaskChain(size=len(BONDS), bonds=BONDS)
    books, gang = Books(chain), chain.keys[:3]
    chain.submit(slots=3)
    chain.auction(with_offers(gang, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    for place, keys in enumerate(gang):
        chain.start(keys, place)
    for place, keys in enumerate(gang):
        chain.finish(keys, place)
    judged_by(chain, chain.keys[3:9])
    assert TaskOutcome.LIED in [slot.outcome for slot in chain.now().slots]
    most = PRICE + PRICE // 4 + 12 * CALLED_FEE
    assert most < COLLATERAL
    assert all(books.change(keys) >= -most for keys in gang)
