"""A reader's treatment of a broker's messages: each lie alone, and any order of true messages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.telemetry import ledger as ledger_module
from gpu_tasks.telemetry.envelope import Channel, ProviderSubject, TaskSubject, TelemetryTopics
from gpu_tasks.telemetry.ledger import LATE_MS, NOT_ITS, HeardMessage, MessageFault, TelemetryLedger, UnknownTellerError
from gpu_tasks.telemetry.notes import NOTE, PresenceNote
from runtime.cryptography.signatures import Scheme
from telemetry_senders import CUSTOMER, GENESIS, SOMETHING, STASH, TASK, Teller
from wallet.keypair import Keypair

NOW_MS = 2_500
TELLER = Teller()


def ledger(**owners: bytes | None) -> TelemetryLedger:
    known: dict[bytes, bytes | None] = {TELLER.key.public_key: STASH}
    known |= {bytes.fromhex(name.removeprefix("k")): owner for name, owner in owners.items()}
    return TelemetryLedger(TelemetryTopics(GENESIS), known)


def heard(book: TelemetryLedger, told: tuple[str, bytes], *, now_ms: int = NOW_MS, kept: bool = False) -> HeardMessage:
    found = book.take(*told, STASH, now_ms, is_retained=kept)
    assert found is not None
    return found


def problem(book: TelemetryLedger, told: tuple[str, bytes]) -> str:
    found = heard(book, told)
    assert found.message is None
    assert found.problem is not None
    return found.problem


def test_what_is_told_is_heard_once() -> None:
    book, told = ledger(), TELLER.told(1)
    message = heard(book, told).message
    assert message is not None
    assert message == TELLER.message(1, payload=message.payload)  # a sealed payload is another at each sealing
    assert NOTE.decode(CUSTOMER.open_note(message.payload)) == SOMETHING
    assert book.take(*told, STASH, NOW_MS) is None


def test_what_is_left_out_is_missing() -> None:
    book = ledger()
    assert heard(book, TELLER.told(3)).missing == 0  # a later reader missed nothing meant for it
    assert heard(book, TELLER.told(4)).missing == 0
    assert heard(book, TELLER.told(7)).missing == 2


def test_what_was_told_behind_a_kept_message_and_before_somebody_listened_is_not_missing() -> None:
    book = ledger()
    heard(book, TELLER.told(3), kept=True)
    assert heard(book, TELLER.told(8)).missing == 0  # beats between them were not kept
    assert heard(book, TELLER.told(10)).missing == 1


def test_what_is_called_kept_later_on_hides_nothing() -> None:
    book = ledger()
    heard(book, TELLER.told(3), kept=True)
    assert heard(book, TELLER.told(8), kept=True).missing == 0
    assert heard(book, TELLER.told(11), kept=True).missing == 2


def test_channels_and_subjects_are_counted_apart() -> None:
    book = ledger()
    heard(book, TELLER.told(5))
    assert heard(book, TELLER.told(1, channel=Channel.METRICS)).missing == 0
    assert heard(book, TELLER.told(1, subject=TaskSubject(TASK, 1))).missing == 0
    assert heard(book, TELLER.told(6)).missing == 0


def test_what_was_told_before_is_replayed() -> None:
    book = ledger()
    first, second = TELLER.told(1), TELLER.told(2)
    heard(book, first)
    heard(book, second)
    assert re.findall("[a-z]+(?=:)|[0-9]+", problem(book, first)) == ["replayed", "1", "2"]


def test_a_later_session_begins_anew_and_ends_the_earlier_one() -> None:
    book = ledger()
    heard(book, TELLER.told(9))
    assert heard(book, TELLER.told(1, session=1_001)).missing == 0
    assert problem(book, TELLER.told(10)).startswith("replayed")


def test_what_the_provider_threw_away_is_said() -> None:
    assert heard(ledger(), TELLER.told(1, dropped=7)).dropped == 7


@pytest.mark.parametrize(("late", "said"), [(LATE_MS, 0), (LATE_MS + 1, LATE_MS + 1)])
def test_what_comes_late_is_said_unless_it_was_kept(late: int, said: int) -> None:
    assert heard(ledger(), TELLER.told(1), now_ms=2_000 + late).late_ms == said
    assert heard(ledger(), TELLER.told(1), now_ms=2_000 + late, kept=True).late_ms == 0


def test_who_calls_everything_kept_is_late_all_the_same() -> None:
    """A broker keeps one message of a channel, so one delivered an hour later was held back."""
    book, later = ledger(), 2_000 + LATE_MS + 1
    book.subscribed()
    assert heard(book, TELLER.told(1), now_ms=later, kept=True).late_ms == 0
    assert heard(book, TELLER.told(2), now_ms=later, kept=True).late_ms == LATE_MS + 1
    assert heard(book, TELLER.told(1, channel=Channel.LOG), now_ms=later, kept=True).late_ms == 0
    book.subscribed()  # a returning reader gets the kept messages
    assert heard(book, TELLER.told(5), now_ms=later, kept=True).late_ms == 0
    book.subscribed()
    assert book.take(*TELLER.told(5), STASH, later, is_retained=True) is None
    assert heard(book, TELLER.told(6), now_ms=later, kept=True).late_ms == LATE_MS + 1


def test_a_flipped_bit_is_forged() -> None:
    topic, raw = TELLER.told(1)
    for place in range(0, len(raw), 7):
        assert problem(ledger(), (topic, raw[:place] + bytes((raw[place] ^ 1,)) + raw[place + 1 :])).startswith(
            "forged"
        )
    assert problem(ledger(), (topic, raw[:-1])).startswith("forged")
    assert problem(ledger(), (topic, raw + b"\0")).startswith("forged")
    assert problem(ledger(), (topic, bytes(1 << 20))).startswith("forged: 1,048,576 bytes")


def test_another_topic_is_forged() -> None:
    _, raw = TELLER.told(1)
    for subject, channel in ((TaskSubject(TASK, 1), Channel.STATUS), (TaskSubject(TASK, 0), Channel.LOG)):
        topic = TelemetryTopics(GENESIS).of(subject, channel)
        assert problem(ledger(), (topic, raw)).endswith("another topic")


def test_another_chain_is_forged() -> None:
    """A topic has only the beginning of the genesis hash. The rest is under the signature."""
    other = GENESIS[:8] + b"h" * 24
    assert problem(ledger(), Teller(genesis=other).told(1)) == "forged: wrong signature"


def test_another_version_is_none() -> None:
    assert problem(ledger(), TELLER.told(1, version=2)) == "forged: unknown version 2"


def test_another_providers_word_is_forged() -> None:
    stranger = Teller(key=Keypair.from_seed(Scheme.ED25519, b"q" * 32))
    with pytest.raises(UnknownTellerError) as found:
        ledger().take(*stranger.told(1), STASH, NOW_MS)
    assert found.value.provider_key == stranger.key.public_key
    name = f"k{stranger.key.public_key.hex()}"
    assert problem(ledger(**{name: b"o" * 32}), stranger.told(1)) == NOT_ITS.problem
    assert problem(ledger(**{name: None}), stranger.told(1)) == NOT_ITS.problem
    assert ledger().take(*TELLER.told(1), None, NOW_MS) == NOT_ITS


def test_nobody_speaks_of_another_providers_presence() -> None:
    subject = ProviderSubject(b"o" * 32)
    told = Teller(subject=subject, reader=None).told(1, PresenceNote(is_here=True))
    assert problem(ledger(), told) == NOT_ITS.problem


def test_channels_beyond_a_number_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "CHANNELS_MAX", 1)
    book = ledger()
    heard(book, TELLER.told(1))
    topic, raw = TELLER.told(1, channel=Channel.LOG)
    ignored = book.take(topic, raw, STASH, NOW_MS)
    assert ignored is not None
    assert ignored.fault is MessageFault.IGNORED
    heard(book, TELLER.told(2))


def test_the_newest_number_is_of_this_session() -> None:
    book = ledger()
    heard(book, TELLER.told(4))
    where = (TELLER.key.public_key, TaskSubject(TASK, 0))
    assert book.newest(*where, Channel.STATUS, 1_000) == 4
    assert book.newest(*where, Channel.STATUS, 999) == 0
    assert book.newest(*where, Channel.LOG, 1_000) == 0


MESSAGES = {number: TELLER.told(number) for number in range(1, 9)}


@given(st.lists(st.integers(1, 8), max_size=30))
def test_in_any_order_each_counts_once_and_what_is_missing_adds_up(numbers: list[int]) -> None:
    book, counted, missing, first = ledger(), [], 0, 0
    for number in numbers:
        found = book.take(*MESSAGES[number], STASH, NOW_MS)
        if found is not None and found.message is not None:
            first = first or number
            counted.append(number)
            missing += found.missing
    assert counted == sorted(set(counted))
    if counted:
        assert missing == counted[-1] - first + 1 - len(counted)
