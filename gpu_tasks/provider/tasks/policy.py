"""The operator's policy for bids: kinds of tasks, prices and times. It is read from text.

Invariants:

* A policy is read strictly, so that a typing error is reported and causes no bid.
* Without a policy there are no bids.
* Each refusal is a sentence, because the log has a reason for each auction without a bid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpu_tasks.provider.execution.containers.spec import REPOSITORY_FORM, SHA256_FORM
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.tasks.problems import shown, unknown
from gpu_tasks.tasks.quantities import QuantityError, Rate, TimeSpan, bytes_of, cpu_of, rate, span, whole
from gpu_tasks.workloads.registry import workload_names
from wallet.amounts import SYMBOL, format_amount
from wallet.errors import CodedError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES = 24 * 60
SPANS_MAX = 32
KEYS = ("kinds", "least_price", "schedule", "only_when_idle", "gangs", "containers")
ID_PREFIX = "sha256:"
NOT_KEPT = "none"
KEEP_SECONDS_MAX = 30 * 86_400
_SPAN = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))?)?(?:(?:^| )(\d\d):(\d\d)-(\d\d):(\d\d))?", re.ASCII)


class PolicyError(CodedError):
    """The policy is invalid. The text states the correction."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of the week in UTC: minutes `begin` to `end` on these days, past midnight if `end` is earlier."""

    days: frozenset[int]
    begin: int = 0
    end: int = MINUTES

    def holds(self, weekday: int, minute_of_day: int) -> bool:
        """Return True if a minute of a day (0: Monday) is included.

        Minutes past midnight belong to the day of `begin`.
        """
        if self.begin < self.end:
            return weekday in self.days and self.begin <= minute_of_day < self.end
        # Hours past midnight continue on the next day, so the day before decides the early minutes.
        is_of_yesterday = (weekday - 1) % len(DAYS) in self.days and minute_of_day < self.end
        return is_of_yesterday or (weekday in self.days and minute_of_day >= self.begin)


@dataclass(frozen=True, slots=True)
class BidPolicy:
    """The conditions for bids."""

    kinds: tuple[str, ...] = ()
    """Workloads by name. Without any there are no bids."""
    least_price: Rate = field(default_factory=lambda: Rate(0, TimeSpan(milliseconds=3_600_000)))
    """The least price for a device's time, after the fee."""
    schedule: tuple[Hours, ...] = ()
    """The hours for bids; empty for always. A won task may run outside them."""
    only_when_idle: bool = False
    """True if a busy machine makes no bids."""
    gangs: bool = False
    """True to join gangs in which late blocks cost. A slow partner can bind the provider longer than it promised."""

    containers: ProgramMeans = field(default_factory=ProgramMeans)
    """Limits for programs in containers. The permitted programs are fixed when the daemon starts."""

    def forbids(self, kind: str, weekday: int, minute_of_day: int, *, is_idle: bool) -> str:
        """Return the reason that the policy forbids a bid for this kind at a time; empty if it permits one."""
        if kind not in self.kinds:
            return f"the policy bids for {', '.join(self.kinds) or 'nothing'}, not for {kind}"
        if self.schedule and not any(hours.holds(weekday, minute_of_day) for hours in self.schedule):
            return "the policy's schedule allows no bid now"
        if self.only_when_idle and not is_idle:
            return "the policy bids only on an idle machine"
        return ""


def policy_of(text: str, known_kinds: Sequence[str]) -> BidPolicy:
    """Return the policy in a JSON text. `known_kinds` are the known workloads. Raise PolicyError if it is invalid."""
    try:
        # Repeated keys and NaN are errors: JSON's default would silently keep the last value.
        given_values = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except RecursionError:
        raise PolicyError("it is nested too deeply", code="not_json") from None
    except json.JSONDecodeError as error:
        raise PolicyError(f"it is not JSON: {error}", code="not_json") from None
    _check_keys(given_values, KEYS, "it is not a JSON object")
    return BidPolicy(
        kinds=tuple(kind_named(kind_name, known_kinds) for kind_name in _text_values(given_values, "kinds")),
        least_price=price_of(_text_value(given_values, "least_price", "0 oGPU/h")),
        schedule=tuple(hours_of(hours_span) for hours_span in _text_values(given_values, "schedule")),
        only_when_idle=_truth_value(given_values, "only_when_idle"),
        gangs=_truth_value(given_values, "gangs"),
        containers=_containers(given_values.get("containers", {})),
    )


def _check_keys(given_values: Any, known_keys: Sequence[str], reason: str) -> None:
    """Raise PolicyError unless `given_values` is an object without unknown keys."""
    if not isinstance(given_values, dict):
        raise PolicyError(f"{reason}; use only {', '.join(known_keys)}", code="not_an_object")
    # An ignored typing error would leave a default in force.
    for given_key in given_values:
        if given_key not in known_keys:
            raise PolicyError(unknown("key", given_key, known_keys), code="unknown_key")


