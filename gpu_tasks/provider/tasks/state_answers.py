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
from gpu_tasks.provider.blobs.reseal import NoJudgeError, RefusedResealError
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


def question(identity: Identity, case: bytes, stretch: TraceStretch) -> bytes:
    """Return a judge's body for `POST /states`."""
    asked = _Question(case, stretch, identity.key.public_key)
    return _SIGNED.encode(_Signed(asked, identity.key.sign(_payload(identity.genesis, asked))))


class StateAnswers:
    """The answers to judges' questions about states."""

    def __init__(self, parts: Parts[TaskPort], book: TaskBook) -> None:
        """It reads states from the disk and seats from the chain."""
        self._parts = parts
        self._book = book

    async def answer(self, data: bytes) -> bytes:
        """Return a `ShownState` as a sealed blob. Raise RefusedResealError if the caller may not have it."""
        try:
            signed = _SIGNED.decode(data)
        except DecodeError as error:
            raise NoJudgeError(f"not a question: {error}") from None
        asked = signed.question
        payload = _payload(self._parts.identity.genesis, asked)
        if not verify(Scheme.ED25519, asked.provider_key, payload, signed.signature):
            raise NoJudgeError("bad signature")
        try:
            return await self._sealed(asked)
        except ChainError as error:
            raise RefusedResealError(f"the chain cannot be read at present: {error}") from None

    async def _sealed(self, asked: _Question) -> bytes:
        chain = self._parts.chain
        case, stash = await chain.case(asked.case), await chain.stash_of(asked.provider_key)
        if case is None or stash is None or stash not in judges_of(case):
            raise NoJudgeError("the key belongs to no judge of a case")
        # The key comes from the chain, so that a copied question is useless to a stranger.
        reader = await chain.provider(stash)
        if reader is None:
            raise RefusedResealError("the asker has no key to seal to")
        task_id, task, place = await self._task_of(asked.case)
        return seal(SHOWN_STATE.encode(self._shown(task_id, task, place, asked.stretch)), [reader.seal_key])

    async def _task_of(self, case: bytes) -> tuple[bytes, Task, int]:
        """Return the task and place of the slot that a case is about, if this provider has it."""
        open_tasks = dict(self._parts.journal.open_tasks())
        known = await self._parts.chain.tasks(list(dict.fromkeys(task for task, _ in open_tasks)))
        for (task_id, _), entry in open_tasks.items():
            task = known.get(task_id)
            place = None if task is None else own_place(task, self._parts.identity.stash, entry.device)
            if task is not None and place is not None and slot_case(task_id, place) == case:
                return task_id, task, place
        raise RefusedResealError("no task of that case was run here")

    def _shown(self, task_id: bytes, task: Task, place: int, stretch: TraceStretch) -> ShownState:
        run = self._book.run(task_id, task)
        # a judge must compute the end of a stretch itself
        if stretch not in judged_stretches(task_id, task, place):
            raise RefusedResealError("these segments are not part of the case")
        # After a restart the run is still being read from the disk.
        if run is None or run.index < stretch.end:
            raise RefusedResealError("its states are being read from disk; ask again")
        state = run.folder.state(stretch.first)
        if state is None:
            raise RefusedResealError("that state is no longer here")
        return ShownState(traced_state(run.digests, stretch.first), traced_state(run.digests, stretch.end), state)


def _payload(genesis: bytes, asked: _Question) -> bytes:
    return domain(b"states", genesis, _QUESTION.encode(asked))
