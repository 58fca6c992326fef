"""Draws: distinct owners, only eligible slots, in an order weighted by bonds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.draws import DrawOrder, FreeSlot, Given, Spare, Wanted, depth_at

WANTED = Wanted(rate=100, collateral=25, sealed_at=50, recorded_at=60, excluded=())


def slot(number: int, owner: int, bond: int = 100) -> FreeSlot:
    return FreeSlot(
        device=number.to_bytes(32, "big"),
        owner=bytes([owner]) * 32,
        bond=bond,
        free_bond=bond,
        ask=10,
        key_since=1,
        changed_at=1,
    )


def draw_racers(slots: list[FreeSlot], wanted: Wanted, racers: int, *, seed: bytes, label: bytes) -> list[FreeSlot]:
    return order_of(slots, seed, label).draw(wanted, racers)


def order_of(slots: list[FreeSlot], seed: bytes, label: bytes = b"u", given: Given | None = None) -> DrawOrder:
    return DrawOrder(slots, seed=seed, label=label, recorded_at=WANTED.recorded_at, given_units=given or Given())


@pytest.mark.parametrize(
    "bad",
    [
        replace(slot(2, 2), ask=101),
        replace(slot(2, 2), free_bond=24),
        replace(slot(2, 2), key_since=51),
        replace(slot(2, 2), changed_at=61),
    ],
)
def test_who_may_not_race(bad: FreeSlot) -> None:
    good = slot(1, 1)
    assert draw_racers([good, bad], WANTED, 1, seed=b"s", label=b"u") == [good]
    assert draw_racers([good, bad], WANTED, 2, seed=b"s", label=b"u") == []


def test_the_customer_and_who_declined_are_excluded() -> None:
    wanted = replace(WANTED, excluded=(slot(1, 1).owner,))
    assert draw_racers([slot(1, 1)], wanted, 1, seed=b"s", label=b"u") == []


def test_in_office_only_who_is_light_enough_races_and_so_many_as_are_to_spare() -> None:
    slots = [slot(number, number) for number in range(6)]
    stakes = {owner.owner: 10 + place for place, owner in enumerate(slots[:4])}
    for number in range(50):
        seed = bytes([number])
        wanted = replace(WANTED, checkers=stakes, spare=Spare(1, 11))
        drawn = [one.owner for one in draw_racers(slots, wanted, 3, seed=seed, label=b"u")]
        assert {slots[4].owner, slots[5].owner} < set(drawn) < {one.owner for one in (*slots[:2], *slots[4:])}
        assert draw_racers(slots, wanted, 4, seed=seed, label=b"u") == []
        assert draw_racers(slots, replace(wanted, spare=Spare(-1, 99)), 1, seed=seed, label=b"u") == []


def test_who_leaves_an_office_race_puts_no_rival_out_of_it() -> None:
    """The draw does not check whether one more fits, so a missing slot never bars a drawn one."""
    slots = [slot(number, number) for number in range(8)]
    stakes = {one.owner: 10 for one in slots[:5]}
    wanted = replace(WANTED, checkers=stakes, spare=Spare(2, 10))
    for number in range(40):
        seed = bytes([number])
        all_drawn = {one.owner for one in draw_racers(slots, wanted, 3, seed=seed, label=b"u")}
        for leaving in slots:
            rest = [one for one in slots if one is not leaving]
            drawn = {one.owner for one in draw_racers(rest, wanted, 3, seed=seed, label=b"u")}
            assert all_drawn - {leaving.owner} <= drawn


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(25, 10**9)), max_size=20),
    st.integers(1, 8),
    st.binary(max_size=32),
    st.randoms(),
)
def test_owners_are_distinct_and_order_does_not_matter(
    made: list[tuple[int, int]], racers: int, seed: bytes, chance: object
) -> None:
    slots = [slot(number, owner, bond) for number, (owner, bond) in enumerate(made)]
    drawn = draw_racers(slots, WANTED, racers, seed=seed, label=b"u")
    owners = {one.owner for one in drawn}
    assert len(owners) == len(drawn) == (racers if len({owner for owner, _ in made}) >= racers else 0)
    chance.shuffle(slots)  # type: ignore[attr-defined]
    assert draw_racers(slots, WANTED, racers, seed=seed, label=b"u") == drawn


def test_units_of_one_beacon_take_what_is_left_in_its_order() -> None:
    slots = [slot(number, number % 4) for number in range(12)]
    given = Given()
    order = order_of(slots, b"s", given=given)
    taken: dict[bytes, None] = {}
    races = []
    for _ in range(5):
        drawn = order.draw(WANTED, 3)
        races.append({racer.owner for racer in drawn})
        assert not {racer.device for racer in drawn} & set(taken)
        taken.update((racer.device, None) for racer in drawn)
        for racer in drawn:
            given.give(racer.device, 1)
    assert [len(owners) for owners in races] == [3, 3, 3, 3, 0] or len(races[3]) == 0, (
        "distinct owners, while they last"
    )
    assert len(taken) >= 9


def test_owners_are_drawn_by_the_sum_of_their_bonds() -> None:
    """One owner has two of three equal devices. It comes first in two of three draws, with either of them."""
    slots, rounds = [slot(1, 1), slot(2, 1), slot(3, 2)], 3_000
    first = [draw_racers(slots, WANTED, 1, seed=n.to_bytes(4, "big"), label=b"u")[0] for n in range(rounds)]
    assert abs(sum(one.owner == slots[0].owner for one in first) - rounds * 2 // 3) < rounds // 20
    assert abs(sum(one.device == slots[0].device for one in first) - rounds // 3) < rounds // 20


def test_a_draw_tells_how_many_slots_it_looked_at() -> None:
    order = order_of([slot(number, number) for number in range(9)], b"s")
    assert len(order.draw(WANTED, 2)) == 2
    assert order.looks == 2
    assert order.draw(replace(WANTED, rate=1), 1) == []
    assert order.looks == 2 + 9


# -------------------------------------------------------------------------------------- those who have other units


def busy(number: int, depth: int, places: int = 4, freed: tuple[int, ...] = ()) -> FreeSlot:
    return replace(slot(number, number), depth=depth, places=places, freed=freed)


def test_who_has_the_fewest_units_comes_first_and_who_is_full_never() -> None:
    slots = [busy(1, 2), busy(2, 0), busy(3, 1), busy(4, 4)]
    for number in range(20):
        drawn = draw_racers(slots, WANTED, 3, seed=bytes([number]), label=b"u")
        assert drawn == [slots[1], slots[2], slots[0]]
        assert draw_racers(slots, WANTED, 4, seed=bytes([number]), label=b"u") == []


def test_a_unit_that_ended_after_the_recording_counts() -> None:
    recorded = WANTED.recorded_at
    done_since = busy(1, 0, freed=(recorded + 2, recorded + 1, recorded))
    assert depth_at(done_since, recorded) == 2
    for number in range(20):
        assert draw_racers([done_since, busy(2, 1)], WANTED, 1, seed=bytes([number]), label=b"u") == [busy(2, 1)]
    full_then = replace(done_since, places=2)
    assert draw_racers([full_then], WANTED, 1, seed=b"s", label=b"u") == []


def test_what_a_block_gives_counts_in_every_order() -> None:
    given = Given()
    first = order_of([busy(1, 0, places=2), busy(2, 0, places=2)], b"s", given=given)
    second = order_of([busy(1, 0, places=2), busy(2, 0, places=2)], b"t", given=given)
    had: list[bytes] = []
    for order in (first, second, first, second):
        (drawn,) = order.draw(WANTED, 1)
        given.give(drawn.device, WANTED.collateral)
        had.append(drawn.device)
    assert len(set(had[:2])) == 2, "one each, before anybody has two"
    assert sorted(had[:2]) == sorted(had[2:])
    assert first.draw(WANTED, 1) == second.draw(WANTED, 1) == []


def test_the_bond_bounds_what_a_block_gives() -> None:
    given = Given()
    order = order_of([busy(1, 0, places=9)], b"s", given=given)
    dear = replace(WANTED, collateral=40)
    for _ in range(2):
        (drawn,) = order.draw(dear, 1)
        given.give(drawn.device, dear.collateral)
    assert order.draw(dear, 1) == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(25, 500)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.binary(max_size=8),
    st.integers(0, 11),
)
def test_who_leaves_or_falls_behind_puts_no_rival_out(
    made: list[tuple[int, int]], racers: int, seed: bytes, leaving: int
) -> None:
    slots = [replace(busy(number, depth), bond=bond) for number, (depth, bond) in enumerate(made)]
    drawn = {one.owner for one in draw_racers(slots, WANTED, racers, seed=seed, label=b"u")}
    gone = slots[leaving % len(slots)]
    rest = [one for one in slots if one is not gone]
    after = {one.owner for one in draw_racers(rest, WANTED, racers, seed=seed, label=b"u")}
    assert not after or drawn - {gone.owner} <= after
    later = [replace(one, depth=3) if one is gone else one for one in slots]
    after = {one.owner for one in draw_racers(later, WANTED, racers, seed=seed, label=b"u")}
    assert drawn - {gone.owner} <= after
