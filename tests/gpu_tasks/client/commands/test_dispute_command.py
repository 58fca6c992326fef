"""Disputes of answers: the bond, and the named or computed request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli import session as of_commands
from error_codes import ended_code, raises_code
from fake_work import FakeForm
from genesis import dev_accounts
from gpu_tasks.client.commands import dispute
from gpu_tasks.client.commands.cancel import RecordedRun
from gpu_tasks.client.commands.dispute import outcomes_of_dispute, require_disputable
from gpu_tasks.client.units.recomputed import first_wrong
from gpu_tasks.client.units.results import PaidOutput, ResultError
from gpu_tasks.client.units.run_record import INPUT, RunPlan
from gpu_tasks.data import market_reads
from gpu_tasks.market.claims.claims import DISPUTES_MAX, Check, ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.findings import Finding, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.workloads.form import outcomes_of
from planted_state import chain_with
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, signed
from task_customer import OF_BOB, ogpu
from unit_cases import WRONG as WRONG_ROOT
from unit_cases import raced
from wallet_runner import answer


def test_how_much_is_computed_is_said_by_the_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    said = dispute.Tenths(40, "segments")
    for done in range(41):
        said(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"note: computed {10 * tenth} % of 40 segments" for tenth in range(11)]


# Answers of a unit that its customer doubts: computed again here, disputed only where they are wrong, with a bond.


GENESIS, UNIT_ID, SALT = blake2_256(b"genesis"), blake2_256(b"unit"), b"s" * 32
ASKED = tuple(b"complete %d" % number for number in range(20))
WRONG_REQUEST = 7
BOB, ALICE = dev_accounts.stash("Bob"), dev_accounts.stash("Alice")
NAME = "0x" + UNIT_ID.hex()
FEE, COLLATERAL = OGPU * 24 // 100, 372 * OGPU // 10


def paid(wrong: int | None = WRONG_REQUEST, count: int = len(ASKED)) -> PaidOutput:
    """Return a provider's answers: each request reversed, and a wrong answer to one."""
    asked = ASKED[:count]
    outputs = [request[::-1] + (b"!" if place == wrong else b"") for place, request in enumerate(asked)]
    return PaidOutput(asked, outcomes_of(FakeForm(), asked, outputs), FakeForm(), SALT)


class Computer:
    """A workload that answers rightly, in no order, and counts."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        self.asked += requests
        return ((place, requests[place][::-1]) for place in reversed(range(len(requests))))


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch) -> Computer:
    found = Computer()
    monkeypatch.setattr(FakeForm, "open", lambda *_: found, raising=False)
    return found


def looked(indices: Sequence[int], found: PaidOutput | None = None) -> int | None:
    return first_wrong(found or paid(), indices, "numpy", lambda _: None)


def test_the_first_answer_that_is_another_one_here_is_wrong(computer: Computer) -> None:
    assert looked(range(20)) == WRONG_REQUEST
    assert computer.asked == list(ASKED)
    assert looked([9, WRONG_REQUEST]) == WRONG_REQUEST


def test_only_the_answer_that_is_named_is_computed(computer: Computer) -> None:
    assert looked([3]) is None
    assert computer.asked == [ASKED[3]]
    assert looked(range(20), paid(None)) is None


def test_what_cannot_be_computed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_code(ResultError, "no_such_request"):
        looked([20])
    with raises_code(ResultError, "unknown_workload"):
        looked([0], replace(paid(), form=None))

    def nothing(*_: object) -> Any:
        raise LookupError("no backend torch-cuda:0")

    monkeypatch.setattr(FakeForm, "open", nothing, raising=False)
    with pytest.raises(ResultError, match=r"torch-cuda:0\b.*--backend"):
        looked([0])


def a_claim(stage: ClaimStage = ClaimStage.DRAWING, items: int = len(ASKED), **changed: Any) -> ResultClaim:
    """Return the claim of Alice's answers for 1 oGPU, of block 0. Its first beacon is of block 17."""
    terms = ClaimTerms(
        InferenceMarket.index, ALICE, BOB, b"r" * 32, items, 640, 640, OGPU, COLLATERAL, 100_000, 240_000,
        OGPU // 1_000, 2 * FEE, 0, 30, (),
    )  # fmt: skip
    return replace(ResultClaim(terms, 90, stage, 0), **changed)


def a_unit(count: int = len(ASKED), **changed: Any) -> Unit:
    terms = UnitTerms(OGPU, 1, bytes(32), bytes(32), 0, 640, count)
    racer = Racer(ALICE, bytes(32), COLLATERAL, bytes(32), 1, Reveal(b"r" * 32, bytes(32), 210, 1))
    unit = Unit(0, BOB, terms, 0, 0, 0, 1, 1, UnitState.CLAIMED, price=OGPU, racers=(racer,), output_root=b"r" * 32)
    return replace(unit, **changed)


CHECK = Check(dev_accounts.stash("Eve"), b"s" * 32, is_second=False, held=COLLATERAL)
OPENED = replace(CHECK, commitment=bytes(32), shown=(), finding=Finding(Verdict.WRONG, 0, ()))


