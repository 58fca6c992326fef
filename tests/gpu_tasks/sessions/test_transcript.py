"""The transcript of a period: its totals, and the place that totals name."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from echoing_session import GENESIS, SECRET, EchoForm, asking
from gpu_tasks.sessions.transcript import Place, SessionName, Transcript

NAME = SessionName(GENESIS, bytes([9]) * 32, SECRET)
ANSWERS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5)


def _transcript(answers: list[bytes], name: SessionName = NAME) -> Transcript:
    transcript = Transcript(name, EchoForm())
    for answer in answers:
        transcript.ask(asking(answer))
        transcript.answer(tuple(answer), is_last=True)
    return transcript


def _places(answers: list[bytes]) -> list[Place]:
    return [Place(number, tokens) for number, answer in enumerate(answers, 1) for tokens in range(len(answer) + 1)]


@given(ANSWERS)
def test_totals_name_their_place_and_no_other(answers: list[bytes]) -> None:
    """Every token moves the place, and the totals with it."""
    transcript = _transcript(answers)
    places = _places(answers)
    totals = [transcript.totals(place) for place in places]
    assert len(set(totals)) == len(places)
    assert [transcript.place_of(found) for found in totals] == places


@given(ANSWERS, st.data())
def test_a_cut_transcript_equals_one_that_never_went_further(answers: list[bytes], data: st.DataObject) -> None:
    """Its totals too, also after more exchanges."""
    place = data.draw(st.sampled_from(_places(answers)))
    cut = _transcript(answers)
    before = cut.totals(place)
    cut.cut_to(place)
    assert cut.place == place
    assert cut.totals() == before
    short = answers[: place.requests - 1]
    other = _transcript(short)
    other.ask(asking(answers[place.requests - 1]))
    other.answer(tuple(answers[place.requests - 1][: place.tokens]), is_last=True)
    for transcript in (cut, other):
        transcript.ask(asking(b"more"))
        transcript.answer(tuple(b"more"), is_last=True)
    assert cut.totals() == other.totals()


def test_totals_bind_chain_claim_secret_request_and_tokens() -> None:
    """A change of any of them changes the highest hash."""
    tops = {
        _transcript(answers, name).totals().top
        for answers in ([b"ab"], [b"ac"], [b"ab", b"c"])
        for name in (
            NAME,
            replace(NAME, genesis=bytes(32)),
            replace(NAME, claim=bytes(32)),
            replace(NAME, secret=bytes(32)),
        )
    }
    assert len(tops) == 12


def test_an_unanswered_request_is_bound_too() -> None:
    """Two prompts of equal length have different totals before their first token."""
    one, two = Transcript(NAME, EchoForm()), Transcript(NAME, EchoForm())
    one.ask(asking(b"ab"))
    two.ask(asking(b"cd"))
    assert one.totals().top != two.totals().top
    assert one.place_of(two.totals()) is None
