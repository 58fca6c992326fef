"""What was found out about a block's extrinsics before its turn came, as whoever executes it takes it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from runtime.cryptography.signatures import VerifySignature
from runtime.execution.executive import DecodeExtrinsic


class OnTheirWay(Protocol):
    """Verdicts of workers, of which some are missing."""

    missing: int

    async def wait(self) -> object:
        """Until none is missing; for ever, where a worker died over them."""


class Foreseen(NamedTuple):
    """`verify` and `decode` give what the plain ones give.

    `verify` itself checks a signature whose verdict is still on its way.
    """

    verify: VerifySignature
    decode: DecodeExtrinsic
    verdicts: OnTheirWay
