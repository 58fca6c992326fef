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
from gpu_tasks.workloads.registry import FORMS
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

    def holds(self, weekday: int, minute: int) -> bool:
        """Return True if a minute of a day (0: Monday) is included.

        Minutes past midnight belong to the day of `begin`.
        """
        if self.begin < self.end:
            return weekday in self.days and self.begin <= minute < self.end
        # Hours past midnight continue on the next day, so the day before decides the early minutes.
        is_of_yesterday = (weekday - 1) % len(DAYS) in self.days and minute < self.end
        return is_of_yesterday or (weekday in self.days and minute >= self.begin)


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

    def forbids(self, kind: str, weekday: int, minute: int, *, is_idle: bool) -> str:
        """Return the reason that the policy forbids a bid for this kind at a time; empty if it permits one."""
        if kind not in self.kinds:
            return f"the policy bids for {', '.join(self.kinds) or 'nothing'}, not for {kind}"
        if self.schedule and not any(hours.holds(weekday, minute) for hours in self.schedule):
            return "the policy's schedule allows no bid now"
        if self.only_when_idle and not is_idle:
            return "the policy bids only on an idle machine"
        return ""


def policy_of(text: str, kinds: Sequence[str]) -> BidPolicy:
    """Return the policy in a JSON text. `kinds` are the known workloads. Raise PolicyError if it is invalid."""
    try:
        # Repeated keys and NaN are errors: JSON's default would silently keep the last value.
        given = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except RecursionError:
        raise PolicyError("it is nested too deeply", code="not_json") from None
    except json.JSONDecodeError as error:
        raise PolicyError(f"it is not JSON: {error}", code="not_json") from None
    _check_keys(given, KEYS, "it is not a JSON object")
    return BidPolicy(
        kinds=tuple(kind_named(name, kinds) for name in _texts(given, "kinds")),
        least_price=price_of(_text(given, "least_price", "0 oGPU/h")),
        schedule=tuple(hours_of(span) for span in _texts(given, "schedule")),
        only_when_idle=_truth(given, "only_when_idle"),
        gangs=_truth(given, "gangs"),
        containers=_containers(given.get("containers", {})),
    )


def _check_keys(given: Any, keys: Sequence[str], why: str) -> None:
    """Raise PolicyError unless `given` is an object without unknown keys."""
    if not isinstance(given, dict):
        raise PolicyError(f"{why}; use only {', '.join(keys)}", code="not_an_object")
    # An ignored typing error would leave a default in force.
    for key in given:
        if key not in keys:
            raise PolicyError(unknown("key", key, keys), code="unknown_key")


def _containers(given: Any) -> ProgramMeans:
    """Return the limits for programs. Raise PolicyError if they are invalid."""
    _check_keys(given, ("images", *_TRUTHS, *_AMOUNTS), "containers must be an object")
    images, least = tuple(image_named(text) for text in _texts(given, "images")), _amounts(ProgramMeans())
    try:
        amounts: dict[str, Any] = {
            name: read(_text(given, key, least[key])) for key, (name, read, _) in _AMOUNTS.items()
        }
    except QuantityError as error:
        raise PolicyError(f"containers: it {error}", code="invalid_amount") from None
    return ProgramMeans(images=images, **{key: _truth(given, key) for key in _TRUTHS}, **amounts)


def _amounts(means: ProgramMeans) -> dict[str, str]:
    return {key: write(getattr(means, name)) for key, (name, _, write) in _AMOUNTS.items()}


def image_named(text: str) -> str:
    """Return the text of a repository, with or without a digest, or of an archive's id.

    Raise PolicyError for another.
    """
    repository, _, digest = text.partition("@sha256:")
    has_form = REPOSITORY_FORM.fullmatch(repository) and (not digest or SHA256_FORM.fullmatch(digest))
    is_id = text.startswith(ID_PREFIX) and SHA256_FORM.fullmatch(text.removeprefix(ID_PREFIX))
    if not is_id and (not has_form or ("@" in text and not digest) or text.startswith(ID_PREFIX)):
        name, _, tag = text.rpartition(":")
        if not {"/", "@"} & set(tag) and not text.startswith(ID_PREFIX) and REPOSITORY_FORM.fullmatch(name):
            raise PolicyError(
                f"containers: the tag of {shown(text)} may name another image tomorrow. Write {name} for all its "
                "images, or add the digest of one (@sha256:…)",
                code="image_with_tag",
            )
        raise PolicyError(
            f"containers: image {shown(text)} is neither a repository, with or without a digest (@sha256:…), nor an "
            "archive's id (sha256:…)",
            code="invalid_image",
        )
    return text


def keep_of(text: str, what: str = "workspaces") -> int:
    """Return the seconds to keep something, 0 for `none`. Raise QuantityError if the text is invalid."""
    if text == NOT_KEPT:
        return 0
    found = span(text)
    if found.blocks or not 1_000 <= found.milliseconds <= 1_000 * KEEP_SECONDS_MAX:
        raise QuantityError(f"keeps {what} for {text}; write `1h`, at most 30 days, or `{NOT_KEPT}`")
    return found.milliseconds // 1_000


def _keep_text(seconds: int) -> str:
    return f"{seconds}s" if seconds else NOT_KEPT


def _size_text(size: int) -> str:
    return f"{size >> 20}Mi"


