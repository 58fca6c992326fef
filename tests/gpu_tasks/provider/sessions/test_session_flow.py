"""Sessions by daemons on the real pallets: drawn, served, claimed, checked by other daemons, and paid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from claiming_village import outcomes
from echoing_session import EchoForm
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.market.claims.claim_events import CheckerDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.events import PeriodClaimed, PlacePaid
from gpu_tasks.market.sessions.records import SPARE_PERIOD, SessionState, spare_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.spares import PROOF_TOKENS_IN, PROOF_TOKENS_OUT
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
from runtime.pallets.staking.slashing import part
from session_chain import ALWAYS, SessionChain, signature_of
from session_streams import FakeCustomer, FakeStream
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, named_keys, signed
from staged import staged

QUESTION = bytes(range(100))
BLOCKS_MAX = 150
FEE_PPM = InferenceMarket.settlement_fee.default


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
    while miner.daemon.duty(SessionDuty).find(session_id) is None or not chain.session(session_id).spare.claimed:
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
    assert outcomes(village) == [ClaimOutcome.PASSED] * 2
    assert village.happened(CheckerDrawn)
    proof, claimed = village.happened(PeriodClaimed)
    assert (proof.period, claimed.period) == (SPARE_PERIOD, 0)
    assert claimed.amount > 0
    [spared] = [paid for paid in village.happened(PlacePaid) if paid.owner == proof.owner]
    spare = village.miner(proof.owner)
    assert "session" in [payment.name.split(" 0x")[0] for payment in miner.daemon.parts.earnings.read()]
    parts = [payment for payment in spare.daemon.parts.earnings.read() if payment.name.startswith("session spare")]
    got = sum(payment.grains for payment in parts)
    assert got == sum(amount - part(amount, FEE_PPM) for amount in (proof.amount, spared.amount))
    for party in (miner, spare):
        store = SessionStore(party.daemon.parts.journal.database)
        assert (store.noted(), store.periods(session_id), store.period(session_id, SPARE_PERIOD)) == ([], [], None)
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
    assert outcomes(village) == [ClaimOutcome.PASSED] * 2
    assert village.happened(CheckerDrawn)
    assert not village.node.failed


@staged(_village)
async def test_an_answer_of_another_model_is_refuted(village: Village) -> None:
    """The customer cannot tell, and the checkers can."""
    village.live_hosts = lambda _hardware, _form, places: SpoilingHost(places=places)
    for miner in village.miners:
        miner.daemon.duty(SessionDuty).hosts.make = village.live_hosts
    session_id, miner = await seated(village)
    await chat(village, session_id, miner, [QUESTION])
    await ended(village, session_id)
    assert outcomes(village) == [ClaimOutcome.REFUTED] * 2
    for party in village.miners:
        payments = party.daemon.parts.earnings.read()
        assert [payment.name for payment in payments if payment.name.startswith("session")] == []


class OtherRequestForm(StreamedFakeForm):
    """A dishonest spare's form: it answers a request of its own choice."""

    def standard_request(self, seed: bytes, tokens_in: int, tokens_out: int) -> bytes:
        """See `WorkloadForm`."""
        return bytes([tokens_out]) + bytes(tokens_in)


class SameAnswerForm(StreamedFakeForm):
    """A dishonest spare's form: its request has another ending, and the right answer."""

    def standard_request(self, seed: bytes, tokens_in: int, tokens_out: int) -> bytes:
        """See `WorkloadForm`."""
        return super().standard_request(seed, tokens_in, tokens_out)[:-1] + b"?"


@staged(_village)
@pytest.mark.parametrize("form", [OtherRequestForm, SameAnswerForm])
async def test_a_spare_that_answers_another_request_is_refuted(
    village: Village, form: type[StreamedFakeForm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right answer to it does not help. The spare is out, and its device halts."""
    monkeypatch.setattr(
        "gpu_tasks.provider.sessions.spare_proofs.standard_request",
        lambda _, seed: form().standard_request(seed, PROOF_TOKENS_IN, PROOF_TOKENS_OUT),
    )
    session_id, _ = await seated(village)
    spare = village.node.chain.now()[Sessions].session(session_id).spare
    assert spare is not None
    for _ in range(BLOCKS_MAX):
        await village.block()
        if outcomes(village):
            break
    assert outcomes(village) == [ClaimOutcome.REFUTED]
    assert spare_of(village.node.chain.now()[Sessions].session(session_id)) is None
    device = village.node.chain.now()[Devices].devices[spare.device]
    assert device is not None
    assert device.is_paused
