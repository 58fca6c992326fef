"""Wall time of epochs and blocks, estimated from a final block and the pace of the blocks before it.

An epoch counts blocks, and a slot may stay empty, so each date is shown with "about". Invariants: all reads are of
final blocks, and dates are UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runtime.frame.runtime import constant_value
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import format_duration
from wallet.answers import U32_MAX
from wallet.client import ChainClient
from wallet.rpc import RpcError

PACE_BLOCKS = 48
"""Blocks over which the pace is measured. A node keeps the states of this many past blocks."""
YEAR_MS = 31_557_600_000
"""365.25 days."""
DATE_FORMAT = "%Y-%m-%d %H:%M UTC"
# A block number has 32 bits, and so at most ten digits.
_NAMED_BLOCK = re.compile(r"\bblock ([0-9]{1,10})\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChainTime:
    """A final block, its time, and the duration of the blocks before it."""

    height: int
    now_ms: int
    """The start of its slot, in ms since 1970."""
    passed_ms: int
    """Milliseconds of the `passed_blocks` blocks before it."""
    passed_blocks: int
    epoch_blocks: int
    era_epochs: int

    @property
    def epoch(self) -> int:
        """The epoch of the block: block 1 is the first of epoch 0."""
        return max(self.height - 1, 0) // self.epoch_blocks

    @property
    def era(self) -> int:
        """The era of the block."""
        return self.epoch // self.era_epochs

    @property
    def eras_of_a_year(self) -> int:
        """The whole eras of a year at this pace, at most the chain's largest number."""
        blocks_of_a_year = YEAR_MS * self.passed_blocks // max(1, self.passed_ms)
        return min(U32_MAX, blocks_of_a_year // (self.epoch_blocks * self.era_epochs))

    def block_of(self, epoch: int) -> int:
        """Return the first block of an epoch."""
        return epoch * self.epoch_blocks + 1

    def block_ms(self, block_number: int) -> int:
        """Return the estimated time of a block, in ms since 1970."""
        return self.now_ms + (block_number - self.height) * self.passed_ms // self.passed_blocks

    def begin_ms(self, epoch: int) -> int:
        """Return the estimated time of an epoch's first block, in ms since 1970."""
        return self.block_ms(self.block_of(epoch))

    def date_of(self, epoch: int) -> str:
        """`about 2026-11-26 02:16 UTC`."""
        return f"about {date_text(self.begin_ms(epoch))}"

    def epoch_text(self, epoch: int) -> str:
        """`epoch 34, about 2026-11-26 02:16 UTC`."""
        return f"epoch {epoch}, {self.date_of(epoch)}"

    def era_text(self, era: int) -> str:
        """Return an era in words, with its first epoch."""
        return f"era {era} ({self.epoch_text(era * self.era_epochs)})"

    def seconds_to(self, block_number: int) -> int:
        """Return the estimated seconds between this block and another one, before or after it."""
        return abs(block_number - self.height) * self.passed_ms // (1_000 * self.passed_blocks)

    def distance_text(self, block_number: int) -> str:
        """`in about 2 min`, `about 2 min ago`, or `now`."""
        if block_number == self.height:
            return "now"
        about = f"about {format_duration(self.seconds_to(block_number))}"
        return f"in {about}" if block_number > self.height else f"{about} ago"

    def timed(self, text: str) -> str:
        """Return a text with a time behind each block that it names: `block 1474 (in about 2 min)`."""
        return _NAMED_BLOCK.sub(lambda match: f"{match[0]} ({self.distance_text(int(match[1]))})", text)

    @property
    def present_text(self) -> str:
        """The chain's present epoch, era and time, in words."""
        return f"epoch {self.epoch} of era {self.era}, {date_text(self.now_ms)}"

    @property
    def pace_text(self) -> str:
        """The pace of the last blocks, in words."""
        tenths = self.passed_ms // (100 * self.passed_blocks)
        return f"{tenths // 10}.{tenths % 10} s a block, as the last {self.passed_blocks} took"


def moment(time_ms: int) -> datetime | None:
    """Return a time as a datetime; None beyond the calendar, since a node may send any number."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def date_text(time_ms: int) -> str:
    """Return a time to the minute; `never` beyond the calendar."""
    date = moment(time_ms)
    return "never" if date is None else date.strftime(DATE_FORMAT)


async def read_time(client: ChainClient, block_hash: bytes) -> ChainTime:
    """Read the time at a final block. Without an earlier block, the pace is the length of a slot."""
    height, now_ms = await client.height(block_hash), await client.read(Timestamp.now, at=block_hash)
    passed_ms, passed_blocks = await _time_of_last_blocks(client, height, now_ms)
    epoch_blocks = constant_value(Beacon, Beacon.epoch_blocks, client.runtime)
    era_epochs = constant_value(TrustStake, TrustStake.era_epochs, client.runtime)
    return ChainTime(height, now_ms, passed_ms, passed_blocks, epoch_blocks, era_epochs)


async def _time_of_last_blocks(client: ChainClient, height: int, now_ms: int) -> tuple[int, int]:
    """Return the milliseconds of the last blocks, and their number."""
    earlier_height = max(1, height - PACE_BLOCKS)
    if earlier_height < height:
        try:
            (earlier_hash,) = await client.final_ids(earlier_height, earlier_height)
            passed_ms: int = now_ms - await client.read(Timestamp.now, at=earlier_hash)
        except RpcError:  # a node that has begun lately shows no state before
            pass
        else:
            # Under --trust-node nothing proves the times, so the difference may be 0 or negative.
            return max(1, passed_ms), height - earlier_height
    return 2 * constant_value(Timestamp, Timestamp.minimum_period, client.runtime), 1
