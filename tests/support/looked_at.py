"""Tasks with examined results: audited, disputed or challenged, and judges with scripted opinions."""

from collections.abc import Callable, Iterator

from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.traces.trace import trace_root
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import OGPU, Keys, Step
from task_chain import PRICE, RIGHT, Books, TaskChain, with_offers

Opinion = Answered | Unanswerable | None
SEGMENTS = 20
DIGESTS = [blake2_256(bytes((number,))) for number in range(SEGMENTS + 1)]
TRACE = trace_root(DIGESTS)
OFTEN = {"TrainingMarket.audit_rate_ppm": 1_000_000, "TrainingMarket.trace_audit_ppm": 1_000_000}
STOOD_BY = 7 * OGPU // 50
PAID = 7 * OGPU
FEE = PAID // 20
"""The fee of an audit's judge, without a trace."""
CALLED_FEE, CALLED_TRACE_FEE = PRICE // 20, PRICE // 10
"""The fee of a judge called by a customer, a provider or a fraud proof, without a trace and with one."""


def judges_say(chain: TaskChain, opinion: Callable[[Keys], Opinion]) -> Iterator[Step]:
    """Return the acts of all cases' judges in the next block."""
    return chain.chain.judge_steps(lambda _case, keys: opinion(keys))


def judged(chain: TaskChain, opinion: Callable[[Keys], Opinion]) -> CaseOutcome:
    """Let the judges hold this opinion until the task has ended. Return the outcome of its first case."""
    for _ in range(300):
        if chain.state() is TaskState.ENDED:
            return CaseOutcome(chain.happened(CaseEnded)[0].outcome)
        chain.block(*judges_say(chain, opinion))
    raise AssertionError("a task without end")


def submitted(chain: TaskChain, root: bytes = RIGHT, **order: object) -> TaskChain:
    """Return a task with a result of Alice's."""
    chain.submit(**order)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    chain.start(chain.alice)
    chain.finish(chain.alice, root=root)
    return chain


def audited(
    size: int = 12, root: bytes = RIGHT, numbers: dict[str, int] | None = None, **order: object
) -> tuple[TaskChain, Books]:
    """Return a task whose result the beacon audits. `numbers` are parameters of its chain."""
    for seed in range(20):
        chain = TaskChain(size=size, constants={**OFTEN, **(numbers or {})})
        chain.chain.chance.seed(seed)
        books = Books(chain)
        submitted(chain, root, **order)
        chain.until_checked()
        if chain.state() is not TaskState.SUBMITTED:
            return chain, books
    raise AssertionError("no beacon asks for an audit")


def disputed(
    size: int = 12, root: bytes = RIGHT, segment: int | None = None, **order: object
) -> tuple[TaskChain, Books]:
    """Return a task whose result the customer disputes at this segment."""
    chain = TaskChain(size=size)
    books = Books(chain)
    submitted(chain, root, **order)
    chain.dispute(segment)
    return chain, books


def says(root: bytes) -> Callable[[Keys], Opinion]:
    """Let all judges find this root right."""
    return lambda _keys: Answered(root)
