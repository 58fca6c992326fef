"""Draws: distinct owners, only eligible slots, in an order that goes by bonds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.draws import DrawOrder, FreeSlot, Spare, Wanted

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
    return DrawOrder(slots, seed=seed, label=label).draw(wanted, racers, {})


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
        wanted = replace(WANTED, judges=stakes, spare=Spare(1, 11))
        drawn = [one.owner for one in draw_racers(slots, wanted, 3, seed=seed, label=b"u")]
        assert {slots[4].owner, slots[5].owner} < set(drawn) < {one.owner for one in (*slots[:2], *slots[4:])}
        assert draw_racers(slots, wanted, 4, seed=seed, label=b"u") == []
        assert draw_racers(slots, replace(wanted, spare=Spare(-1, 99)), 1, seed=seed, label=b"u") == []


def test_who_leaves_an_office_race_puts_no_rival_out_of_it() -> None:
    """Whether one more fits is not looked at while drawing: a slot less never bars who was drawn."""
    slots = [slot(number, number) for number in range(8)]
    stakes = {one.owner: 10 for one in slots[:5]}
    wanted = replace(WANTED, judges=stakes, spare=Spare(2, 10))
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


def test_leaving_after_the_beacon_is_known_puts_no_rival_out_of_the_race() -> None:
    """An owner of many accounts who withdraws some of them cannot find a draw without an honest racer."""
    mine, honest = [slot(number, number) for number in range(1, 9)], [slot(20 + n, 20 + n) for n in range(8)]
    rivals = {one.owner for one in honest}
    for number in range(20):
        seed = bytes([number])
        racing = {one.owner for one in draw_racers([*mine, *honest], WANTED, 2, seed=seed, label=b"u")} & rivals
        for staying in range(256):
            some = [one for place, one in enumerate(mine) if staying >> place & 1]
            drawn = {one.owner for one in draw_racers([*some, *honest], WANTED, 2, seed=seed, label=b"u")}
            assert racing <= drawn


def test_units_of_one_beacon_take_what_is_left_in_its_order() -> None:
    slots = [slot(number, number % 4) for number in range(12)]
    order = DrawOrder(slots, seed=b"s", label=b"u")
    taken: dict[bytes, None] = {}
    races = []
    for _ in range(5):
        drawn = order.draw(WANTED, 3, taken)
        races.append({racer.owner for racer in drawn})
        assert not {racer.device for racer in drawn} & set(taken)
        taken.update((racer.device, None) for racer in drawn)
        order.forget(taken)
    assert [len(owners) for owners in races] == [3, 3, 3, 3, 0] or len(races[3]) == 0, (
        "distinct owners, while they last"
    )
    assert len(taken) >= 9


def test_owners_are_drawn_by_the_sum_of_their_bonds() -> None:
    """One owner has two of three equal devices: it comes first in two of three draws, with either of them."""
    slots, rounds = [slot(1, 1), slot(2, 1), slot(3, 2)], 3_000
    first = [draw_racers(slots, WANTED, 1, seed=n.to_bytes(4, "big"), label=b"u")[0] for n in range(rounds)]
    assert abs(sum(one.owner == slots[0].owner for one in first) - rounds * 2 // 3) < rounds // 20
    assert abs(sum(one.device == slots[0].device for one in first) - rounds // 3) < rounds // 20


def test_a_draw_tells_how_many_slots_it_looked_at() -> None:
    order = DrawOrder([slot(number, number) for number in range(9)], seed=b"s", label=b"u")
    assert len(order.draw(WANTED, 2, {})) == 2
    assert order.looks == 2
    assert order.draw(replace(WANTED, rate=1), 1, {}) == []
    assert order.looks == 2 + 9
