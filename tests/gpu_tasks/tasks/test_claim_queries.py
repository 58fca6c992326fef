"""Queries over providers' claims and history: sizes, versions, shares. A missing claim never matches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.tasks.offer_query import FIELDS, QueryError, asks_for_claims, matching, parse_query
from gpu_tasks.tasks.offers import DeviceClaims, OfferRow, rows_of
from offered import OGPU, device, service

NOTHING = DeviceClaims("", "", 0, "", "", "", "", 0, 0, 0, 0, 0)
GAMER = DeviceClaims(
    "NVIDIA", "NVIDIA GeForce RTX 4090", 24_564, "550.54.14", "cuda", "12.4", "AMD Ryzen 9 7950X", 32, 65_536, 900_000,
    940_000, 0,
)  # fmt: skip
CENTER = replace(
    GAMER, vendor="AMD", model="AMD Instinct MI300X", vram_mib=192 * 1024, driver="6.7.0", platform="rocm",
    platform_version="6.1.2", up_kbit=10_000_000,
)  # fmt: skip
PLAIN = rows_of([device(number, {0: number * OGPU // 10}) for number in range(1, 5)], {0: service()})
ROWS: list[OfferRow] = [
    replace(row, claims=claims, reliability_ppm=ppm)
    for row, claims, ppm in zip(PLAIN, (GAMER, CENTER, NOTHING, None), (950_000, 800_000, None, 999_999), strict=True)
]


def found(query: str) -> list[int]:
    return [row.provider[0] for row in matching(parse_query(query), ROWS)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("vram>=24Gi", [2]),
        ("vram>=23Gi", [1, 2]),
        ("vram>=23.9Gi vram<1Ti", [1, 2]),
        ("vram<1Ti", [1, 2]),
        ("vram!=192Gi", [1]),
        ("model=4090", [1]),
        ("model=RTX4090,mi300", [1, 2]),
        ("model!=4090", [2]),
        ("vendor=nvidia", [1]),
        ("driver>=535", [1]),
        ("driver>=550.54.14 driver<=550.54.14", [1]),
        ("driver>550.54.9", [1]),
        ("driver<550.100", [1, 2]),
        ("cuda>=12", [1]),
        ("rocm>=6.1 rocm<7", [2]),
        ("cpu=ryzen cores>=32 memory>=64Gi disk>500Gi", [1, 2]),
        ("down>=900Mbit", [1, 2]),
        ("up>=1Gbit", [2]),
        ("reliability>0.9", [1, 4]),
        ("reliability>=80%", [1, 2, 4]),
        ("reliability=0.8", [2]),
        ("vram>=24Gi model=mi300x driver>=6 reliability>0.7 price<0.5", [2]),
        ("price<0.15 vram>=20Gi", [1]),
    ],
)
def test_claims_are_compared_as_what_they_are(query: str, rows: list[int]) -> None:
    assert found(query) == rows


@pytest.mark.parametrize(
    ("query", "code", "value"),
    [
        ("vram>=24", "invalid_size", "vram: '24'"),
        ("vram>=24GB", "invalid_size", "vram: "),
        ("driver>=new", "invalid_version", "driver: 'new'"),
        ("driver>=1.2.3.4.5", "invalid_version", "driver: "),
        ("reliability>2", "invalid_share", "reliability: '2'"),
        ("reliability>101%", "invalid_share", "reliability: "),
        ("model=-", "no_name", "model: '-'"),
        ("model<4090", "no_order", "model"),
        ("up>=fast", "invalid_rate", "up: 'fast'"),
        ("vran>=24Gi", "unknown_field", "did you mean vram?"),
    ],
)
def test_what_is_no_such_value_is_said(query: str, code: str, value: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(query)
    assert caught.value.code == code
    assert value in str(caught.value)


CLAIMED = [name for name, each in FIELDS.items() if each.is_claimed]


def test_providers_are_asked_only_where_a_condition_is_about_their_word() -> None:
    assert set(CLAIMED) == {
        "vram", "vendor", "model", "driver", "cuda", "rocm", "cpu", "cores", "memory", "disk", "down", "up",
    }  # fmt: skip
    assert asks_for_claims(parse_query("price<1 vram>=1Gi"))
    assert not asks_for_claims(parse_query("price<1 reliability>0.9 class=cpu"))


@pytest.mark.parametrize("name", CLAIMED)
@pytest.mark.parametrize("sign", ["=", "!=", "<", ">="])
def test_who_says_nothing_meets_no_condition(name: str, sign: str) -> None:
    value = {"vram": "1Gi", "memory": "1Gi", "disk": "1Gi", "down": "1Mbit", "up": "1Mbit"}.get(name, "1")
    if not FIELDS[name].has_order and sign not in {"=", "!="}:
        return
    silent = [row for row in ROWS if row.claims in (None, NOTHING)]
    assert matching(parse_query(f"{name}{sign}{value}"), silent) == []


@given(st.text(max_size=40), st.sampled_from(["driver>=1", "cuda>=1", "rocm>=1", "model=4090", "cpu=x", "vendor!=y"]))
def test_whatever_a_provider_says_is_compared(text: str, query: str) -> None:
    row = replace(ROWS[0], claims=DeviceClaims(text, text, 1, text, text, text, text, 1, 1, 1, 1, 1))
    assert matching(parse_query(query), [row]) in ([], [row])


@given(
    st.lists(st.integers(0, 99_999), min_size=1, max_size=4), st.lists(st.integers(0, 99_999), min_size=1, max_size=4)
)
def test_versions_are_ordered_by_their_parts(mine: list[int], other: list[int]) -> None:
    def padded(parts: list[int]) -> list[int]:
        return [*parts, 0, 0, 0, 0][:4]

    row = replace(ROWS[0], claims=replace(GAMER, driver=".".join(map(str, mine))))
    is_met = bool(matching(parse_query(f"driver>={'.'.join(map(str, other))}"), [row]))
    assert is_met == (padded(mine) >= padded(other))
