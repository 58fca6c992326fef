"""Both ends of a session's stream over a toy workload that answers a request with its own bytes, one after another."""

from collections.abc import Sequence

from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from gpu_tasks.sessions.customer_end import CustomerEnd
from gpu_tasks.sessions.messages import Ask, Pay, Tokens
from gpu_tasks.sessions.provider_end import Begin, KeepVoucher, ProviderEnd, SendAnswer, SessionTerms, Step, Stop
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

GENESIS, SESSION, SECRET = bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32
TERMS = SessionTerms(GENESIS, SESSION, rate=1_000_000, input_share=500_000)
AMOUNT_MAX = 10**9


class EchoForm:
    """A request is the most tokens of its answer, in a byte, and the answer. Its input costs as many tokens as that."""

    def prefix(self, request: bytes, tokens: Sequence[int]) -> tuple[bytes, bytes]:
        """See `StreamedForm`."""
        if not 1 <= len(tokens) <= request[0]:
            raise DecodeError("tokens of another answer")
        return bytes([len(tokens)]) + request[1:], bytes(tokens)

    def cost_in(self, encoded_request: bytes) -> int:
        """See `StreamedForm`."""
        return len(encoded_request) - 1

    def cost_asked(self, encoded_request: bytes) -> int:
        """See `StreamedForm`."""
        if not encoded_request[0]:
            raise DecodeError("an answer without tokens")
        return encoded_request[0]

    def standard_request(self, seed: bytes, tokens_in: int, tokens_out: int) -> bytes:
        """See `WorkloadForm`."""
        return bytes([tokens_out]) + seed[:tokens_in]

    def continued(self, request: bytes, tokens: Sequence[int]) -> bytes:
        """See `ContinuedForm`."""
        self.prefix(request, tokens)
        if len(tokens) == request[0]:
            raise DecodeError("the answer has ended")
        return bytes([request[0] - len(tokens)]) + request[1 + len(tokens) :]


def asking(answer: bytes) -> bytes:
    """Return the request with this answer."""
    return bytes([len(answer)]) + answer


def signature_of(voucher: Voucher) -> bytes:
    """Return what counts as the signer's signature here."""
    digest = blake2_256(b"signer" + voucher_payload(GENESIS, voucher))
    return digest + digest + b"\0"


def is_signed(voucher: Voucher, signature: bytes) -> bool:
    """Return True for the signature of `signature_of`."""
    return signature == signature_of(voucher)


def provider_end(period: int = 0, amount_max: int = AMOUNT_MAX) -> ProviderEnd:
    """Return the provider's end of a period."""
    return ProviderEnd(TERMS, period, EchoForm(), is_signed, amount_max)


def customer_end(period: int = 0) -> CustomerEnd:
    """Return the customer's end."""
    return CustomerEnd(TERMS, EchoForm(), SECRET, period)


class Pair:
    """Both ends, joined. `received` are the customer's tokens, `kept` the vouchers on the provider's disk."""

    def __init__(self, amount_max: int = AMOUNT_MAX) -> None:
        """Enter the session."""
        self.customer, self.provider = customer_end(), provider_end(amount_max=amount_max)
        self.kept: list[KeepVoucher] = []
        self.received: list[int] = []
        self.open_request: bytes | None = None
        self.enter()

    def enter(self) -> None:
        """Begin a stream, at first or after a break."""
        self.carry_out(self.provider.take(self.customer.hello()))

    def ask(self, answer: bytes) -> None:
        """SendAnswer the request for these tokens, with its voucher."""
        request = asking(answer)
        voucher = self.customer.ask(request)
        self.customer.paid()
        self.carry_out(self.provider.take(Ask(request, voucher.totals, signature_of(voucher))))

    def step(self, count: int) -> None:
        """Let the provider send at most `count` tokens, and the customer pay what is due then."""
        assert self.open_request is not None
        assert self.provider.transcript is not None
        done = self.provider.transcript.place.tokens
        answer = self.open_request[1:]
        tokens = tuple(answer[done : done + min(count, self.provider.allowance)])
        self.carry_out(self.provider.answer(tokens, is_last=done + len(tokens) == len(answer)))

    def finish(self) -> None:
        """Let the provider answer to the end."""
        while self.open_request is not None:
            self.step(7)

    def carry_out(self, steps: list[Step]) -> None:
        """Carry out the provider's steps, and the customer's answers to them."""
        for step in steps:
            match step:
                case KeepVoucher():
                    self.kept.append(step)
                case Begin():
                    self.open_request = step.request
                case Stop():
                    self.open_request = None
                case SendAnswer(message):
                    arrived = self.customer.take(message)
                    self.received += arrived.tokens
                    if isinstance(message, Tokens) and message.is_last:
                        self.open_request = None
                    self.pay()

    def pay(self) -> None:
        """Let the customer pay what is due."""
        voucher = self.customer.due()
        if voucher is not None:
            self.customer.paid()
            self.carry_out(self.provider.take(Pay(voucher.totals, signature_of(voucher))))
