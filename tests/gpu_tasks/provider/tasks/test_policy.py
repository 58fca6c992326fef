"""Policies: parsed strictly, written as they are parsed, and their prohibitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import (
    DAYS,
    MINUTES,
    BidPolicy,
    Hours,
    PolicyError,
    hours_of,
    hours_text,
    policy_of,
    price_of,
    text_of,
)

KINDS = ("train-int8", "other")
MONDAY, FRIDAY, SATURDAY, SUNDAY = 0, 4, 5, 6


def spans() -> st.SearchStrategy[Hours]:
    minutes = st.integers(0, MINUTES - 1)

    def made(first: int, count: int, begin: int, end: int) -> Hours:
        days = frozenset((first + offset) % 7 for offset in range(count))
        return Hours(days) if begin == end else Hours(days, begin, end)

    return st.builds(made, st.integers(0, 6), st.integers(1, 7), minutes, minutes)


policies = st.builds(
    BidPolicy,
    kinds=st.sampled_from([(), ("train-int8",), KINDS]),
    least_price=st.sampled_from(["0 oGPU/h", "0.5 oGPU/h", "7 grains/block", "2 oGPU/d"]).map(price_of),
    schedule=st.lists(spans(), max_size=3).map(tuple),
    only_when_idle=st.booleans(),
    gangs=st.booleans(),
    containers=st.builds(
        ProgramMeans,
        images=st.sampled_from(
            [(), ("ghcr.io/acme/lora",), (f"a/b@sha256:{'ab' * 32}", "localhost:5000/c"), (f"sha256:{'ab' * 32}",)]
        ),
        any_archive=st.booleans(),
        outbound=st.booleans(),
        cpu_thousandths=st.integers(10, 512_000),
        memory_bytes=st.integers(1, 4_096).map(lambda mebibytes: mebibytes << 20),
        disk_bytes=st.integers(1, 4_096).map(lambda mebibytes: mebibytes << 20),
        processes=st.integers(16, 65_536),
        keep_seconds=st.integers(0, 30 * 86_400),
        image_disk_bytes=st.integers(1, 4_096).map(lambda mebibytes: mebibytes << 20),
        image_age_seconds=st.integers(0, 30 * 86_400),
    ),
)


@given(policies)
def test_a_policy_is_read_as_it_was_written(policy: BidPolicy) -> None:
    assert policy_of(text_of(policy), KINDS) == policy


@pytest.mark.parametrize(
    ("containers", "says"),
    [
        ("[]", "be an object"),
        ('{"image": []}', "there is no key 'image'; did you mean images?"),
        ('{"images": ["ghcr.io/acme/lora:latest/"]}', "neither a repository"),
        ('{"images": ["a@sha256:12"]}', "neither a repository"),
        ('{"images": ["a@b"]}', "neither a repository"),
        ('{"images": ["sha256:12"]}', "nor an archive's id"),
        ('{"any_archive": "yes"}', "any_archive must be"),
        ('{"cpu": "x"}', "number of cores"),
        ('{"memory": "12"}', "not a size"),
        ('{"outbound": 1}', "outbound must be"),
        ('{"processes": "-1"}', "a whole number"),
        ('{"keep": "2 blocks"}', "keeps workspaces for 2 blocks"),
        ('{"keep": "31d"}', "at most 30 days"),
        ('{"keep": "soon"}', "not a time"),
        ('{"image_disk": "20"}', "not a size"),
        ('{"image_age": "31d"}', "keeps images for 31d"),
    ],
)
def test_what_programs_may_use_is_read_strictly(containers: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(f'{{"containers": {containers}}}', KINDS)
    assert says in str(caught.value)


@given(spans(), st.integers(0, 6), st.integers(0, MINUTES - 1))
def test_a_span_holds_the_minutes_that_its_text_names(hours: Hours, day: int, minute: int) -> None:
    assert hours_of(hours_text(hours)).holds(day, minute) == hours.holds(day, minute)
    if hours.begin < hours.end:
        assert hours.holds(day, minute) == (day in hours.days and hours.begin <= minute < hours.end)


@pytest.mark.parametrize(
    ("text", "day", "clock", "holds"),
    [
        ("mon-fri 22:00-06:00", FRIDAY, 23 * 60, True),
        ("mon-fri 22:00-06:00", SATURDAY, 5 * 60 + 59, True),
        ("mon-fri 22:00-06:00", SATURDAY, 6 * 60, False),
        ("mon-fri 22:00-06:00", MONDAY, 5 * 60, False),
        ("sat-sun", SUNDAY, 0, True),
        ("sat-sun", MONDAY, 0, False),
        ("sat-mon", MONDAY, 12, True),
        ("09:00-17:00", SUNDAY, 17 * 60, False),
        ("09:00-17:00", SUNDAY, 9 * 60, True),
        ("tue 00:00-24:00", 1, MINUTES - 1, True),
    ],
)
def test_times_of_the_week(text: str, day: int, clock: int, holds: bool) -> None:
    assert hours_of(text).holds(day, clock) is holds


@pytest.mark.parametrize(
    "text",
    ["", " ", "mon-", "Mon", "mon 9:00-10:00", "mon09:00-10:00", "25:00-26:00", "10:60-11:00", "09:00-09:00",
     "24:00-06:00", "xyz", "mon-fri 22:00", " 09:00-10:00"],
)  # fmt: skip
def test_what_is_no_time_of_the_week_is_refused(text: str) -> None:
    with raises_code(PolicyError, "invalid_schedule"):
        hours_of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_json"),
        ("[]", "not_an_object"),
        ("[" * 100_000, "not_json"),
        ('{"kind": []}', "unknown_key"),
        ('{"kinds": ["train-int-8"]}', "unknown_kind"),
        ('{"kinds": "train-int8"}', "wrong_kind"),
        ('{"kinds": [1]}', "wrong_kind"),
        ('{"kinds": [], "kinds": []}', "repeated_key"),
        ('{"least_price": 5}', "wrong_kind"),
        ('{"least_price": "5"}', "invalid_price"),
        ('{"least_price": "5 oGPU"}', "invalid_price"),
        ('{"only_when_idle": 1}', "wrong_kind"),
        ('{"gangs": "yes"}', "wrong_kind"),
        ('{"gangs": NaN}', "not_json"),
        ('{"schedule": ["funday"]}', "invalid_schedule"),
    ],
)
def test_what_is_no_policy_is_refused_with_a_reason(text: str, reason: str) -> None:
    with raises_code(PolicyError, reason):
        policy_of(text, KINDS)


def test_an_empty_policy_bids_for_nothing() -> None:
    assert policy_of("{}", KINDS) == BidPolicy()
    assert "bids for nothing" in BidPolicy().forbids("train-int8", MONDAY, 0, is_idle=True)


@pytest.mark.parametrize(
    ("policy", "is_idle", "reason"),
    [
        (BidPolicy(("train-int8",)), False, ""),
        (BidPolicy(("other",)), True, "bids for other"),
        (BidPolicy(("train-int8",), schedule=(hours_of("tue"),)), True, "schedule"),
        (BidPolicy(("train-int8",), schedule=(hours_of("tue"), hours_of("mon"))), True, ""),
        (BidPolicy(("train-int8",), only_when_idle=True), False, "idle"),
        (BidPolicy(("train-int8",), only_when_idle=True), True, ""),
    ],
)
def test_what_a_policy_forbids(policy: BidPolicy, is_idle: bool, reason: str) -> None:
    found = policy.forbids("train-int8", MONDAY, 60, is_idle=is_idle)
    assert reason in found
    assert bool(found) is bool(reason)


def test_the_days_are_a_week() -> None:
    assert len(DAYS) == 7
