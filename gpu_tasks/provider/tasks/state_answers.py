"""States for judges: the state before a stretch, with its proof of membership in the trace.

Invariants:

* A state is sealed only to a judge of the slot's present case on the chain, proved by a signature of its provider key.
* Only states before the judged stretches are given.
* A shown state is in the stated trace, unless this machine has lost it.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.data.run_states import STATE_BYTES_MAX
from gpu_tasks.data.sealing import seal
from gpu_tasks.market.courts.cases import judges_of
from gpu_tasks.market.training.showing import TraceStretch, judged_stretches
from gpu_tasks.market.training.tasks import Task, slot_case
from gpu_tasks.provider.blobs.deliveries import NoReaderError, RefusedDeliveryError
from gpu_tasks.provider.chain.port import ChainError, Identity, TaskPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks.places import own_place
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.traces.trace import TracedState, traced_state
from runtime.cryptography.signatures import Scheme, verify
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Bounded, DecodeError, Fixed, codec, struct
from runtime.encoding.types import Hash

PATH = "/states"


@struct
class _Question:
    case: Hash
    stretch: TraceStretch
    provider_key: Hash


@struct
class _Signed:
    question: _Question
    signature: Annotated[bytes, Fixed(64)]


@struct
class ShownState:
    """The state before a stretch, and the proofs for it and for the state after the stretch."""

    before: TracedState
    after: TracedState
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]


_QUESTION = codec(_Question)
_SIGNED = codec(_Signed)
SHOWN_STATE = codec(ShownState)


def question(identity: Identity, case_id: bytes, stretch: TraceStretch) -> bytes:
    """Return a judge's body for `POST /states`."""
    state_question = _Question(case_id, stretch, identity.key.public_key)
    return _SIGNED.encode(_Signed(state_question, identity.key.sign(_signed_payload(identity.genesis, state_question))))


class StateAnswers:
    """The answers to judges' questions about states."""

    def __init__(self, parts: Parts[TaskPort], book: TaskBook) -> None:
        """It reads states from the disk and seats from the chain."""
        self._parts = parts
        self._book = book

    async def answer(self, data: bytes) -> bytes:
        """Return a `ShownState` as a sealed blob. Raise RefusedDeliveryError if the caller may not have it."""
        try:
            signed_question = _SIGNED.decode(data)
        except DecodeError as error:
            raise NoReaderError(f"not a question: {error}") from None
        state_question = signed_question.question
        signed_payload = _signed_payload(self._parts.identity.genesis, state_question)
        # Otherwise anyone could have states read and sealed in a judge's name.
        if not verify(Scheme.ED25519, state_question.provider_key, signed_payload, signed_question.signature):
            raise NoReaderError("bad signature")
        try:
            return await self._sealed_answer(state_question)
        except ChainError as error:
            raise RefusedDeliveryError(f"the chain cannot be read at present: {error}") from None

    async def _sealed_answer(self, state_question: _Question) -> bytes:
        chain_port = self._parts.chain
        case_status, judge_stash = (
            await chain_port.case(state_question.case),
            await chain_port.stash_of(state_question.provider_key),
        )
        if case_status is None or judge_stash is None or judge_stash not in judges_of(case_status):
            raise NoReaderError("the key belongs to no judge of a case")
        # The key comes from the chain, so that a copied question is useless to a stranger.
        reader_record = await chain_port.provider(judge_stash)
        if reader_record is None:
            raise RefusedDeliveryError("the asker has no key to seal to")
        task_id, task, place = await self._task_of(state_question.case)
        return seal(
            SHOWN_STATE.encode(self._shown_states(task_id, task, place, state_question.stretch)),
            [reader_record.seal_key],
        )

    async def _task_of(self, case_id: bytes) -> tuple[bytes, Task, int]:
        """Return the task and place of the slot that a case is about, if this provider has it."""
        open_tasks = dict(self._parts.journal.open_tasks())
        known_tasks = await self._parts.chain.tasks(list(dict.fromkeys(task for task, _ in open_tasks)))
        for (task_id, _), entry in open_tasks.items():
            task = known_tasks.get(task_id)
            place = None if task is None else own_place(task, self._parts.identity.stash, entry.device)
            if task is not None and place is not None and slot_case(task_id, place) == case_id:
                return task_id, task, place
        raise RefusedDeliveryError("no task of that case was run here")

    def _shown_states(self, task_id: bytes, task: Task, place: int, stretch: TraceStretch) -> ShownState:
        task_run = self._book.run(task_id, task)
        # a judge must compute the end of a stretch itself
        if stretch not in judged_stretches(task_id, task, place):
            raise RefusedDeliveryError("these segments are not part of the case")
        # After a restart the run is still being read from the disk.
        if task_run is None or task_run.index < stretch.end:
            raise RefusedDeliveryError("its states are being read from disk; ask again")
        state_there = task_run.folder.state(stretch.first)
        if state_there is None:
            raise RefusedDeliveryError("that state is no longer here")
        return ShownState(
            traced_state(task_run.digests, stretch.first), traced_state(task_run.digests, stretch.end), state_there
        )


def _signed_payload(genesis_hash: bytes, state_question: _Question) -> bytes:
    return domain(b"states", genesis_hash, _QUESTION.encode(state_question))
