"""Due cases are processed by their subject, and each is charged for the entries that it read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.courts import courts as courts_module
from gpu_tasks.market.courts import events as ev
from gpu_tasks.market.courts import hearing
from gpu_tasks.market.courts.cases import ClaimKind, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.hearing import END_WEIGHT, FEW_WEIGHT, SEAT_LOOK_WEIGHT
from gpu_tasks.market.courts.storage import CourtsStorage
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import reads_since
from gpu_tasks.market.due import case_of, due_case
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.frame.runtime import Bound
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.pots import RESERVE
from simulation.chains.court_chain import RIGHT, WRONG, CourtChain, Toys
from simulation.chains.market_chain import CUSTOMER, OGPU, signed

PRICES = st.integers(0, 2**128 - 1)
CASES = st.binary(min_size=32, max_size=32)


@given(st.lists(st.tuples(PRICES, CASES), min_size=2, max_size=5))
def test_keys_are_in_the_order_of_falling_prices(cases: list[tuple[int, bytes]]) -> None:
    keys = sorted(due_case(price, case) for price, case in cases)
    assert [case_of(key) for key in keys] == [case for _, case in sorted(cases, key=lambda row: (-row[0], row[1]))]
    assert {len(key) for key in keys} == {48}


def brought(courts: CourtChain, prices: list[int]) -> list[bytes]:
    """Make a block with a dispute for each of these prices. Return their ids."""
    ids = [blake2_256(b"priced" + bytes([number])) for number in range(len(prices))]
    roots = zip(courts.racers, (RIGHT, WRONG), strict=True)
    claims = [(keys.stash, ClaimKind.ANSWERED, root) for keys, root in roots]

    def bring(bound: Bound) -> None:
        toys = bound[Toys]
        for case_id, price in zip(ids, prices, strict=True):
            toys.bring(case_id, toys.terms(CUSTOMER.stash, price, claims))

    courts.chain.block(bring)
    return ids


def test_where_a_block_has_room_for_one_case_the_dearest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courts_module, "CASES_BUDGET", work(microseconds=1))
    courts = CourtChain()
    prices = [3, OGPU, 1, 256, 2]
    ids = brought(courts, prices)
    drawn: list[bytes] = []
    while len(drawn) < len(ids):
        courts.chain.block()
        found = [event.case for event in courts.chain.events if isinstance(event, ev.BenchDrawn)]
        assert len(found) <= 1
        drawn += found
    assert [prices[ids.index(case_id)] for case_id in drawn] == sorted(prices, reverse=True)


def test_a_case_that_comes_late_goes_before_cheaper_ones_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courts_module, "CASES_BUDGET", work(microseconds=1))
    courts = CourtChain()
    brought(courts, [1] * 12)
    case_id = courts.dispute()
    courts.chain.blocks(3)
    case = courts.case(case_id)
    assert case is not None
    assert case.benches, "drawn as soon as its beacon is final"
    cheap = [case for key, case in courts.chain.now()[Courts].cases.items() if key != case_id]
    assert sum(1 for case in cheap if case is not None and not case.benches) >= 9


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record the devices that the courts read."""
    seen: list[bytes] = []

    def noted(devices: Devices, stash: bytes) -> object:
        seen.append(stash)
        return reads_since(devices, stash)

    monkeypatch.setattr("gpu_tasks.market.courts.storage.reads_since", noted)
    return seen


@pytest.mark.parametrize("poor", [0, 3, 4, 6])
def test_a_step_weighs_what_it_looked_at(poor: int, looks: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """With four poor of seven, all are read for a committee; with none, the first three."""
    courts = CourtChain()
    for who in courts.chain.validators[:poor]:
        spend = Balances.transfer_allow_death(dest=RESERVE, value=courts.free(who.stash) - OGPU)
        courts.chain.block(signed(who.stash, spend))
    weights: list[tuple[Weight, int]] = []
    step = hearing.step

    def noted(ground: CourtsStorage, case_id: bytes, case: CourtCase) -> Weight:
        before = len(looks)
        weight = step(ground, case_id, case)
        weights.append((weight, len(looks) - before))
        return weight

    monkeypatch.setattr(hearing, "step", noted)
    courts.dispute()
    courts.chain.blocks(3)
    ((weight, count),) = weights
    able = len(courts.chain.validators) - poor
    assert count == 7 if able <= 3 else 3 <= count <= 3 + poor
    ended = END_WEIGHT if able < 2 else Weight(0, 0)
    assert weight == FEW_WEIGHT + times(count, SEAT_LOOK_WEIGHT) + ended


def test_opinions_are_opened_in_time_while_dearer_cases_keep_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    courts = CourtChain()
    case_id = courts.dispute()
    while (case := courts.case(case_id)) is not None and not (case.benches and case.to_commit == 0):
        courts.chain.block(*courts.steps())
    monkeypatch.setattr(courts_module, "CASES_BUDGET", work())
    courts.chain.block()  # the close is final from here on
    courts.chain.block(*courts.steps())
    case = courts.case(case_id)
    assert case is not None
    assert case.round is not None
    assert (case.to_open, case.round.reveals_from) == (0, courts.chain.height)
    monkeypatch.undo()
    assert courts.run(case_id) is not None
    assert not courts.chain.happened(ev.JudgeCharged)
