"""The possible starts of a node: its own last final block or a checkpoint, by their ages, over a real database."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import SPEC, Maker, as_block, now_of, open_at
from consensus.headers import OtherCheckpointError, TrustedBlock
from error_codes import raises_code
from genesis.relations import RELATIONS
from node.errors import BadInputError, TrustExpiredHereError
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.trusted_point import TrustedPoint, trusting_period_ms

LIVE = replace(SPEC, chain_type="Live")
PERIOD_MS = 2 * 60 * 1_000
FINAL = 3
OTHER = b"o" * 32


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return three final blocks, and two more on them that are not final."""
    maker = Maker(tmp_path_factory.mktemp("maker"))
    for _ in range(FINAL):
        block = maker.make()
        maker.chain.finalise((block.facts.id,), maker.certify(block))
    first = maker.make()
    maker.make(first.facts.id)
    return maker


@pytest.fixture(autouse=True)
def _as_before(maker: Maker) -> Iterator[None]:
    rules = maker.chain.rules
    yield
    maker.chain.rules = rules


def block_at(chain: Chain, height: int) -> bytes:
    found = chain.storage.id_at(height)
    assert found is not None
    return found


def end_ms(chain: Chain) -> int:
    """Return the last moment at which the last final block is a valid start."""
    return chain.final.facts.slot * 1_000 + PERIOD_MS


def test_the_period_is_that_of_the_relations() -> None:
    assert trusting_period_ms(LIVE) == PERIOD_MS
    assert trusting_period_ms(replace(LIVE, parameters="mainnet")) == 14 * 24 * 3_600 * 1_000
    names = {relation.name: relation for relation in RELATIONS}
    assert "Consensus.trusting_epochs" in names["unbonding outlasts trust"].names()


CASES = {
    "young": (None, 0, True),
    "a moment too old": (None, 1, False),
    "old, below the checkpoint": (TrustedBlock(FINAL + 1, OTHER), 10**12, True),
    "old, and the operator names it": ("own", 10**12, True),
    "old, and the operator names one below": ("below", 1, False),
    "young, and the operator names one below": ("below", 0, True),
    "a clock that is behind": (None, -(10**9), True),
}


@pytest.mark.parametrize(("checkpoint", "over_ms", "is_good"), CASES.values(), ids=CASES)
def test_on_a_live_chain(maker: Maker, checkpoint: TrustedBlock | str | None, over_ms: int, *, is_good: bool) -> None:
    chain = maker.chain
    if isinstance(checkpoint, str):
        height = FINAL - (checkpoint == "below")
        checkpoint = TrustedBlock(height, block_at(chain, height))
    point = TrustedPoint(chain, LIVE, checkpoint)
    if is_good:
        point.judge(end_ms(chain) + over_ms)
        return
    with pytest.raises(TrustExpiredHereError, match="HEIGHT:HASH") as refused:
        point.judge(end_ms(chain) + over_ms)
    assert refused.value.exit_code == 5
    assert refused.value.code == "final_block_too_old"
    assert f"{FINAL} 0x{chain.final.facts.id.hex()}, is 120 seconds" in str(refused.value)


def test_block_0_is_as_old_as_its_specification_says(tmp_path: Path) -> None:
    chain = open_at(tmp_path)
    TrustedPoint(chain, LIVE).judge(10**15)  # no checkpoint given
    begun = replace(LIVE, start_time=1_800_000_000)
    end = begun.start_time * 1_000 + PERIOD_MS
    TrustedPoint(chain, begun).judge(end)
    TrustedPoint(chain, begun).judge(0)
    with raises_code(TrustExpiredHereError, "final_block_too_old"):
        TrustedPoint(chain, begun).judge(end + 1)
    TrustedPoint(chain, begun, TrustedBlock(1, OTHER)).judge(end + 1)


