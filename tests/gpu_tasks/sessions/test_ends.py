"""Both ends of a session's stream: payments, limits, breaks, and each message that is out of place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echoing_session import TERMS, Pair, asking, customer_end, provider_end, signature_of
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.sessions.customer_end import PAY_EVERY, SessionFault
from gpu_tasks.sessions.messages import (
    UNPAID_TOKENS_MAX,
    Ask,
    CustomerMessage,
    Cut,
    EnterSession,
    Pay,
    PeriodOver,
    ProviderMessage,
    SessionEntered,
    SessionRefused,
    Tokens,
)
from gpu_tasks.sessions.provider_end import SessionRefusal, Stop
from gpu_tasks.sessions.transcript import ITEMS_MAX, Exchange, Place

QUESTION = bytes(range(100))


def test_a_request_is_answered_and_paid_to_the_token() -> None:
    """The newest voucher has the prompt and all tokens. The provider may then claim."""
    pair = Pair()
    pair.ask(QUESTION)
    assert not pair.provider.is_settled
    pair.finish()
    assert bytes(pair.received) == QUESTION
    totals = pair.kept[-1].voucher.totals
    assert (totals.requests, totals.tokens_in, totals.tokens_out) == (1, 100, 100)
    assert pair.provider.is_settled


def test_the_prompt_is_paid_before_it_is_read() -> None:
    """The first voucher of a request has its input and none of its output."""
    pair = Pair()
    pair.ask(QUESTION)
    totals = pair.kept[0].voucher.totals
    assert (totals.requests, totals.tokens_in, totals.tokens_out) == (1, 100, 0)


def test_the_provider_waits_for_the_voucher_of_sixty_four_tokens() -> None:
    """Without a voucher it sends 64 tokens and no more."""
    provider, customer = provider_end(), customer_end()
    provider.take(customer.hello())
    voucher = customer.ask(asking(QUESTION))
    provider.take(Ask(asking(QUESTION), voucher.totals, signature_of(voucher)))
    assert provider.allowance == UNPAID_TOKENS_MAX
    provider.answer(tuple(QUESTION[:UNPAID_TOKENS_MAX]), is_last=False)
    assert provider.allowance == 0
    with pytest.raises(AssertionError):
        provider.answer((1,), is_last=False)


def test_a_voucher_is_due_after_a_quarter_of_the_limit() -> None:
    """A customer pays at each 16 tokens, and at the end."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(PAY_EVERY - 1)
    assert len(pair.kept) == 1
    pair.step(1)
    assert len(pair.kept) == 2


def test_a_cut_answer_is_paid_as_far_as_it_came() -> None:
    """The provider stops. The item is the request cut to its tokens."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(5)
    pair.carry_out(pair.provider.take(Cut()))
    totals = pair.kept[-1].voucher.totals
    assert (totals.tokens_in, totals.tokens_out) == (100, 5)
    assert pair.provider.is_settled
    assert pair.provider.take(Cut()) == [], "a cut after the end changes nothing"


def test_both_ends_go_on_after_a_break_from_the_provider_s_newest_voucher() -> None:
    """Tokens that the customer did not get are forgotten at the next request, and nobody owes them."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(PAY_EVERY)
    pair.provider.answer(tuple(QUESTION[PAY_EVERY : PAY_EVERY + 9]), is_last=False)  # lost on the way
    steps = pair.provider.take(pair.customer.hello())
    assert isinstance(steps[0], Stop)
    pair.carry_out(steps)
    assert pair.customer.transcript.place == Place(1, PAY_EVERY)
    assert pair.provider.is_settled
    pair.ask(QUESTION[PAY_EVERY:])
    assert pair.provider.transcript is not None
    assert [len(each.tokens) for each in pair.provider.transcript.exchanges] == [PAY_EVERY, 0]
    pair.finish()
    assert bytes(pair.received) == QUESTION


