"""The devnet of the chats: four validators, three of which sell sessions of the model, and a book of all sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from devnet.proofs.chats import seats
from devnet.proofs.chats.seats import Seat
from devnet.proofs.chats.session_book import SessionBook, SessionTrace
from devnet.stage.actors.model_sale import offer_places
from devnet.stage.measuring import ledger
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.scenario import ProofRun
from genesis import dev_accounts

VALIDATOR_COUNT = 4
SETTLE_BLOCKS = 120
"""The window of a provider that was killed, shorter than a chain's so that the proof ends sooner."""
CHAIN_NUMBERS = {"Sessions.session_settle_blocks": SETTLE_BLOCKS}
CUSTOMER_ACCOUNTS = {CUSTOMER: (dev_accounts.stash(CUSTOMER),)}
FRESH = FreshDevnet(VALIDATOR_COUNT, numbers=CHAIN_NUMBERS, before_start=seats.require_model)


@dataclass(slots=True)
class ChatStage(Stage):
    """A devnet whose providers sell sessions, and the sessions of all parts of the proof."""

    service: int = 0
    book: SessionBook = field(default_factory=SessionBook)
    seats: list[Seat] = field(default_factory=list)
    wealth_before: int = 0
    """The customer's grains before the first session."""

    @property
    def sellers(self) -> list[str]:
        """The providers that sell sessions."""
        return [member.name for member in self.devnet.members[:-1]]

    def offer_places(self, places: Mapping[str, int]) -> None:
        """Let sellers serve so many sessions at once, and the others none."""
        offer_places(self, self.service, seats.ASK_TEXT, {name: places.get(name, 0) for name in self.sellers})

    def open_session(self) -> Seat:
        """Open a session, and wait for its provider."""
        seat = seats.open_session(self)
        self.seats.append(seat)
        spare = f", {seat.spare} stands by" if seat.spare else ""
        self.narrator.line(
            f"session {seat.text[:10]} at {seat.provider}{spare}: {seat.blocks} blocks from the post to the seat, "
            f"{seat.seconds:.1f} s with the program"
        )
        return seat

    def chat_words(self, seat: Seat, tokens: int, temperature: str = "0.7") -> tuple[str, ...]:
        """Return the options of `ogpu chat` in a session."""
        options = ("--key", CUSTOMER_KEY, "--session", seat.text)
        return (self.options.model, *options, "--temperature", temperature, "--max-tokens", str(tokens))

    def close(self, *closing: Seat) -> None:
        """Close sessions as their customer."""
        words = [seat.text for seat in closing]
        self.ogpu("session close", *words, "--key", CUSTOMER_KEY, "--yes", is_shown=False)

    def trace(self, seat: Seat) -> SessionTrace:
        """Return the events of a session up to the newest final block."""
        self.read_on()
        return self.book.sessions.setdefault(seat.session, SessionTrace())

    def read_on(self) -> None:
        """Read the new final blocks. A node keeps events for some hundred blocks."""
        self.ask(lambda chain: ledger.read_on(chain, self.book))


@contextlib.contextmanager
def chat_network(proof_run: ProofRun) -> Iterator[ChatStage]:
    """Run the devnet with the sale of the model during the block."""
    with FRESH.open(proof_run) as fresh:
        stage = ChatStage(fresh.devnet, fresh.narrator, fresh.options)
        stage.service = seats.sell_sessions(stage)
        stage.book.next_height = stage.next_height()
        at_height = stage.book.next_height - 1
        stage.wealth_before = stage.wealth(CUSTOMER_ACCOUNTS, at_height)[CUSTOMER]
        yield stage