def test_elsewhere_it_is_told_once_until_it_is_young_again(maker: Maker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    point, end = TrustedPoint(maker.chain, SPEC), end_ms(maker.chain)
    told = []
    for moment in (end, end + 1, end + 2, end, end + 1):
        point.judge(moment)
        told.append(len(caplog.records))
    assert told == [0, 1, 1, 1, 2]
    assert all(record.args == ("120 seconds", "120 seconds") for record in caplog.records)


@pytest.mark.parametrize("height", [1, FINAL])
def test_a_database_with_another_past_is_not_started_from(maker: Maker, height: int) -> None:
    rules = maker.chain.rules
    for spec in (SPEC, LIVE):
        with pytest.raises(BadInputError, match=r"purge-chain.*--bootnodes") as refused:
            TrustedPoint(maker.chain, spec, TrustedBlock(height, OTHER))
        assert f"final block {height} in " in str(refused.value)
        assert block_at(maker.chain, height).hex() in str(refused.value)
    assert maker.chain.rules is rules
    TrustedPoint(maker.chain, LIVE, TrustedBlock(FINAL + 1, OTHER))  # the present block is not final yet


def test_another_block_at_that_height_is_invalid_also_one_that_was_kept(tmp_path: Path) -> None:
    first, second = made(tmp_path / "maker", 2)
    chain = open_at(tmp_path / "other")
    for block in (first, second):
        chain.import_block(as_block(block), now_of(block.facts.slot))
    chain.keep(second.facts.id)
    chain.storage.close()
    again = open_at(tmp_path / "other")
    point = TrustedPoint(again, LIVE, TrustedBlock(2, OTHER))
    again.restore(now_of(second.facts.slot))
    assert [block.facts.height for block in again.above_final()] == [1]
    assert (point.height, point.is_ahead()) == (2, True)
    with pytest.raises(OtherCheckpointError):
        again.check(second.header, now_of(second.facts.slot))
    for block in (first, second):
        TrustedPoint(again, LIVE, TrustedBlock(block.facts.height, block.facts.id))
        again.check(second.header, now_of(second.facts.slot))


def made(path: Path, count: int) -> list[ExecutedBlock]:
    """Return `count` blocks in a row of a new chain."""
    maker = Maker(path)
    blocks = [maker.make()]
    while len(blocks) < count:
        blocks.append(maker.make(blocks[-1].facts.id))
    return blocks


PASSED = {
    "it is young": (0, 2, True),
    "it is old, and passed over": (1, 2, False),
    "it is old, and there is nothing above it": (1, 1, True),
}


@pytest.mark.parametrize(("over_ms", "count", "is_good"), PASSED.values(), ids=PASSED)
def test_a_checkpoint_that_is_reached_is_judged_by_its_own_age(
    tmp_path: Path, over_ms: int, count: int, *, is_good: bool
) -> None:
    blocks = made(tmp_path / "maker", 2)
    chain = open_at(tmp_path / "other")
    point = TrustedPoint(chain, LIVE, TrustedBlock(1, blocks[0].facts.id))
    facts = [block.facts for block in blocks[:count]]
    # Blocks above it may have any slot: validators with withdrawn stake can sign anything.
    facts[1:] = [replace(facts[1], slot=facts[1].slot + 10**6) for _ in facts[1:]]
    moment = facts[0].slot * 1_000 + PERIOD_MS + over_ms
    if is_good:
        point.judge_final(facts, moment)
        return
    with raises_code(TrustExpiredHereError, "checkpoint_too_old"):
        point.judge_final(facts, moment)


def test_a_checkpoint_that_was_reached_and_is_old_is_gone_on_from_only_if_it_is_named_again(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    chain = maker.chain
    block, following = maker.make(), maker.make
    checkpoint = TrustedBlock(1, block.facts.id)
    point = TrustedPoint(chain, LIVE, checkpoint)
    point.judge_final([block.facts], end_ms(chain) + 10**12)
    chain.finalise((block.facts.id,), maker.certify(block))
    late = end_ms(chain) + 1
    for judged in (point, TrustedPoint(chain, LIVE)):
        with pytest.raises(TrustExpiredHereError):
            judged.judge_final([following().facts], late)
    # The whole network stood still: every operator names the block at which it did.
    again = TrustedPoint(chain, LIVE, checkpoint)
    block = following()
    again.judge_final([block.facts], late)
    chain.finalise((block.facts.id,), maker.certify(block))
    again.judge(end_ms(chain))
    with pytest.raises(TrustExpiredHereError):
        again.judge(end_ms(chain) + 1)
