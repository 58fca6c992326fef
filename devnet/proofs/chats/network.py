"""The devnet of the chats: four validators, three of which sell sessions of the model, and a ledger of all sessions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from devnet.launcher.folder import DevnetError
from devnet.proofs.chats import sold_sessions
from devnet.proofs.chats.sold_sessions import OpenedSession
from devnet.stage.actors.model_sale import offer_places
from devnet.stage.measuring.ledger import final_blocks
from devnet.stage.measuring.session_ledger import SessionLedger, SessionTrace
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, POLL_SECONDS, STUCK_SECONDS, FreshDevnet, Stage
from devnet.stage.scenario import ProofRun
from genesis import dev_accounts
from wallet.client import ChainClient

VALIDATOR_COUNT = 4
FINAL_BLOCKS = 30
"""The most blocks until the ledger has a session that was opened."""
SETTLE_BLOCKS = 120
"""The window of a provider that was killed, shorter than a chain's so that the proof ends sooner."""
CHAIN_NUMBERS = {"Sessions.session_settle_blocks": SETTLE_BLOCKS}
CUSTOMER_ACCOUNTS = {CUSTOMER: (dev_accounts.stash(CUSTOMER),)}
FRESH = FreshDevnet(VALIDATOR_COUNT, numbers=CHAIN_NUMBERS, before_start=sold_sessions.require_model)


@dataclass(slots=True)
class ChatStage(Stage):
    """A devnet whose providers sell sessions, and the sessions of all parts of the proof."""

    service: int = 0
    ledger: SessionLedger = field(default_factory=SessionLedger)
    next_final: int = 1
    """The first block that the ledger has not read."""
    opened: list[OpenedSession] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """The sessions that each seller serves at once."""
    reading_error: BaseException | None = None
    """The reason why nothing more is read into the ledger."""
    wealth_before: int = 0
    """The customer's grains before the first session."""

    @property
    def sellers(self) -> list[str]:
        """The providers that sell sessions."""
        return [member.name for member in self.devnet.members[:-1]]

    def offer_places(self, places: Mapping[str, int]) -> None:
        """Let sellers serve so many sessions at once, and the others none."""
        wanted = {name: places.get(name, 0) for name in self.sellers}
        changed = {name: count for name, count in wanted.items() if self.places.get(name, 0) != count}
        offer_places(self, self.service, sold_sessions.ASK_TEXT, changed)
        self.places = wanted

    def open_session(self) -> OpenedSession:
        """Open a session, and wait for its provider."""
        seat = sold_sessions.open_session(self)
        self.opened.append(seat)
        self.wait_until("the session is in a final block", lambda: seat.session in self.ledger.sessions, FINAL_BLOCKS)
        spare = f", {seat.spare} stands by" if seat.spare else ""
        self.narrator.line(
            f"session {seat.text[:10]} at {seat.provider}{spare}: {seat.blocks} blocks from the post to the seat, "
            f"{seat.seconds:.1f} s with the program"
        )
        return seat

    def chat_words(self, seat: OpenedSession, tokens: int, temperature: str = "0.7") -> tuple[str, ...]:
        """Return the options of `ogpu chat` in a session."""
        options = ("--key", CUSTOMER_KEY, "--session", seat.text)
        return (self.options.model, *options, "--temperature", temperature, "--max-tokens", str(tokens))

    def close(self, *closing: OpenedSession) -> None:
        """Close sessions as their customer."""
        words = [seat.text for seat in closing]
        self.ogpu("session close", *words, "--key", CUSTOMER_KEY, "--yes", is_shown=False)

    def trace(self, seat: OpenedSession) -> SessionTrace:
        """Return the events of a session, up to about the newest final block."""
        return self.ledger.sessions[seat.session]

    def wait_until(self, what: str, holds: Callable[[], bool], blocks: int) -> None:
        """Wait until a condition on the ledger holds.

        Raise DevnetError if `blocks` more blocks pass without it, or if no block becomes final for STUCK_SECONDS.
        """
        height, last_height, moved_at = self.next_final, self.next_final + blocks, time.monotonic()
        while not holds():
            # Otherwise an error of the ledger would look like a chain that stands still.
            if self.reading_error is not None:
                raise self.reading_error
            if self.next_final > height:
                height, moved_at = self.next_final, time.monotonic()
            if height > last_height or time.monotonic() > moved_at + STUCK_SECONDS:
                raise DevnetError(f"{what} is not so at final block {height - 1}")
            time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def chat_network(proof_run: ProofRun) -> Iterator[ChatStage]:
    """Run the devnet with the sale of the model during the block."""
    with FRESH.open(proof_run) as fresh:
        stage = ChatStage(fresh.devnet, fresh.narrator, fresh.options)
        stage.service = sold_sessions.sell_sessions(stage)
        height = stage.next_height() - 1
        stage.next_final = height + 1
        stage.wealth_before = stage.wealth(CUSTOMER_ACCOUNTS, height)[CUSTOMER]
        with _following(stage):
            yield stage


@contextlib.contextmanager
def _following(stage: ChatStage) -> Iterator[None]:
    """Let a thread read the final blocks into the ledger during the block.

    A node keeps the events of some hundred blocks, and to compute right answers takes longer on a busy machine.
    """
    is_over = threading.Event()

    async def read() -> None:
        async with await ChainClient.connect(stage.url) as chain:
            while not is_over.is_set():
                async for height, block_hash, events in final_blocks(chain, stage.next_final):
                    for event in events:
                        await stage.ledger.take(chain, height, block_hash, event)
                    stage.next_final = height + 1
                await asyncio.sleep(POLL_SECONDS)

    def follow() -> None:
        try:
            asyncio.run(read())
        except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
            stage.reading_error = error

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(STUCK_SECONDS)
    if stage.reading_error is not None:
        raise stage.reading_error