@pytest.mark.parametrize(
    ("unit", "claim", "code"),
    [
        (a_unit(state=UnitState.SETTLED, ended_at=9), None, "claim_over"),
        (a_unit(state=UnitState.REFUNDED, ended_at=9), None, "claim_over"),
        (a_unit(state=UnitState.QUEUED), None, "not_claimed"),
        (a_unit(state=UnitState.RACING), None, "not_claimed"),
        (a_unit(state=UnitState.DISPUTED), None, "dispute_open"),
        (a_unit(), a_claim(ClaimStage.DISPUTED), "dispute_open"),
        (a_unit(), a_claim(ClaimStage.OPENING, checks=(OPENED,)), "check_ends"),
        (a_unit(), a_claim(disputes=DISPUTES_MAX), "too_many_disputes"),
    ],
)
def test_why_nothing_can_be_disputed_now(unit: Unit, claim: ResultClaim | None, code: str) -> None:
    with raises_code(ResultError, code):
        require_disputable(unit, claim)


@pytest.mark.parametrize("stage", [stage for stage in ClaimStage if stage is not ClaimStage.DISPUTED])
def test_an_answer_can_be_disputed_at_every_other_stage_of_its_claim(stage: ClaimStage) -> None:
    claim = a_claim(stage, checks=(CHECK,))
    assert require_disputable(a_unit(), claim) == claim


@pytest.mark.parametrize(
    ("claim", "height", "is_early"),
    [
        (a_claim(), 15, True),
        (a_claim(), 16, False),
        (a_claim(is_second=True), 0, False),
        (a_claim(ClaimStage.COMMITTING), 0, False),
    ],
)
def test_every_outcome_of_a_dispute_is_priced(claim: ResultClaim, height: int, *, is_early: bool) -> None:
    facts = outcomes_of_dispute(claim, height)
    bond, reward = SEATS * FEE + COLLATERAL // 2, COLLATERAL // 2
    assert (facts["bond"], facts["lost_if_right"], facts["price_back_if_wrong"]) == (bond, bond, OGPU)
    assert (facts["reward_if_wrong"], facts["reward_only_before_block"]) == (reward if is_early else 0, 17)


@pytest.mark.parametrize("blocks", [0, 20])
def test_the_chain_takes_that_bond_and_pays_that_reward(blocks: int) -> None:
    chain = MarketChain(named_keys(14))
    unit_id, *_ = raced(chain, {0: WRONG_ROOT, 1: WRONG_ROOT})
    chain.blocks(1 + blocks)
    claim = chain.now()[ResultClaims].claims[unit_id]
    assert claim is not None
    facts = outcomes_of_dispute(claim, chain.height)
    before = chain.now()[Balances].free_balance(CUSTOMER.stash)
    chain.block(signed(CUSTOMER.stash, ResultClaims.dispute(claim=unit_id, index=0)))
    assert before - chain.now()[Balances].free_balance(CUSTOMER.stash) == facts["bond"]
    found = chain.now()[ResultClaims].claims[unit_id]
    assert found is not None
    assert found.is_early == (facts["reward_if_wrong"] > 0)


