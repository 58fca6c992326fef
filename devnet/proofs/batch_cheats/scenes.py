"""What is tried: lies of who answers, auditors that pass without a look, a customer that disputes what is right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from devnet.proofs.cheating.__main__ import HIDING, LAZY, LIES


class BatchCustomer(Enum):
    """What the customer does when it may dispute a leaf."""

    SILENT = auto()
    LOOKS = auto()
    """Disputes a leaf that is wrong, with `ogpu dispute`."""
    LIES = auto()
    """Calls a right leaf wrong."""


@dataclass(frozen=True, slots=True)
class BatchScene:
    """One batch, and who does what about it."""

    name: str
    title: str
    mode: str | None
    """Of the daemons that answer; None where they are honest."""
    customer: BatchCustomer = BatchCustomer.SILENT
    racers: int = 1
    others: str | None = None
    """The mode of all other daemons, which audit and judge."""

    @property
    def hides(self) -> bool:
        """Whether who answers shows no leaf."""
        return self.mode == HIDING

    @property
    def are_lazy(self) -> bool:
        """Whether auditors pass without a look."""
        return self.others == LAZY

    @property
    def is_true(self) -> bool:
        """Whether the answers are right."""
        return self.mode not in LIES


_LOOKS = BatchCustomer.LOOKS
SCENES = (
    BatchScene("one-wrong", "one answer is wrong", "one-wrong", _LOOKS),
    BatchScene("a-tenth-wrong", "a tenth of the answers is wrong", "a-tenth-wrong", _LOOKS),
    BatchScene("all-wrong", "all answers are wrong", "all-wrong", _LOOKS),
    BatchScene("made-up-sums", "totals that no leaves have", "made-up-sums"),
    BatchScene("made-up-tokens", "tokens beside a right leaf that has them not", "made-up-tokens"),
    BatchScene("padded", "answers that go on to all that is paid for", "padded", _LOOKS),
    BatchScene("cut-short", "half of each answer", "cut-short", _LOOKS),
    BatchScene("false-errors", "a fifth of good requests are said to be none", "false-errors", _LOOKS),
    BatchScene("withheld-leaves", "all answers are wrong, and no leaf is shown", HIDING),
    BatchScene("false-dispute", "the customer calls a right answer wrong", None, BatchCustomer.LIES),
    BatchScene("colluding-pair", "two give the same wrong answers", "all-wrong", _LOOKS, racers=2),
    BatchScene("lazy-about-wrong", "all answers are wrong, auditors pass all", "all-wrong", _LOOKS, others=LAZY),
    BatchScene("lazy-about-right", "answers are right, auditors do not look", LAZY, others=LAZY),
)