def _containers(given_values: Any) -> ProgramMeans:
    """Return the limits for programs. Raise PolicyError if they are invalid."""
    _check_keys(given_values, ("images", *_TRUTHS, *_AMOUNTS), "containers must be an object")
    image_names, least_amounts = (
        tuple(image_named(text) for text in _text_values(given_values, "images")),
        _amount_texts(ProgramMeans()),
    )
    try:
        amounts: dict[str, Any] = {
            amount_name: read_amount(_text_value(given_values, truth_key, least_amounts[truth_key]))
            for truth_key, (amount_name, read_amount, _) in _AMOUNTS.items()
        }
    except QuantityError as error:
        raise PolicyError(f"containers: it {error}", code="invalid_amount") from None
    return ProgramMeans(
        images=image_names, **{truth_key: _truth_value(given_values, truth_key) for truth_key in _TRUTHS}, **amounts
    )


def _amount_texts(means: ProgramMeans) -> dict[str, str]:
    return {
        truth_key: amount_text_of(getattr(means, amount_name))
        for truth_key, (amount_name, _, amount_text_of) in _AMOUNTS.items()
    }


def image_named(text: str) -> str:
    """Return the text of a repository, with or without a digest, or of an archive's id.

    Raise PolicyError for another.
    """
    repository, _, image_digest = text.partition("@sha256:")
    has_form = REPOSITORY_FORM.fullmatch(repository) and (not image_digest or SHA256_FORM.fullmatch(image_digest))
    is_image_id = text.startswith(ID_PREFIX) and SHA256_FORM.fullmatch(text.removeprefix(ID_PREFIX))
    if not is_image_id and (not has_form or ("@" in text and not image_digest) or text.startswith(ID_PREFIX)):
        repository_name, _, image_tag = text.rpartition(":")
        if (
            not {"/", "@"} & set(image_tag)
            and not text.startswith(ID_PREFIX)
            and REPOSITORY_FORM.fullmatch(repository_name)
        ):
            raise PolicyError(
                f"containers: the tag of {shown(text)} may name another image tomorrow. "
                f"Write {repository_name} for all its "
                "images, or add the digest of one (@sha256:…)",
                code="image_with_tag",
            )
        raise PolicyError(
            f"containers: image {shown(text)} is neither a repository, with or without a digest "
            f"(@sha256:…), nor an "
            "archive's id (sha256:…)",
            code="invalid_image",
        )
    return text


def keep_of(text: str, value_name: str = "workspaces") -> int:
    """Return the seconds to keep something, 0 for `none`. Raise QuantityError if the text is invalid."""
    if text == NOT_KEPT:
        return 0
    time_span = span(text)
    if time_span.blocks or not 1_000 <= time_span.milliseconds <= 1_000 * KEEP_SECONDS_MAX:
        raise QuantityError(f"keeps {value_name} for {text}; write `1h`, at most 30 days, or `{NOT_KEPT}`")
    return time_span.milliseconds // 1_000


def _keep_text(keep_seconds: int) -> str:
    return f"{keep_seconds}s" if keep_seconds else NOT_KEPT


def _size_text(size_bytes: int) -> str:
    return f"{size_bytes >> 20}Mi"


_TRUTHS = ("any_archive", "outbound")
_AMOUNTS: dict[str, tuple[str, Callable[[str], int], Callable[[int], str]]] = {
    "cpu": ("cpu_thousandths", cpu_of, lambda thousandths: f"{thousandths / 1_000:g}"),
    "memory": ("memory_bytes", bytes_of, _size_text),
    "disk": ("disk_bytes", bytes_of, _size_text),
    "processes": ("processes", whole, str),
    "keep": ("keep_seconds", keep_of, _keep_text),
    "image_disk": ("image_disk_bytes", bytes_of, _size_text),
    "image_age": ("image_age_seconds", partial(keep_of, value_name="images"), _keep_text),
}
"""For each key of `containers`: the field of the means, its reader and its writer."""


def text_of(policy: BidPolicy) -> str:
    """Return the JSON text that `policy_of` reads as this policy."""
    policy_fields = {
        "kinds": list(policy.kinds),
        "least_price": price_text(policy.least_price),
        "schedule": [hours_text(hours) for hours in policy.schedule],
        "only_when_idle": policy.only_when_idle,
        "gangs": policy.gangs,
        "containers": {
            "images": list(policy.containers.images),
            **{truth_key: getattr(policy.containers, truth_key) for truth_key in _TRUTHS},
            **_amount_texts(policy.containers),
        },
    }
    return json.dumps(policy_fields, indent=2) + "\n"


def kind_named(kind_name: str, known_kinds: Sequence[str]) -> str:
    """Return a workload's name if it is known. Raise PolicyError with the known names otherwise."""
    if kind_name not in known_kinds and kind_name.partition(":")[0] in workload_names().values():
        raise PolicyError(
            f"{kind_name} is sold in units, not in auctioned tasks; offer it with `ogpu-provider offer`",
            code="sold_in_units",
        )
    if kind_name not in known_kinds:
        raise PolicyError(unknown("kind", kind_name, tuple(known_kinds)), code="unknown_kind")
    return kind_name