_TRUTHS = ("any_archive", "outbound")
_AMOUNTS: dict[str, tuple[str, Callable[[str], int], Callable[[int], str]]] = {
    "cpu": ("cpu_thousandths", cpu_of, lambda thousandths: f"{thousandths / 1_000:g}"),
    "memory": ("memory_bytes", bytes_of, _size_text),
    "disk": ("disk_bytes", bytes_of, _size_text),
    "processes": ("processes", whole, str),
    "keep": ("keep_seconds", keep_of, _keep_text),
    "image_disk": ("image_disk_bytes", bytes_of, _size_text),
    "image_age": ("image_age_seconds", partial(keep_of, what="images"), _keep_text),
}
"""For each key of `containers`: the field of the means, its reader and its writer."""


def text_of(policy: BidPolicy) -> str:
    """Return the JSON text that `policy_of` reads as this policy."""
    fields = {
        "kinds": list(policy.kinds),
        "least_price": price_text(policy.least_price),
        "schedule": [hours_text(hours) for hours in policy.schedule],
        "only_when_idle": policy.only_when_idle,
        "gangs": policy.gangs,
        "containers": {
            "images": list(policy.containers.images),
            **{key: getattr(policy.containers, key) for key in _TRUTHS},
            **_amounts(policy.containers),
        },
    }
    return json.dumps(fields, indent=2) + "\n"


def kind_named(name: str, kinds: Sequence[str]) -> str:
    """Return a workload's name if it is known. Raise PolicyError with the known names otherwise."""
    if name not in kinds and any(form.name == name for form in FORMS):
        raise PolicyError(
            f"{name} is sold in units, not in auctioned tasks; offer it with `ogpu-provider offer`",
            code="sold_in_units",
        )
    if name not in kinds:
        raise PolicyError(unknown("kind", name, tuple(kinds)), code="unknown_kind")
    return name


def price_of(text: str) -> Rate:
    """Return a price for time, such as `0.5 oGPU/h`. Raise PolicyError if the text is invalid."""
    try:
        return rate(text)
    except QuantityError as error:
        raise PolicyError(f"least_price {shown(text)} {error}", code="invalid_price") from None


def price_text(price: Rate) -> str:
    """Return the text that `price_of` reads as this price."""
    if price.span.blocks:
        return f"{format_amount(price.grains)} {SYMBOL}/block"
    units = {86_400_000: "d", 3_600_000: "h", 60_000: "m", 1_000: "s"}
    return f"{format_amount(price.grains)} {SYMBOL}/{units[price.span.milliseconds]}"


def hours_of(text: str) -> Hours:
    """Return hours such as `mon-fri 22:00-06:00`, `sat` or `09:00-17:00`. Raise PolicyError if the text is invalid."""
    found = _SPAN.fullmatch(text)
    why = f"schedule {shown(text)} is invalid; write it like `mon-fri 22:00-06:00`, `sat-sun` or `09:00-17:00`, in UTC"
    if text != text.strip() or not text or found is None:
        raise PolicyError(why, code="invalid_schedule")
    first, last, *clock = found.groups()
    if any(day is not None and day not in DAYS for day in (first, last)):
        raise PolicyError(why, code="invalid_schedule")
    if clock[0] is None:
        return Hours(_days(first, last))
    begin, end = _minute(clock[0], clock[1], why), _minute(clock[2], clock[3], why)
    # Equal times could mean nothing or the whole day, and no day begins at 24:00.
    if begin in (end, MINUTES):
        raise PolicyError(why, code="invalid_schedule")
    return Hours(_days(first, last), begin, end)


def hours_text(hours: Hours) -> str:
    """Return the text that `hours_of` reads as these hours."""
    first = next((day for day in sorted(hours.days) if (day - 1) % len(DAYS) not in hours.days), 0)
    last = (first + len(hours.days) - 1) % len(DAYS)
    days = "" if len(hours.days) == len(DAYS) else DAYS[first] if first == last else f"{DAYS[first]}-{DAYS[last]}"
    is_whole_day = (hours.begin, hours.end) == (0, MINUTES)
    if is_whole_day and days:
        return days
    clock = f"{_clock(hours.begin)}-{_clock(hours.end)}"
    return f"{days} {clock}" if days else clock


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(len(DAYS)))
    begin = DAYS.index(first)
    end = begin if last is None else DAYS.index(last)
    return frozenset((begin + offset) % len(DAYS) for offset in range((end - begin) % len(DAYS) + 1))


def _minute(hour: str, minute: str, why: str) -> int:
    found = int(hour) * 60 + int(minute)
    if int(minute) >= 60 or found > MINUTES:
        raise PolicyError(why, code="invalid_schedule")
    return found


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) < len(pairs):
        raise PolicyError("it repeats a key", code="repeated_key")
    return given


def _refuse_constant(name: str) -> Any:
    raise PolicyError(f"{name} is not a value here", code="not_json")


def _texts(given: dict[str, Any], key: str) -> list[str]:
    value = given.get(key, [])
    is_list = isinstance(value, list) and len(value) <= SPANS_MAX
    if not is_list or not all(isinstance(each, str) for each in value):
        raise PolicyError(f"{key} must be a list of at most {SPANS_MAX} texts", code="wrong_kind")
    return [str(each) for each in value]


def _text(given: dict[str, Any], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str):
        raise PolicyError(f"{key} must be a text, such as {default!r}", code="wrong_kind")
    return value


def _truth(given: dict[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise PolicyError(f"{key} must be true or false", code="wrong_kind")
    return value
