"""Tasks on a chain that takes attestations, and providers that sign them."""

from collections.abc import Callable
from typing import Any

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.encoding.types import Unsigned
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import GENESIS_HASH, OGPU, PALLETS, Keys
from task_chain import TaskChain, a_milestone, a_result, with_offers


def running(*, slots: int = 1, pallets: tuple[type[Pallet], ...] = PALLETS, **order: Any) -> TaskChain:
    """Return a task whose slots the cheapest bidders have started, with the next one as standby."""
    chain = TaskChain(pallets=pallets)
    chain.submit(slots=slots, **order)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU, 9 * OGPU))
    for place, slot in enumerate(chain.now().slots):
        chain.start(chain.chain.keys_of(slot.provider), place)
    return chain


def workers(chain: TaskChain) -> list[Keys]:
    """Return the providers of the slots, in order."""
    return chain.providers()


def stating(
    chain: TaskChain, stated: Milestone | TaskResult, of: int = 0, /, key: str = "provider", **changed: Any
) -> SignedTaskAttestation:
    """Return the signed statement of the provider of slot `of`, with some fields changed before signing."""
    slot = chain.now().slots[of]
    keys = chain.chain.keys_of(slot.provider)
    fields: dict[str, Any] = {
        "version": 1,
        "task": chain.task,
        "auction": chain.now().auction,
        "place": of,
        "provider_key": keys.public(key),
        "device": slot.device,
        "stated": StatedMilestone(stated) if isinstance(stated, Milestone) else StatedResult(stated),
        "usage": Usage(10, 5, 0, 5, 6, 1_000),
        "started_at": slot.started_at,
        "finished_at": chain.height,
        **changed,
    }
    statement = TaskAttestation(**fields)
    return SignedTaskAttestation(statement, keys.sign(key, task_signing_payload(GENESIS_HASH, statement)))


def at_milestone(chain: TaskChain, number: int, of: int = 0, /, **changed: Any) -> SignedTaskAttestation:
    """Return the attestation of a milestone."""
    return stating(chain, a_milestone(number), of, **changed)


def at_end(chain: TaskChain, of: int = 0, /, **changed: Any) -> SignedTaskAttestation:
    """Return the attestation of a result."""
    return stating(chain, a_result(workers(chain)[of]), of, **changed)


def in_this_order(*attestations: AnyAttestation) -> Callable[[Bound], None]:
    """Return a step with the inherent as it is."""

    def step(bound: Bound) -> None:
        bound.dispatch(Attestations.attach(attestations=attestations), Unsigned())

    return step
