"""When an epoch will begin, in wall time: reckoned from a final block, at the pace of the blocks before it.

An epoch counts blocks, and a slot may pass without one, so no date is exact: each is said with "about". Always: all
that is read is of final blocks, and dates are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runtime.frame.runtime import constant_value
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.timestamp import Timestamp
from wallet.answers import U32_MAX
from wallet.client import ChainClient
from wallet.rpc import RpcError

PACE_BLOCKS = 48
"""Over so many blocks the pace is measured: a node shows the state of so many that passed."""
YEAR_MS = 31_557_600_000
"""365.25 days."""
DATE_FORMAT = "%Y-%m-%d %H:%M UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChainTime:
    """A final block, when it was, and how long the blocks before it took."""

    height: int
    now_ms: int
    """Its slot's begin, since 1970."""
    passed_ms: int
    """From the block `passed_blocks` before it to it."""
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
        """So many whole eras end in a year at this pace; no more than the chain counts."""
        blocks = YEAR_MS * self.passed_blocks // max(1, self.passed_ms)
        return min(U32_MAX, blocks // (self.epoch_blocks * self.era_epochs))

    def block_of(self, epoch: int) -> int:
        """The first block of an epoch."""
        return epoch * self.epoch_blocks + 1

    def block_ms(self, block: int) -> int:
        """When a block will come, or came, about."""
        return self.now_ms + (block - self.height) * self.passed_ms // self.passed_blocks

    def begin_ms(self, epoch: int) -> int:
        """When the first block of an epoch will be, or was, about."""
        return self.block_ms(self.block_of(epoch))

    def date_of(self, epoch: int) -> str:
        """`about 2026-11-26 02:16 UTC`."""
        return f"about {date_text(self.begin_ms(epoch))}"

    def epoch_text(self, epoch: int) -> str:
        """`epoch 34, about 2026-11-26 02:16 UTC`."""
        return f"epoch {epoch}, {self.date_of(epoch)}"

    def era_text(self, era: int) -> str:
        """An era by its first epoch."""
        return f"era {era} ({self.epoch_text(era * self.era_epochs)})"

    @property
    def present_text(self) -> str:
        """What time it is on the chain."""
        return f"epoch {self.epoch} of era {self.era}, {date_text(self.now_ms)}"

    @property
    def pace_text(self) -> str:
        """How fast blocks came."""
        tenths = self.passed_ms // (100 * self.passed_blocks)
        return f"{tenths // 10}.{tenths % 10} s a block, as the last {self.passed_blocks} took"


def moment(time_ms: int) -> datetime | None:
    """A time by the calendar; None for one beyond it, since a node may say anything."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def date_text(time_ms: int) -> str:
    """A time to the minute; `never` for one beyond the calendar."""
    found = moment(time_ms)
    return "never" if found is None else found.strftime(DATE_FORMAT)


async def read_time(client: ChainClient, at: bytes) -> ChainTime:
    """The time at a final block; by the length of a slot where the node shows no earlier block."""
    height, now_ms = await client.height(at), await client.read(Timestamp.now, at=at)
    passed_ms, passed_blocks = await _passed(client, height, now_ms)
    epoch_blocks = constant_value(Beacon, Beacon.epoch_blocks, client.runtime)
    era_epochs = constant_value(TrustStake, TrustStake.era_epochs, client.runtime)
    return ChainTime(height, now_ms, passed_ms, passed_blocks, epoch_blocks, era_epochs)


async def _passed(client: ChainClient, height: int, now_ms: int) -> tuple[int, int]:
    """How many milliseconds so many blocks took."""
    earlier = max(1, height - PACE_BLOCKS)
    if earlier < height:
        try:
            (block,) = await client.final_ids(earlier, earlier)
            passed_ms: int = now_ms - await client.read(Timestamp.now, at=block)
        except RpcError:  # a node that has begun lately shows no state before
            pass
        else:
            return max(1, passed_ms), height - earlier
    return 2 * constant_value(Timestamp, Timestamp.minimum_period, client.runtime), 1
