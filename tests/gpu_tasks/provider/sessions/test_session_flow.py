"""Sessions by daemons on the real pallets: drawn, served, claimed, checked by other daemons, and paid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claiming_village import outcomes
from echoing_session import EchoForm
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.market.claims.claim_events import CheckerDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.events import PeriodClaimed
from gpu_tasks.market.sessions.records import SessionState
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider.execution.executor import BadRequestError, CheckedOutput, Execution
from gpu_tasks.provider.sessions.session_duty import SessionDuty
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.sessions.provider_end import SessionTerms
from gpu_tasks.tunnel.frames import Converse
from played_sessions import CUSTOMER_SEAL, EchoHost
from provider_chain import Miner, Village
from runtime.blocks.extrinsic import MULTI_SIGNATURE
from runtime.cryptography.hashing import blake2_256
from session_chain import ALWAYS, SessionChain, signature_of
from session_streams import FakeCustomer, FakeStream
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, named_keys, signed
from staged import staged

QUESTION = bytes(range(100))
BLOCKS_MAX = 150


class StreamedFakeForm(EchoForm, FakeForm):
    """The echoing workload with the ids of the test chain's service."""

    is_streamed = True

    def cost(self, output: bytes) -> int:
        """Return the tokens of an output."""
        return len(output)


class EchoExecutor(FakeExecutor):
    """Computes the echoing workload."""

    async def run(self, request: bytes) -> Execution:
        """Answer, as the stream does."""
        if not request or not request[0]:
            raise BadRequestError("not a request")
        self.runs.append(request)
        return Execution(request[1 : 1 + request[0]], cpu_ms=3, wall_ms=4, memory_peak_bytes=5)

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        """Return what only a computation gives."""
        return blake2_256(b"fingerprint" + request + seed)[:16]

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        """Compare with the right answer."""
        self.checks += 1
        is_right = output == request[1 : 1 + request[0]]
        return CheckedOutput(is_right, await self.fingerprint(request, output, seed) if is_right else None)


class SpoilingHost(EchoHost):
    """A live worker of another model: each answer has a wrong token."""

    def generate(self, request: bytes) -> Any:
        """See `Host`."""
        return super().generate(bytes([request[0], request[1] ^ 1]) + request[2:])


class _Entrance:
    def __init__(self, duty: SessionDuty, session_id: bytes) -> None:
        self._duty, self._session_id = duty, session_id

    async def serve(self, stream: FakeStream) -> None:
        target = self._duty.find(self._session_id)
        assert target is not None
        await target.serve_stream(stream, Converse(0))  # type: ignore[arg-type]  # a fake stream


def _village(folder: Path) -> Village:
    made = Village(folder, 7, chain=SessionChain(named_keys(7), constants=ALWAYS))
    executor = EchoExecutor()
    made.forms, made.make = [StreamedFakeForm()], executor.make
    made.live_hosts = lambda _hardware, _form, places: EchoHost(places=places)
    return made


def sign(voucher: Voucher) -> bytes:
    """Return the signature of the session's signer."""
    return MULTI_SIGNATURE.encode(signature_of(voucher))


async def seated(village: Village) -> tuple[bytes, Miner]:
    """Open a session, and return its id and its provider once that serves it."""
    chain: Any = village.node.chain
    session_id = chain.open(customer_key=CUSTOMER_SEAL.public)
    while chain.session(session_id).state is SessionState.WAITING:
        await village.block()
    miner = village.miner(chain.leg(session_id).owner)
    while miner.daemon.duty(SessionDuty).find(session_id) is None:
        await village.block()
    return session_id, miner


async def chat(village: Village, session_id: bytes, miner: Miner, answers: Sequence[bytes]) -> FakeCustomer:
    """Ask, pay, and leave. An empty answer stands for a prompt whose customer leaves before the first token."""
    session = village.node.chain.now()[Sessions].sessions[session_id]
    assert session is not None
    terms = SessionTerms(GENESIS_HASH, session_id, session.rate, session.input_share)
    customer = FakeCustomer(0, terms, sign)
    serving = await customer.enter(_Entrance(miner.daemon.duty(SessionDuty), session_id))
    for answer in answers:
        customer.ask(answer)
        await customer.finish()
    customer.hang_up()
    await serving
    return customer


async def ended(village: Village, session_id: bytes) -> None:
    """Close the session, and make blocks until it has ended."""
    village.node.chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    for _ in range(BLOCKS_MAX):
        await village.block()
        if session_id not in village.node.chain.now()[Sessions].sessions:
            return
    raise AssertionError(f"never ended: {village.node.failed}")


@staged(_village)
async def test_a_chat_is_claimed_checked_and_paid(village: Village) -> None:
    """The checkers compute the drawn requests alone."""
    session_id, miner = await seated(village)
    customer = await chat(village, session_id, miner, [QUESTION, QUESTION[:50], QUESTION[:7]])
    assert bytes(customer.received) == QUESTION + QUESTION[:50] + QUESTION[:7]
    await ended(village, session_id)
    await village.blocks(4)
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert village.happened(CheckerDrawn)
    [claimed] = village.happened(PeriodClaimed)
    names = [payment.name.split(" 0x")[0] for payment in miner.daemon.parts.earnings.read()]
    assert "session" in names
    assert claimed.amount > 0
    store = SessionStore(miner.daemon.parts.journal.database)
    assert (store.noted(), store.periods(session_id)) == ([], [])
    assert not village.node.failed


@staged(_village)
async def test_a_prompt_whose_customer_left_before_its_first_voucher_is_right(village: Village) -> None:
    """The item has no output, and nothing is computed for its check."""
    session_id, miner = await seated(village)
    session = village.node.chain.now()[Sessions].sessions[session_id]
    assert session is not None
    terms = SessionTerms(GENESIS_HASH, session_id, session.rate, session.input_share)
    customer = FakeCustomer(0, terms, sign)
    serving = await customer.enter(_Entrance(miner.daemon.duty(SessionDuty), session_id))
    customer.ask(QUESTION)
    store = SessionStore(miner.daemon.parts.journal.database)
    while not store.periods(session_id):
        await village.block()
    customer.hang_up()
    await serving
    await ended(village, session_id)
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert village.happened(CheckerDrawn)
    assert not village.node.failed


@staged(_village)
async def test_an_answer_of_another_model_is_refuted(village: Village) -> None:
    """The customer cannot tell, and the checkers can."""
    village.live_hosts = lambda _hardware, _form, places: SpoilingHost(places=places)
    for miner in village.miners:
        miner.daemon.duty(SessionDuty)._hosts._make = village.live_hosts
    session_id, miner = await seated(village)
    await chat(village, session_id, miner, [QUESTION])
    await ended(village, session_id)
    assert outcomes(village) == [ClaimOutcome.REFUTED]
    payments = miner.daemon.parts.earnings.read()
    assert [payment.name for payment in payments if payment.name.startswith("session")] == []