@pytest.fixture
def url(tmp_path: Path, computer: Computer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A chain on which Bob may dispute a batch."""
    del computer

    async def fetched(*_: object) -> PaidOutput:
        return paid()

    monkeypatch.setattr(dispute, "paid_output", fetched)
    with chain_with(tmp_path, planted_claim()) as found:
        yield found


def planted_claim(count: int = len(ASKED), **changed: Any) -> Callable[[Bound], None]:
    def plant(bound: Bound) -> None:
        bound[InferenceMarket].units[UNIT_ID] = a_unit(count)
        bound[ResultClaims].claims[UNIT_ID] = a_claim(items=count, **changed)

    return plant


def test_a_wrong_answer_is_disputed_with_a_bond_and_a_right_one_is_not(tmp_path: Path, url: str) -> None:
    dry = answer(ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--compute", "--dry-run"))
    assert (dry["request"], dry["bond"]["ogpu"], dry["price_back_if_wrong"]["ogpu"]) == (WRONG_REQUEST, "20.76", "1")
    assert (dry["reward_if_wrong"]["ogpu"], dry["lost_if_right"], dry["refused"]) == ("18.6", dry["bond"], None)
    right = ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--request", "3", "--yes")
    assert ended_code(right) == "answer_right"
    for words in (["--segment", "3"], ["--request", "3", "--compute"], ["--line", "3"]):
        assert ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, *words, "--yes").exit_code == 2
    for words, code in (([], "request_not_named"), (["--request", "20"], "no_such_request")):
        assert ended_code(ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, *words, "--yes")) == code
    done = answer(ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--request", str(WRONG_REQUEST), "--yes"))
    assert (done["success"], done["request"]) == (True, WRONG_REQUEST)
    shown = answer(ogpu(tmp_path, url, "unit", "show", NAME))
    assert (shown["claim"]["stage"], shown["claim"]["disputes"]) == ("disputed", 1)
    assert (shown["dispute"]["question"], shown["dispute"]["request"]) == ("item", WRONG_REQUEST)
    again = ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--compute", "--yes")
    assert ended_code(again) == "dispute_open"


def test_a_unit_with_one_request_needs_no_number(
    tmp_path: Path, computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> PaidOutput:
        return paid(0, count=1)

    monkeypatch.setattr(dispute, "paid_output", fetched)
    with chain_with(tmp_path, planted_claim(1)) as url:
        dry = answer(ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--dry-run"))
    assert (dry["request"], computer.asked) == (0, [ASKED[0]])


def test_a_line_of_a_file_is_disputed_in_its_unit(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, computer: Computer
) -> None:
    source, results = tmp_path / "prompts", tmp_path / "answers"
    source.write_text("".join(f"text {number}\n" for number in range(30)))
    record = {0: bytes(32).hex(), 1: UNIT_ID.hex()}

    class Loads:
        loads = tuple(SimpleNamespace(number=number) for number in range(1, 32) if number != 5)

    plan = RunPlan(
        "ab", "lines", None, "00", {INPUT: str(source)}, 1, str(results), "/errors", 1, [(0, 9), (9, 20), (29, 1)]
    )
    run = SimpleNamespace(plan=plan, posted=record)

    async def planned(*_: object) -> Any:
        return SimpleNamespace(read=Loads)

    monkeypatch.setattr(dispute, "run_named", lambda *_: run)
    monkeypatch.setattr(dispute, "plan_file", planned)
    monkeypatch.setattr(RecordedRun, "wish", None)
    monkeypatch.setattr(RecordedRun, "form", None)
    monkeypatch.setattr(RecordedRun, "buyer", None)
    words = ("unit", "dispute", str(results), *OF_BOB, "--dry-run", "--line")
    # Line 5 is no request, so the second unit begins with line 11.
    dry = answer(ogpu(tmp_path, url, *words, "18"))
    assert (dry["request"], dry["line"], computer.asked) == (WRONG_REQUEST, 18, [ASKED[WRONG_REQUEST]])
    for line, code in (("5", "no_such_line"), ("32", "no_such_line"), ("31", "not_claimed")):
        assert ended_code(ogpu(tmp_path, url, *words, line)) == code
    source.unlink()
    assert ended_code(ogpu(tmp_path, url, *words, "18")) == "run_file_missing"
    assert ogpu(tmp_path, url, "unit", "dispute", str(results), *OF_BOB, "--compute", "--dry-run").exit_code == 2


def test_a_batch_that_is_right_is_said_to_be_and_nothing_is_sent(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disputer that finds no fault has nothing to correct, so no call is sent."""

    async def right(*_: object) -> PaidOutput:
        return paid(None)

    monkeypatch.setattr(dispute, "paid_output", right)
    for words in (["--yes"], ["--dry-run"]):
        found = answer(ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--compute", *words))
        assert (found["computed"], found["agree"], found["sent"]) == (20, 20, False)
        assert dispute.NOTHING_TO_DISPUTE in found["result"]
        assert "call" not in found


def test_while_it_computes_no_node_is_blamed(
    tmp_path: Path, url: str, computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_commands, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(Computer, "run_many", slowly(Computer.run_many))
    found = ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--compute", "--dry-run")
    assert answer(found)["request"] == WRONG_REQUEST
    assert "20 requests on numpy" in found.stderr
    assert computer.asked


def slowly(run: Callable[..., Any]) -> Callable[..., Any]:
    """As `run`, for longer than a command is silent; it blocks, as computing does."""

    def slow(*given: Any) -> Any:
        time.sleep(0.35)
        return run(*given)

    return slow


def test_a_dispute_whose_claim_ends_while_this_machine_computes_is_not_sent(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be refused by the chain, and cost its fee."""
    fetched: list[PaidOutput] = []
    read = market_reads.unit

    async def slow(*_: object) -> PaidOutput:
        fetched.append(paid())
        return fetched[0]

    async def ended_since(*asked: Any) -> Any:
        status = await read(*asked)
        assert status is not None
        ended = replace(status.unit, state=UnitState.SETTLED, ended_at=9)
        return replace(status, unit=ended, claim=None) if fetched else status

    monkeypatch.setattr(dispute, "paid_output", slow)
    monkeypatch.setattr(market_reads, "unit", ended_since)
    said = ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, "--compute", "--dry-run")
    assert (ended_code(said), len(fetched)) == ("claim_over", 1)


def test_a_late_dispute_is_refused_before_anybody_is_asked_or_anything_is_fetched(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> PaidOutput:
        raise AssertionError("fetched in vain")

    read = market_reads.unit

    async def ended(*asked: Any) -> Any:
        status = await read(*asked)
        assert status is not None
        return replace(status, unit=replace(status.unit, state=UnitState.SETTLED, ended_at=9), claim=None)

    monkeypatch.setattr(dispute, "paid_output", fetched)
    monkeypatch.setattr(market_reads, "unit", ended)
    for words in (["--compute"], ["--request", "3"]):
        said = ogpu(tmp_path, url, "unit", "dispute", NAME, *OF_BOB, *words)
        assert (ended_code(said), "--yes" in said.stderr) == ("claim_over", False)
