"""Units before the courts on a `MarketChain`: raced, declined, judged, and all accounts' money afterwards."""

from collections.abc import Iterable

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.ids import aged
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    Step,
    attach,
    attestation,
    commit,
    judge_commit,
    judge_open,
    named_keys,
    root_of,
    signed,
    terms,
    tolerant,
)

RIGHT, WRONG = root_of(b"R" * 32), root_of(b"W" * 32)
Verdict = Answered | Unanswerable


def matched(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, Unit, list[Keys]]:
    """Return a unit in its race, and its racers in draw order."""
    chain.blocks(3)
    (unit_id,) = chain.post(terms(price, racers))
    return unit_id, *wait_for_race(chain, unit_id)


def post_unit(chain: MarketChain, customer: Keys = CUSTOMER, *, service: int, price: int, racers: int) -> bytes | None:
    """Make a block with a post of one unit, its input sealed to all. Return None if it was refused."""
    number = chain.now()[InferenceMarket].post_counts[customer.stash]
    wanted = terms(price=price, racers=racers, sealed_at=chain.height - chain.final_lag)
    chain.block(tolerant(signed(customer.stash, InferenceMarket.post(service=service, units=(wanted,)))))
    unit_id = unit_id_of(GENESIS_HASH, customer.stash, number)
    return None if chain.now()[InferenceMarket].units[unit_id] is None else unit_id


def wait_for_race(chain: MarketChain, unit_id: bytes, after: int = 0) -> tuple[Unit, list[Keys]]:
    """Return the unit in its next race, and its racers in draw order."""
    while chain.unit(unit_id).state is not UnitState.RACING or chain.unit(unit_id).attempt == after:
        assert chain.unit(unit_id).state not in (UnitState.SETTLED, UnitState.REFUNDED), "it is drawn no more"
        chain.block()
    unit = chain.unit(unit_id)
    return unit, [chain.keys_of(racer.owner) for racer in unit.racers]


def raced(chain: MarketChain, roots: dict[int, bytes | None], racers: int = 2) -> tuple[bytes, Unit, list[Keys]]:
    """Return a unit whose racers, by place, commit to these roots; None stays silent. It ends at the reveals."""
    unit_id, unit, keys = matched(chain, racers)
    given = {place: root for place, root in roots.items() if root}
    chain.block(*(commit(keys[place], unit_id, unit, root) for place, root in given.items()))
    if len(given) < racers:
        chain.blocks(11)
    chain.block(attach(*(attestation(keys[place], unit_id, unit, root) for place, root in given.items())))
    return unit_id, unit, keys


def committed(chain: MarketChain, unit_id: bytes, racers: Iterable[Keys], root: bytes = RIGHT) -> None:
    """Make a block in which these commit to a root."""
    unit = chain.unit(unit_id)
    chain.block(*(commit(keys, unit_id, unit, root) for keys in racers))


def revealed(chain: MarketChain, unit_id: bytes, racers: Iterable[Keys], root: bytes = RIGHT) -> None:
    """Make a block whose author attaches the reveals of these racers."""
    unit = chain.unit(unit_id)
    chain.block(attach(*(attestation(keys, unit_id, unit, root) for keys in racers)))


def judged(chain: MarketChain, unit_id: bytes, opinions: list[Verdict | None]) -> list[Keys]:
    """Let the next drawn bench give these opinions in the order of its seats; None stays silent."""
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
    """Return the unit once no case about it is open."""
    while chain.now()[Courts].cases[unit_id] is not None:
        chain.block()
    return chain.unit(unit_id)


def all_owned(chain: MarketChain) -> dict[bytes, int]:
    return {one.stash: chain.owned(one.stash) for one in (*chain.validators, CUSTOMER)}


def declined_twice(chain: MarketChain) -> tuple[bytes, list[Keys]]:
    """Let both racers of a unit decline."""
    unit_id, _, racers = matched(chain)
    decline = InferenceMarket.decline(unit=unit_id, attempt=1)
    chain.block(*(signed(racer.provider, decline) for racer in racers))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    return unit_id, racers


# Races with a declined place, on a `MarketChain`: the racers, the decliner, and the newly drawn one.
LEASE = 30
"""The race deadline of the service on these chains."""
TO_THE_DRAW = BEACON_DELAY + 1
"""Blocks from a decline to the draw of its place, if finality is one block behind."""


def racing(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, list[Keys]]:
    """Return a unit in its race, and its racers in draw order."""
    unit_id, _, drawn = matched(chain, racers, price)
    return unit_id, drawn


def racers_of(chain: MarketChain, unit_id: bytes) -> list[Keys]:
    return [chain.keys_of(racer.owner) for racer in chain.unit(unit_id).racers]


def declines(who: Keys, unit_id: bytes, attempt: int = 1) -> Step:
    return signed(who.provider, InferenceMarket.decline(unit=unit_id, attempt=attempt))


def commits(chain: MarketChain, who: Keys, unit_id: bytes, root: bytes = RIGHT) -> Step:
    return commit(who, unit_id, chain.unit(unit_id), root)


def refilled(chain: MarketChain, racers: int = 2, place: int = 0) -> tuple[bytes, Keys, Keys, list[Keys]]:
    """Return a race with a declined and refilled place: the unit, the old and the new racer, and all racers."""
    unit_id, before = racing(chain, racers)
    chain.block(declines(before[place], unit_id))
    chain.blocks(TO_THE_DRAW)
    after = racers_of(chain, unit_id)
    assert chain.happened(ev.PlaceRefilled) == [ev.PlaceRefilled(unit_id, 1, after[place].stash, before[place].stash)]
    return unit_id, before[place], after[place], after


def is_awaited(chain: MarketChain, unit_id: bytes) -> bool:
    """Return True if the unit waits for a draw of its race or of a place."""
    return bool(chain.now()[InferenceMarket].draws.places[aged(chain.unit(unit_id).posted_at, unit_id)])


def closes_at(chain: MarketChain, unit_id: bytes) -> int:
    """Return the last block in which the next racer to time out may commit, or 0 without a running clock."""
    unit = chain.unit(unit_id)
    assert unit.round is not None
    windows = chain.now()[InferenceMarket].windows_of(unit)
    return race_clocks.next_change(unit.racers, unit.round, windows)[0] or 0


# Devices that have units ahead, on a `MarketChain`.
DRAW_BLOCKS = 4


def one_device(queue: int = 2) -> tuple[MarketChain, Keys]:
    """Return a chain on which all but one device are paused."""
    chain = MarketChain(named_keys(4), queue=queue)
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[1:]))
    chain.blocks(3)
    return chain, chain.validators[0]


def ahead(chain: MarketChain, units: int = 3) -> list[bytes]:
    """Return units of one racer in the order of its device."""
    posted = chain.post(*(terms(OGPU, 1) for _ in range(units)))
    chain.blocks(DRAW_BLOCKS)
    assert all(chain.unit(unit_id).state is UnitState.RACING for unit_id in posted)
    only = chain.device(chain.validators[0])
    assert only.assignment is not None
    assert {only.assignment, *only.behind} == set(posted)
    return [only.assignment, *only.behind]


def began(chain: MarketChain, unit_id: bytes) -> int:
    """Return the block in which the only racer of a unit began it, or 0 while it waits."""
    (racer,) = chain.unit(unit_id).racers
    return racer.started_at
