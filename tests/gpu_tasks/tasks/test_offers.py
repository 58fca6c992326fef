"""Offers, queries over them, and prices: tables of single cases, and a property against the plain meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.client.commands.services import PriceRow, SettledUnit, price_rows
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.offer_query import (
    CONDITIONS_MAX,
    FIELDS,
    QUERY_LETTERS_MAX,
    VALUES_MAX,
    QueryError,
    matching,
    parse_query,
)
from gpu_tasks.tasks.offers import DeviceState, OfferRow, rows_of
from gpu_tasks.workloads import registry
from offered import OGPU, device, name, service
from runtime.cryptography import ss58

SECOND = registry.FORMS[0]
SERVICES = {0: service(), 1: service(SECOND.workload_id), 2: service(name(7)), 3: service(is_open=False)}
DEVICES = (
    device(1, {0: OGPU // 2, 1: OGPU}),
    device(2, {0: OGPU // 10}, kind=DeviceClass.DATACENTER, assignment=name(50), secured=30 * OGPU),
    device(3, {0: 2 * OGPU, 2: 1}, kind=DeviceClass.CONSUMER, is_paused=True),
    device(4, {0: OGPU // 2, 3: 1, 8: 1}, kind=DeviceClass.DATACENTER, secured=200 * OGPU),
)
ROWS = rows_of(DEVICES, SERVICES)


def found(query: str) -> list[tuple[int, int]]:
    return [(row.provider[0], row.service) for row in matching(parse_query(query), ROWS)]


def test_rows_are_the_offers_for_open_services_by_price() -> None:
    assert [(row.provider[0], row.service) for row in ROWS] == [(3, 2), (2, 0), (1, 0), (4, 0), (1, 1), (3, 0)]
    assert ROWS[1] == OfferRow(
        0, "decoder-int8", name(2), name(102), DeviceClass.DATACENTER, OGPU // 10, 100 * OGPU, 70 * OGPU,
        DeviceState.WORKING, 5,
    )  # fmt: skip
    assert (ROWS[0].workload, ROWS[3].free_bond) == (None, 0)
    assert [row.state.value for row in ROWS] == ["paused", "working", "free", "free", "free", "paused"]


def test_who_has_proven_too_little_takes_no_work_whatever_else_is_said_of_it() -> None:
    rates = ProvenRates(True, (10, 1, 100), {name(101): 10, name(102): 99, name(104): 100})
    rows = rows_of(DEVICES, SERVICES, rates)
    assert [(row.state.value, row.proven) for row in rows] == [
        ("paused", 0), ("unproven", 99), ("free", 10), ("free", 100), ("free", 10), ("paused", 0),
    ]  # fmt: skip
    assert [row.provider[0] for row in matching(parse_query("state=unproven"), rows)] == [2]
    (cards,) = (row for row in price_rows(rows, []) if row.kind is DeviceClass.DATACENTER)
    assert (cards.offers, cards.free, cards.lowest) == (1, 1, OGPU // 2)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [(3, 2), (2, 0), (1, 0), (4, 0), (1, 1), (3, 0)]),
        ("price<0.5", [(3, 2), (2, 0)]),
        ("price <= 0.5", [(3, 2), (2, 0), (1, 0), (4, 0)]),
        ("price>=1oGPU", [(1, 1), (3, 0)]),
        ("price=0.5", [(1, 0), (4, 0)]),
        ("price==0.5,2", [(1, 0), (4, 0), (3, 0)]),
        ("price!=0.5,2", [(3, 2), (2, 0), (1, 1)]),
        ("class=datacenter", [(2, 0), (4, 0)]),
        ("class = datacenter , consumer", [(3, 2), (2, 0), (4, 0), (3, 0)]),
        ("class!=datacenter", [(3, 2), (1, 0), (1, 1), (3, 0)]),
        ("class=datacenter price<0.5", [(2, 0)]),
        ("state=free service=0", [(1, 0), (4, 0)]),
        ("service>0", [(3, 2), (1, 1)]),
        (f"workload={SECOND.name}", [(1, 1)]),
        (f"workload!={SECOND.name}", [(3, 2), (2, 0), (1, 0), (4, 0), (3, 0)]),
        ("free_bond>=100", [(3, 2), (1, 0), (1, 1), (3, 0)]),
        ("bond<100", []),
        (f"provider=0x{name(2).hex()}", [(2, 0)]),
        (f"provider={ss58.encode(name(1))}", [(1, 0), (1, 1)]),
        ("device=0x6767", [(3, 2), (3, 0)]),
        ("since>5", []),
    ],
)
def test_queries(query: str, rows: list[tuple[int, int]]) -> None:
    assert found(query) == rows


@pytest.mark.parametrize(
    ("query", "code", "value"),
    [
        ("clas=cpu", "unknown_field", "did you mean class? "),
        ("class=gpu", "unknown_name", ": cpu, consumer, datacenter"),
        ("class<cpu", "no_order", "class"),
        ("price", "no_condition", "'price'"),
        ("price<", "invalid_amount", "price: "),
        ("price<1e3", "invalid_amount", "price: '1e3'"),
        ("price<0.5,1", "too_many_values", "2 values"),
        ("service=-1", "not_whole", "service: '-1'"),
        ("service=99999999999", "not_whole", "service: "),
        ("provider=Alice", "invalid_account", "provider: 'Alice'"),
        ("device=7", "invalid_device", "device: '7'"),
        ("workload=decoder", "unknown_name", "did you mean decoder-int8?"),
        ("state=busy", "unknown_name", "state: "),
        ("price in [1]", "no_condition", "'price'"),
        ("class=" + ",".join(["cpu"] * (VALUES_MAX + 1)), "too_many_values", "17 values"),
        ("price<1 " * (CONDITIONS_MAX + 1), "too_many_conditions", "17"),
        (" " * (QUERY_LETTERS_MAX + 1), "query_too_long", "501"),
    ],
)
def test_what_is_no_query(query: str, code: str, value: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_query(query)
    assert refused.value.code == code
    assert value in str(refused.value)


@given(st.text(alphabet="classpricetdv=<>!,.0159 \t[]'\u0663", max_size=40))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    try:
        matching(parse_query(text), ROWS)
    except QueryError as error:
        assert len(str(error)) < 300  # noqa: PT017  # either is right


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.booleans()), max_size=12), st.integers(0, 30))
def test_a_query_finds_what_its_words_say(asked: list[tuple[int, int, bool]], limit: int) -> None:
    devices = [
        device(number, {0: ask}, kind=DeviceClass(kind), is_paused=is_paused)
        for number, (ask, kind, is_paused) in enumerate(asked)
    ]
    rows = rows_of(devices, SERVICES)
    some = matching(parse_query(f"price<0.{limit:08} class!=cpu state=free"), rows)
    assert [row.provider[0] for row in some] == [
        number
        for number, (ask, kind, is_paused) in sorted(enumerate(asked), key=lambda entry: (entry[1][0], entry[0]))
        if ask < limit and kind != DeviceClass.CPU and not is_paused
    ]


def test_every_field_is_explained() -> None:
    assert all(field.doc for field in FIELDS.values())


# -------------------------------------------------------------------------------------------------------------- prices


def test_prices_by_service_and_class() -> None:
    settled = [
        SettledUnit(0, DeviceClass.CPU, 7, block=10),
        SettledUnit(0, DeviceClass.CPU, 9, block=12),
        SettledUnit(0, DeviceClass.CPU, 8, block=11),
        SettledUnit(6, DeviceClass.CPU, 5, block=3),
    ]
    rows = price_rows(ROWS, settled)
    assert [(row.service, row.kind.name, row.offers, row.free, row.lowest, row.median) for row in rows] == [
        (0, "CPU", 1, 1, OGPU // 2, OGPU // 2),
        (0, "CONSUMER", 0, 0, None, None),
        (0, "DATACENTER", 2, 1, OGPU // 10, OGPU // 10),
        (1, "CPU", 1, 1, OGPU, OGPU),
        (2, "CONSUMER", 0, 0, None, None),
        (6, "CPU", 0, 0, None, None),
    ]
    assert rows[0].last == settled[1]
    assert rows[5] == PriceRow(6, None, DeviceClass.CPU, 0, 0, None, None, settled[3])
    assert price_rows([], []) == []


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9))
def test_the_median_has_as_many_below_as_above_and_is_an_ask(asks: list[int]) -> None:
    (row,) = price_rows(rows_of([device(number, {0: ask}) for number, ask in enumerate(asks)], SERVICES), [])
    assert row.lowest == min(asks)
    assert row.median in asks
    assert sum(ask < row.median for ask in asks) <= len(asks) // 2
    assert sum(ask > row.median for ask in asks) <= len(asks) // 2
