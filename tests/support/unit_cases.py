"""Units that come before the courts on a `MarketChain`: raced, declined, judged, and what everybody owns then."""

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import (
    CUSTOMER,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    judge_commit,
    judge_open,
    root_of,
    signed,
    terms,
)

RIGHT, WRONG = root_of(b"R" * 32), root_of(b"W" * 32)
Verdict = Answered | Unanswerable


def matched(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, Unit, list[Keys]]:
    """A unit in its race, and its racers in draw order."""
    chain.blocks(3)
    (unit_id,) = chain.post(terms(price, racers))
    return unit_id, *wait_for_race(chain, unit_id)


def wait_for_race(chain: MarketChain, unit_id: bytes, after: int = 0) -> tuple[Unit, list[Keys]]:
    """The unit in the race after that attempt, and its racers in draw order."""
    while chain.unit(unit_id).state is not UnitState.RACING or chain.unit(unit_id).attempt == after:
        assert chain.unit(unit_id).state not in (UnitState.SETTLED, UnitState.REFUNDED), "it is drawn no more"
        chain.block()
    unit = chain.unit(unit_id)
    return unit, [chain.keys_of(racer.owner) for racer in unit.racers]


def raced(chain: MarketChain, roots: dict[int, bytes | None], racers: int = 2) -> tuple[bytes, Unit, list[Keys]]:
    """A unit whose racers (by place) commit and attach these roots; None: stays silent. Ends at the reveals."""
    unit_id, unit, keys = matched(chain, racers)
    given = {place: root for place, root in roots.items() if root}
    chain.block(*(commit(keys[place], unit_id, unit, root) for place, root in given.items()))
    if len(given) < racers:
        chain.blocks(11)
    chain.block(attach(*(attestation(keys[place], unit_id, unit, root) for place, root in given.items())))
    return unit_id, unit, keys


def judged(chain: MarketChain, unit_id: bytes, opinions: list[Verdict | None]) -> list[Keys]:
    """The bench that is drawn next says this, in the order of its seats; None: stays silent."""
    benches = len(chain.case(unit_id).benches)
    while len(chain.case(unit_id).benches) == benches:
        chain.block()
    bench = chain.case(unit_id).benches[-1]
    judges = [chain.keys_of(member) for member in bench.members]
    given = [(judge, said) for judge, said in zip(judges, opinions, strict=False) if said is not None]
    chain.block(*(judge_commit(judge, unit_id, BenchKind(bench.kind), said) for judge, said in given))
    chain.blocks(45 + 2 if len(given) < len(judges) else 1)  # one and a half times the lease of the service
    chain.block(*(judge_open(judge, unit_id, said) for judge, said in given))
    chain.blocks(14 if len(given) < len(judges) else 1)
    return judges


def ended(chain: MarketChain, unit_id: bytes) -> Unit:
    """The unit once no case about it is open any more."""
    while chain.now()[Courts].cases[unit_id] is not None:
        chain.block()
    return chain.unit(unit_id)


def owned(chain: MarketChain, account: bytes) -> int:
    balances = chain.now()[Balances]
    return balances.free_balance(account) + balances.reserved_balance(account)


def all_owned(chain: MarketChain) -> dict[bytes, int]:
    return {one.stash: owned(chain, one.stash) for one in (*chain.validators, CUSTOMER)}


def declined_twice(chain: MarketChain) -> tuple[bytes, list[Keys]]:
    """Both racers of a unit decline."""
    unit_id, _, racers = matched(chain)
    decline = InferenceMarket.decline(unit=unit_id, attempt=1)
    chain.block(*(signed(racer.provider, decline) for racer in racers))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    return unit_id, racers
