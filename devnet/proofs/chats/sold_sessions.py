"""Sessions on a devnet: the sale of the model, opened sessions, and their files at the customer."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.network import CUSTOMER_KEY, Stage
from devnet.stage.scenario import ProofRun
from gpu_tasks.client.sessions.session_reads import SessionError, session_of
from gpu_tasks.client.sessions.session_store import ChatTurn, SessionFile
from gpu_tasks.market.sessions.records import SessionRecord
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.workloads.decoder_int8.request import OUTPUT
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named
from wallet.client import ChainClient

MODEL_NAME = "smollm2-135m-instruct"
ASK_TEXT, DEPOSIT_TEXT = "0.01", "2"
PACE = 4
"""Tokens a block of the slowest device."""
INPUT_SHARE = 25
"""The weight of an input token in percent, so that each repeated prompt shows in the amounts."""
TERM = "2h"


def model_form(stage_options_model: str) -> WorkloadForm:
    """Return the form of a model of this machine. Raise DevnetError without the model."""
    try:
        return form_named(f"{DECODER}:{stage_options_model}")
    except LookupError as error:
        raise DevnetError(str(error), code="model_missing") from None


def require_model(proof_run: ProofRun, _: Devnet) -> None:
    """Raise DevnetError, before any process starts, if the model is not on this machine."""
    model_form(proof_run.options.model)


def sell_sessions(stage: Stage) -> int:
    """Let all providers but the last sell sessions of the model. Return the number of the service."""
    names = [member.name for member in stage.devnet.members]
    model = stage.options.model
    sale = ModelSale(
        f"{DECODER}:{model}", model, names[0], names[:-1], pace=PACE, ask=ASK_TEXT, input_share=INPUT_SHARE
    )
    return sell_model(stage, sale)


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session with its provider."""

    session: bytes
    provider: str
    spare: str | None
    seconds: float
    """The duration of `ogpu session open`, from its start to the seat."""
    blocks: int
    """The blocks from the post to the seat."""

    @property
    def text(self) -> str:
        """The id as users type it."""
        return "0x" + self.session.hex()


def open_session(stage: Stage) -> OpenedSession:
    """Open a session of the model, and wait for its provider."""
    began = time.monotonic()
    words = ("--key", CUSTOMER_KEY, "--deposit", DEPOSIT_TEXT, "--term", TERM, "--yes")
    output = stage.ogpu("session open", stage.options.model, *words, is_shown=False)
    seconds = time.monotonic() - began
    # Two records: the outcome of the call, and the seat.
    facts = json.loads("[" + output.replace("}\n{", "},\n{") + "]")[-1]
    session = bytes.fromhex(facts["session"][2:])
    record = record_of(stage, session)
    assert record is not None, "a session with a seat is open"
    leg, spare = record.legs[0], record.spare
    spare_name = None if spare is None else name_of_account(spare.owner)
    return OpenedSession(session, name_of_account(leg.owner), spare_name, seconds, leg.since - record.opened_at)


def record_of(stage: Stage, session: bytes) -> SessionRecord | None:
    """Return a session's record in the newest final block, or None once it is over."""

    async def found(chain: ChainClient) -> SessionRecord | None:
        try:
            return (await session_of(chain, session)).record
        except SessionError:
            return None

    return stage.ask(found)


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session in its customer's file."""

    turns: list[ChatTurn]
    vouchers: list[Voucher]
    """The newest voucher of each period."""

    @property
    def tokens_received(self) -> int:
        """The tokens of all answers."""
        return sum(len(turn.tokens) for turn in self.turns)

    @property
    def tokens_paid(self) -> int:
        """The output tokens that the vouchers pay."""
        return sum(voucher.totals.tokens_out for voucher in self.vouchers)


def kept_session(stage: Stage, session: bytes) -> KeptSession:
    """Return a session in its customer's file."""
    genesis = stage.ask(_genesis)
    folder = stage.devnet.keyring / "sessions" / genesis.hex()
    with SessionFile(folder, session, is_reader=True) as store:
        return KeptSession(store.turns, [voucher for voucher, _ in store.vouchers()])


def tokens_amid_answer(stage: Stage, session: bytes) -> int:
    """Return the known tokens of an answer that a program left unfinished, or 0."""
    try:
        turns = kept_session(stage, session).turns
    except FileNotFoundError:
        return 0
    return len(turns[-1].tokens) if turns and not turns[-1].is_over else 0


async def _genesis(chain: ChainClient) -> bytes:
    return chain.genesis_hash


class OneRun:
    """The answers of one run in this process."""

    def __init__(self, form: WorkloadForm) -> None:
        """Load the model."""
        self._workload = form.open("numpy")

    def tokens(self, request: bytes) -> list[int]:
        """Return the tokens of the whole answer to a request."""
        return list(OUTPUT.decode(self._workload.run(request)).tokens)


def log_file(stage: Stage, name: str) -> Path:
    """Return the file for the notes of a program."""
    return stage.devnet.folder / f"{name}.log"
