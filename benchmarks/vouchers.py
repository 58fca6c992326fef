"""CPU time of a session's vouchers and messages at both ends, beside the time in which a model decodes as many tokens.

    Run: MODEL=decoder-int8:smollm2-135m-instruct OPENBLAS_NUM_THREADS=1 python -m benchmarks vouchers

MODEL is the name of a workload with a model of the store, by default the built-in model. PROMPT and ANSWER are numbers
of tokens, 64 and 256 by default. ROUNDS is 5 by default.

An exchange is a request, its answer in messages of one token, and a voucher after each sixteenth token. Both ends
encode, decode, sign, verify and write to their databases as the programs do. The tunnel is left out. CPU time of a
write includes the kernel's part of its sync. The time by the clock of a bare sync is a figure of its own.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.built_in import WORKLOAD
from benchmarks.figures import Figures, Stopwatch, median_figures
from benchmarks.live_decoding import bare_engine, requests
from gpu_tasks.client.sessions.session_store import SessionFile, SessionLeg
from gpu_tasks.market.sessions.vouchers import SECRET_BYTES, Voucher, voucher_payload
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.sessions.served_session import verifier
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.sessions.customer_end import CustomerEnd
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    PROVIDER_MESSAGE,
    UNPAID_TOKENS_MAX,
    Ask,
    CustomerMessage,
    Pay,
    ProviderMessage,
    Tokens,
    framed,
)
from gpu_tasks.sessions.provider_end import Begin, KeepVoucher, ProviderEnd, SendAnswer, SessionTerms
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named
from gpu_tasks.workloads.streamed import streamed
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

SIZES = (("PROMPT", 64), ("ANSWER", 256), ("ROUNDS", 5))
TERMS = SessionTerms(bytes([1]) * 32, bytes([2]) * 32, 10**6, 250_000)
SECRET = bytes(SECRET_BYTES)
AMOUNT_MAX = 10**12
GREATEST_ID = 250
SYNCS, SYNCED_BYTES = 32, 4_096
US, MS = 1e6, 1e3


def measure() -> Figures:
    """Return the medians of the rounds."""
    prompt, answer, rounds = (int(os.environ.get(each, default)) for each, default in SIZES)
    form = form_named(os.environ.get("MODEL", WORKLOAD))
    [request] = requests(prompt, answer, 1)
    workload = streamed(form.open("numpy"))
    found = [_round(form, request, answer, lambda: bare_engine(workload, [request])) for _ in range(rounds)]
    return median_figures(found)


def _round(form: WorkloadForm, request: bytes, answer: int, decode: Callable[[], object]) -> Figures:
    """Measure an exchange with keys of each scheme, and the model's decoding beside it."""
    watch = Stopwatch()
    decode()
    decode_ms = watch.split() * MS * UNPAID_TOKENS_MAX / answer
    figures = {f"decode_ms_per_{UNPAID_TOKENS_MAX}": decode_ms}
    for scheme in Scheme:
        with _pair(form, scheme) as pair:
            pair.exchange(request, answer)
        name, times = scheme.name.lower(), pair.times
        figures |= {
            f"{name}_{step}_us": seconds * US / pair.vouchers
            for step, seconds in (("sign", times.sign), ("verify", times.verify))
        }
        ends = {
            "customer": times.customer + times.sign + times.customer_store,
            "provider": times.provider + times.verify + times.provider_store,
        }
        figures[f"{name}_customer_store_us"] = times.customer_store * US / pair.vouchers
        figures[f"{name}_provider_store_us"] = times.provider_store * US / pair.vouchers
        for end, seconds in ends.items():
            per_limit = seconds * MS * UNPAID_TOKENS_MAX / answer
            figures[f"{name}_{end}_ms_per_{UNPAID_TOKENS_MAX}"] = per_limit
            figures[f"{name}_{end}_percent_of_decode"] = 100 * per_limit / decode_ms
    return {**figures, "sync_clock_ms": _sync_seconds() * MS}