@pytest.mark.parametrize("arrived", [1, 9, PAY_EVERY - 1])
def test_tokens_that_arrived_before_a_break_are_paid_at_the_entry(arrived: int) -> None:
    """The provider has them still. It gets nothing for later ones."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(PAY_EVERY)
    pair.step(arrived)
    pair.provider.answer(tuple(QUESTION[PAY_EVERY + arrived : 40]), is_last=False)  # lost on the way
    pair.enter()
    assert pair.kept[-1].voucher.totals.tokens_out == PAY_EVERY + arrived
    assert pair.provider.is_settled


def test_a_voucher_that_was_kept_and_not_sent_is_sent_at_the_next_entry() -> None:
    """A provider that has lost the tokens names none, and gets nothing for them."""
    pair = Pair()
    answer = QUESTION[:50]
    pair.ask(answer)
    message = Tokens(tuple(answer), is_last=True)
    pair.provider.answer(message.tokens, is_last=True)
    pair.customer.take(message)
    assert pair.customer.due() is not None
    pair.customer.paid()  # on its disk, and the process is killed
    exchanges = pair.customer.transcript.exchanges
    again = pair.customer
    for unpaid, paid in ((0, 0), (len(answer), len(answer))):
        again = customer_end()
        again.resume([Exchange(each.request, list(each.tokens)) for each in exchanges])
        again.take(SessionEntered(0, pair.kept[0].voucher.totals, unpaid))
        assert again.transcript.place == Place(1, paid)
        assert (again.due() is None) == (not unpaid)
    pair.customer = again
    pair.enter()
    assert pair.kept[-1].voucher.totals.tokens_out == len(answer)
    pair.ask(QUESTION)


def test_a_customer_accepts_a_provider_that_missed_its_last_voucher() -> None:
    """The provider's older voucher is one of the customer's own."""
    pair = Pair()
    pair.ask(QUESTION)
    older = pair.kept[-1].voucher.totals
    pair.finish()
    assert pair.customer.take(SessionEntered(0, older)).tokens == ()
    assert pair.customer.transcript.place == Place(1, 0)


def test_a_provider_goes_on_from_its_disk() -> None:
    """A new process has the transcript up to its newest voucher."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(PAY_EVERY)
    again = provider_end()
    assert pair.provider.transcript is not None
    again.resume(pair.provider.transcript, pair.kept[-1])
    pair.provider = again
    pair.enter()
    pair.ask(QUESTION[PAY_EVERY:])
    pair.finish()
    assert bytes(pair.received) == QUESTION


def test_a_period_ends_between_two_requests() -> None:
    """Both ends start the next period without exchanges."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.finish()
    pair.provider = provider_end(period=1)
    pair.customer.take(PeriodOver(0))
    pair.enter()
    pair.ask(QUESTION)
    assert pair.kept[-1].voucher.period == 1
    assert pair.kept[-1].voucher.totals.requests == 1


def test_a_customer_follows_into_a_period_that_began_during_a_break() -> None:
    """The provider names the next period, without a voucher."""
    customer = customer_end()
    customer.take(SessionEntered(1, None))
    assert customer.period == 1


def test_a_customer_goes_on_from_its_disk() -> None:
    """A new process has the exchanges up to its newest voucher. The provider may have missed that voucher."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(PAY_EVERY)
    exchanges, newest = pair.customer.transcript.exchanges, pair.kept[-1].voucher.totals
    for totals, tokens in ((newest, PAY_EVERY), (pair.kept[0].voucher.totals, 0)):
        again = customer_end()
        again.resume([Exchange(each.request, list(each.tokens)) for each in exchanges])
        again.take(SessionEntered(0, totals))
        assert again.transcript.place == Place(1, tokens)
        assert again.due() is None
        assert again.ask(asking(QUESTION)).totals.requests == 2


def _entered(*, amount_max: int = 10**9) -> Pair:
    pair = Pair(amount_max=amount_max)
    pair.ask(QUESTION)
    pair.step(20)
    return pair


def _paying(pair: Pair, **changes: int) -> Pay:
    totals = replace(pair.provider.transcript.totals(), **changes)  # type: ignore[union-attr]
    return Pay(totals, bytes(65))


def _paying_by(pair: Pair, **changes: Any) -> Pay:
    """Return a payment of all tokens with the signature of another voucher."""
    totals = pair.provider.transcript.totals()  # type: ignore[union-attr]
    return Pay(totals, signature_of(replace(Voucher(TERMS.session, 0, totals), **changes)))


def _question(totals: Totals) -> Ask:
    return Ask(b"", totals, bytes(65))


