"""Who gets what of a miss: a customer only where some racer showed that its input could be had (finding B1)."""

from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.units import Unit, UnitState
from market_chain import CUSTOMER, DEVICE_BOND, Keys, MarketChain, commit, named_keys, terms
from runtime.pallets.balances import Balances
from runtime.pallets.pots import TREASURY

RIGHT = b"R" * 32


def matched(chain: MarketChain) -> tuple[bytes, Unit, list[Keys]]:
    """A unit in its race, and its racers in draw order."""
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=2))
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    unit = chain.unit(unit_id)
    return unit_id, unit, [chain.keys_of(one.owner) for one in unit.racers]


def worth(chain: MarketChain, account: bytes) -> int:
    balances = chain.now()[Balances]
    return balances.free_balance(account) + balances.reserved_balance(account)


def test_a_customer_earns_nothing_where_all_racers_missed() -> None:
    """B1: an input that nobody could have makes all of them miss; its customer shall not live on that."""
    chain = MarketChain(named_keys(2))
    _, _, racers = matched(chain)
    before, treasury = worth(chain, CUSTOMER.stash), worth(chain, TREASURY)
    while not chain.happened(ev.UnitRequeued):
        chain.block()
    taken = DEVICE_BOND // 100
    assert [missed.amount for missed in chain.happened(ev.RaceMissed)] == [taken] * 2
    assert worth(chain, CUSTOMER.stash) == before
    assert worth(chain, TREASURY) - treasury == len(racers) * taken // 2


def test_nor_where_nobody_opens_what_it_committed() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    before = worth(chain, CUSTOMER.stash)
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    while not chain.happened(ev.RaceMissed):
        chain.block()
    assert worth(chain, CUSTOMER.stash) == before


def test_a_racer_that_missed_beside_one_that_worked_pays_the_customer() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, (worked, _) = matched(chain)
    before = worth(chain, CUSTOMER.stash)
    assert unit.round is not None
    while chain.height < unit.round.drawn_at + 28:  # so late that the lease ends before the close
        chain.block()
    chain.block(commit(worked, unit_id, unit, RIGHT))
    while not chain.happened(ev.RaceMissed):
        chain.block()
    assert worth(chain, CUSTOMER.stash) == before + DEVICE_BOND // 100 * 4 // 10