def _sync_seconds() -> float:
    """Return the mean time by the clock in which a page reaches the disk of temporary files."""
    with tempfile.TemporaryFile() as file:
        began = time.perf_counter()
        for _ in range(SYNCS):
            file.write(bytes(SYNCED_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - began) / SYNCS


@dataclass(slots=True)
class _Times:
    """CPU seconds."""

    sign: float = 0.0
    verify: float = 0.0
    customer_store: float = 0.0
    provider_store: float = 0.0
    customer: float = 0.0
    """The customer's messages and totals."""
    provider: float = 0.0
    """The provider's messages and totals."""


class _Pair:
    """Both ends of a session, joined by bytes."""

    def __init__(self, form: WorkloadForm, scheme: Scheme, file: SessionFile, store: SessionStore) -> None:
        self._key = Keypair.from_seed(scheme, bytes([7]) * 32)
        self._is_signed = verifier(TERMS.genesis, self._key.public_key)
        self._form, self._file, self._store = form, file, store
        self._customer = CustomerEnd(TERMS, form, SECRET)
        self._provider = ProviderEnd(TERMS, 0, form, self._verify, AMOUNT_MAX)
        self._watch = Stopwatch()
        self.times, self.vouchers = _Times(), 0

    def exchange(self, request: bytes, answer: int) -> None:
        """Ask a request, and send and pay its answer."""
        self._give(self._customer.hello())
        self._file.begin_turn("", request)
        voucher = self._customer.ask(request)
        self._give(Ask(request, voucher.totals, self._paid(voucher)))
        for place in range(answer):
            [step] = self._provider.answer((place % GREATEST_ID,), is_last=place == answer - 1)
            assert isinstance(step, SendAnswer)
            self._receive(step.message)

    def _give(self, message: CustomerMessage) -> None:
        """Let a message of the customer reach the provider, which carries out its steps."""
        body = framed(CUSTOMER_MESSAGE.encode(message))
        self.times.customer += self._watch.split()
        for step in self._provider.take(CUSTOMER_MESSAGE.decode(body[4:])):
            match step:
                case KeepVoucher():
                    self.times.provider += self._watch.split()
                    assert self._provider.transcript is not None
                    self._store.keep(self._provider.transcript, step)
                    self.times.provider_store += self._watch.split()
                case SendAnswer(answered):
                    self._receive(answered)
                case Begin():
                    pass
                case _:
                    raise AssertionError("nothing stops an answer here")
        self.times.provider += self._watch.split()

    def _receive(self, message: ProviderMessage) -> None:
        """Let a message of the provider reach the customer, which pays what is due."""
        body = framed(PROVIDER_MESSAGE.encode(message))
        self.times.provider += self._watch.split()
        received = PROVIDER_MESSAGE.decode(body[4:])
        self._customer.take(received)
        if isinstance(received, Tokens):
            exchange = self._customer.transcript.exchanges[-1]
            self._form.prefix(exchange.request, exchange.tokens)
        voucher = self._customer.due()
        if voucher is not None:
            self._give(Pay(voucher.totals, self._paid(voucher)))
        self.times.customer += self._watch.split()

    def _paid(self, voucher: Voucher) -> bytes:
        self.times.customer += self._watch.split()
        signature = self._key.sign(voucher_payload(TERMS.genesis, voucher))
        encoded: bytes = MULTI_SIGNATURE.encode(MultiSignature(self._key.scheme, signature))
        self.times.sign += self._watch.split()
        self._file.keep(self._customer.transcript.exchanges, voucher, encoded)
        self._customer.paid()
        self.times.customer_store += self._watch.split()
        self.vouchers += 1
        return encoded

    def _verify(self, voucher: Voucher, signature: bytes) -> bool:
        self.times.provider += self._watch.split()
        is_signed = self._is_signed(voucher, signature)
        self.times.verify += self._watch.split()
        return is_signed


@contextmanager
def _pair(form: WorkloadForm, scheme: Scheme) -> Iterator[_Pair]:
    """Yield both ends with fresh databases."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / JOURNAL_FILE)
        try:
            with SessionFile(Path(folder) / "customer", TERMS.session) as file:
                file.begin_leg(SessionLeg(0, 0, SECRET))
                yield _Pair(form, scheme, file, SessionStore(journal.database))
        finally:
            journal.close()