ANY_TOTALS = Totals(1, 1, 1, bytes(32))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (lambda _: Ask(QUESTION, ANY_TOTALS, bytes(65)), "answering"),
        (lambda _: EnterSession(bytes(32), 0), "other_secret"),
        (lambda pair: Pay(pair.kept[-1].voucher.totals, pair.kept[-1].signature), "smaller_voucher"),
        (lambda pair: Pay(pair.kept[0].voucher.totals, pair.kept[0].signature), "smaller_voucher"),
        (lambda pair: _paying(pair, tokens_out=22), "unknown_totals"),
        (lambda pair: _paying(pair, tokens_in=1), "unknown_totals"),
        (lambda pair: _paying(pair, requests=2), "unknown_totals"),
        (lambda pair: _paying(pair, requests=0), "unknown_totals"),
        (lambda pair: _paying(pair, tokens_out=2**64 - 1), "unknown_totals"),
        (lambda pair: _paying(pair, tokens_in=2**64 - 1), "unknown_totals"),
        (_paying, "wrong_signature"),
        (lambda pair: _paying_by(pair, session=bytes(32)), "wrong_signature"),
        (lambda pair: _paying_by(pair, period=1), "wrong_signature"),
        (lambda pair: _paying_by(pair, totals=ANY_TOTALS), "wrong_signature"),
    ],
)
def test_a_message_out_of_place_is_refused_and_changes_nothing(
    message: Callable[[Pair], CustomerMessage], code: str
) -> None:
    """Each has its code."""
    pair = _entered()
    pair.provider.answer(tuple(QUESTION[20:21]), is_last=False)
    before = (pair.provider.transcript.place, pair.provider.newest, pair.provider.allowance)  # type: ignore[union-attr]
    with pytest.raises(SessionRefusal) as refused:
        pair.provider.take(message(pair))
    assert refused.value.code == code
    assert (pair.provider.transcript.place, pair.provider.newest, pair.provider.allowance) == before  # type: ignore[union-attr]


@pytest.mark.parametrize("message", [Pay(ANY_TOTALS, bytes(65)), Cut(), _question(ANY_TOTALS)])
def test_the_first_message_is_a_hello(message: CustomerMessage) -> None:
    """Nothing else is taken before it."""
    with pytest.raises(SessionRefusal) as refused:
        provider_end().take(message)
    assert refused.value.code == "unexpected_message"


def _refusal(pair: Pair, answer: bytes) -> str:
    with pytest.raises(SessionRefusal) as refused:
        pair.ask(answer)
    assert not refused.value.is_final
    with pytest.raises(SessionRefusal):
        pair.customer.take(SessionRefused(refused.value.code, ""))
    return refused.value.code


def test_a_request_that_may_cost_more_than_the_session_has_is_refused_before_its_prompt() -> None:
    """The limit counts what the period has used: 100 tokens in at half a price and 100 out cost 150,000 grains."""
    pair = Pair(amount_max=299_999)
    pair.ask(QUESTION)
    pair.finish()
    assert _refusal(pair, QUESTION) == "deposit_spent"
    pair.ask(QUESTION[:99])
    pair.finish()
    assert pair.provider.is_settled
    exact = Pair(amount_max=150_000)
    exact.ask(QUESTION)
    exact.finish()


def test_a_request_that_the_workload_cannot_read_is_refused() -> None:
    """Both ends go on afterwards."""
    pair = Pair()
    assert _refusal(pair, b"") == "bad_request"
    pair.ask(QUESTION)
    pair.finish()
    assert bytes(pair.received) == QUESTION


def test_a_request_without_the_payment_of_the_last_answer_is_refused() -> None:
    """The customer's own end does not ask before it pays, so this one is forged."""
    provider, customer = provider_end(), customer_end()
    provider.take(customer.hello())
    voucher = customer.ask(asking(b"ab"))
    provider.take(Ask(asking(b"ab"), voucher.totals, signature_of(voucher)))
    provider.answer(tuple(b"ab"), is_last=True)
    with pytest.raises(SessionRefusal) as refused:
        provider.take(Ask(asking(b"c"), ANY_TOTALS, bytes(65)))
    assert refused.value.code == "unpaid"


def test_a_period_has_a_greatest_number_of_requests() -> None:
    """The provider ends it then."""
    pair = Pair()
    for _ in range(ITEMS_MAX):
        pair.ask(b"a")
        pair.finish()
    assert _refusal(pair, b"a") == "period_full"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (SessionEntered(2, None), "other_period"),
        (SessionEntered(1, ANY_TOTALS), "other_period"),
        (SessionEntered(0, ANY_TOTALS), "unknown_totals"),
        (Tokens((1,), is_last=False), "not_asked"),
        (PeriodOver(1), "other_period"),
    ],
)
def test_a_provider_that_breaks_the_protocol_is_left(message: ProviderMessage, code: str) -> None:
    """Each fault has its code."""
    with pytest.raises(SessionFault) as fault:
        customer_end().take(message)
    assert fault.value.code == code