def price_of(text: str) -> Rate:
    """Return a price for time, such as `0.5 oGPU/h`. Raise PolicyError if the text is invalid."""
    try:
        return rate(text)
    except QuantityError as error:
        raise PolicyError(f"least_price {shown(text)} {error}", code="invalid_price") from None


def price_text(price_rate: Rate) -> str:
    """Return the text that `price_of` reads as this price."""
    if price_rate.span.blocks:
        return f"{format_amount(price_rate.grains)} {SYMBOL}/block"
    unit_by_ms = {86_400_000: "d", 3_600_000: "h", 60_000: "m", 1_000: "s"}
    return f"{format_amount(price_rate.grains)} {SYMBOL}/{unit_by_ms[price_rate.span.milliseconds]}"


def hours_of(text: str) -> Hours:
    """Return hours such as `mon-fri 22:00-06:00`, `sat` or `09:00-17:00`. Raise PolicyError if the text is invalid."""
    hours_match = _SPAN.fullmatch(text)
    refusal_text = (
        f"schedule {shown(text)} is invalid; write it like `mon-fri 22:00-06:00`, `sat-sun` or `09:00-17:00`, in UTC"
    )
    if text != text.strip() or not text or hours_match is None:
        raise PolicyError(refusal_text, code="invalid_schedule")
    first_day, last_day, *clock_parts = hours_match.groups()
    if any(day_name is not None and day_name not in DAYS for day_name in (first_day, last_day)):
        raise PolicyError(refusal_text, code="invalid_schedule")
    if clock_parts[0] is None:
        return Hours(_day_numbers(first_day, last_day))
    begin_minute, end_minute = (
        _minute_of_day(clock_parts[0], clock_parts[1], refusal_text),
        _minute_of_day(clock_parts[2], clock_parts[3], refusal_text),
    )
    # Equal times could mean nothing or the whole day, and no day begins at 24:00.
    if begin_minute in (end_minute, MINUTES):
        raise PolicyError(refusal_text, code="invalid_schedule")
    return Hours(_day_numbers(first_day, last_day), begin_minute, end_minute)


def hours_text(hours: Hours) -> str:
    """Return the text that `hours_of` reads as these hours."""
    first_day = next(
        (day_number for day_number in sorted(hours.days) if (day_number - 1) % len(DAYS) not in hours.days), 0
    )
    last_day = (first_day + len(hours.days) - 1) % len(DAYS)
    days_text = (
        ""
        if len(hours.days) == len(DAYS)
        else DAYS[first_day]
        if first_day == last_day
        else f"{DAYS[first_day]}-{DAYS[last_day]}"
    )
    is_whole_day = (hours.begin, hours.end) == (0, MINUTES)
    if is_whole_day and days_text:
        return days_text
    clock_text = f"{_clock_text(hours.begin)}-{_clock_text(hours.end)}"
    return f"{days_text} {clock_text}" if days_text else clock_text


def _day_numbers(first_day: str | None, last_day: str | None) -> frozenset[int]:
    if first_day is None:
        return frozenset(range(len(DAYS)))
    begin_day = DAYS.index(first_day)
    end_day = begin_day if last_day is None else DAYS.index(last_day)
    return frozenset(
        (begin_day + day_offset) % len(DAYS) for day_offset in range((end_day - begin_day) % len(DAYS) + 1)
    )


def _minute_of_day(hour_text: str, minute_text: str, refusal_text: str) -> int:
    minute_of_day = int(hour_text) * 60 + int(minute_text)
    if int(minute_text) >= 60 or minute_of_day > MINUTES:
        raise PolicyError(refusal_text, code="invalid_schedule")
    return minute_of_day


def _clock_text(minute_of_day: int) -> str:
    return f"{minute_of_day // 60:02}:{minute_of_day % 60:02}"


def _without_repeats(key_value_pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    given_values = dict(key_value_pairs)
    if len(given_values) < len(key_value_pairs):
        raise PolicyError("it repeats a key", code="repeated_key")
    return given_values


def _refuse_constant(constant_name: str) -> Any:
    raise PolicyError(f"{constant_name} is not a value here", code="not_json")


def _text_values(given_values: dict[str, Any], key: str) -> list[str]:
    given_value = given_values.get(key, [])
    is_short_list = isinstance(given_value, list) and len(given_value) <= SPANS_MAX
    if not is_short_list or not all(isinstance(list_item, str) for list_item in given_value):
        raise PolicyError(f"{key} must be a list of at most {SPANS_MAX} texts", code="wrong_kind")
    return [str(list_item) for list_item in given_value]


def _text_value(given_values: dict[str, Any], key: str, default_text: str) -> str:
    given_value = given_values.get(key, default_text)
    if not isinstance(given_value, str):
        raise PolicyError(f"{key} must be a text, such as {default_text!r}", code="wrong_kind")
    return given_value


def _truth_value(given_values: dict[str, Any], key: str) -> bool:
    given_value = given_values.get(key, False)
    if not isinstance(given_value, bool):
        raise PolicyError(f"{key} must be true or false", code="wrong_kind")
    return given_value