def test_a_provider_that_sends_too_many_tokens_is_left() -> None:
    """The customer pays none of them."""
    customer = customer_end()
    customer.ask(asking(QUESTION))
    customer.paid()
    customer.take(Tokens(tuple(QUESTION[:UNPAID_TOKENS_MAX]), is_last=False))
    with pytest.raises(SessionFault) as fault:
        customer.take(Tokens((1,), is_last=False))
    assert fault.value.code == "too_many_tokens"


def test_a_customer_that_comes_back_for_each_answer_gets_few_tokens_unpaid() -> None:
    """It pays the prompts alone, and says each time that no token arrived. Each paid token gives a sixteenth back."""
    pair = Pair()
    for _ in range(2):
        _ask_and_take_all_unpaid(pair)
    assert _refusal(pair, bytes(200)) == "unpaid"
    pair = Pair()
    for _ in range(16):
        pair.ask(bytes(64))
        pair.finish()
    for _ in range(3):
        _ask_and_take_all_unpaid(pair)
    assert _refusal(pair, bytes(200)) == "unpaid"


def _ask_and_take_all_unpaid(pair: Pair) -> None:
    request = asking(bytes(200))
    voucher = pair.customer.ask(request)
    pair.customer.paid()
    pair.provider.take(Ask(request, voucher.totals, signature_of(voucher)))
    pair.provider.answer(bytes_of(UNPAID_TOKENS_MAX), is_last=False)
    pair.enter()


def bytes_of(count: int) -> tuple[int, ...]:
    """Return tokens of an answer."""
    return (0,) * count


def test_a_provider_that_sends_no_tokens_amid_an_answer_is_left() -> None:
    """Such messages would keep the customer busy, and its patience would never end."""
    customer = customer_end()
    customer.ask(asking(QUESTION))
    customer.paid()
    with pytest.raises(SessionFault) as fault:
        customer.take(Tokens((), is_last=False))
    assert fault.value.code == "no_tokens"
    assert customer.take(Tokens((), is_last=True)).is_last


@given(st.data())
def test_any_conversation_with_breaks_is_answered_once_and_paid_in_order(data: st.DataObject) -> None:
    """Vouchers only grow, unpaid tokens stay within the limit, and both ends agree after each break."""
    pair = Pair()
    for _ in range(data.draw(st.integers(1, 6))):
        request = data.draw(st.binary(min_size=1, max_size=120))
        start = len(pair.received)
        pair.ask(request)
        while pair.open_request is not None:
            action = data.draw(st.sampled_from(["step", "step", "break", "cut"]))
            if action == "step":
                pair.step(data.draw(st.integers(1, 70)))
            elif action == "cut":
                pair.carry_out(pair.provider.take(Cut()))
            else:
                pair.open_request = None
                pair.enter()
            assert pair.provider.allowance <= UNPAID_TOKENS_MAX
        assert request.startswith(bytes(pair.received[start:]))
        pair.pay()
        if not pair.provider.is_settled:
            pair.enter()
        assert pair.provider.transcript is not None
        assert pair.customer.transcript.exchanges == pair.provider.transcript.exchanges
    amounts = [TERMS.amount(keep.voucher.totals) for keep in pair.kept]
    assert amounts == sorted(amounts)


def test_a_request_that_crosses_the_end_of_a_period_is_asked_again() -> None:
    """The customer is in the next period then."""
    customer = customer_end()
    customer.ask(asking(QUESTION))
    with pytest.raises(SessionRefusal) as refused:
        customer.take(PeriodOver(0))
    assert (refused.value.code, refused.value.is_final, customer.period) == ("period_over", False, 1)
    assert not customer.transcript.exchanges


def test_a_period_may_end_during_a_break_amid_an_answer() -> None:
    """The customer goes on in the next period."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(5)
    pair.customer.take(SessionEntered(1, None))
    assert (pair.customer.period, pair.customer.transcript.exchanges) == (1, [])


def test_a_provider_cannot_end_a_period_amid_an_answer() -> None:
    """The tokens of one answer are never in two periods."""
    pair = Pair()
    pair.ask(QUESTION)
    pair.step(5)
    with pytest.raises(SessionFault) as fault:
        pair.customer.take(PeriodOver(0))
    assert fault.value.code == "other_period"
