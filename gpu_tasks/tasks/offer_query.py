"""A query over offers: `class=datacenter price<0.5 state=free`. All conditions must hold.

Invariant: every field is known and compared by its type: amounts as grains, names as names. The length and the number
of conditions are bounded, and a query makes one comparison for each condition and row.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne

from gpu_tasks.market.devices.records import CLASS_NAMES
from gpu_tasks.tasks.offers import DeviceClaims, DeviceState, OfferRow
from gpu_tasks.tasks.problems import shown, unknown
from gpu_tasks.workloads import registry
from runtime.cryptography import ss58
from wallet.amounts import parse_amount
from wallet.errors import AmountError, WalletError

QUERY_LETTERS_MAX = 500
CONDITIONS_MAX = 16
VALUES_MAX = 16
DIGITS_MAX = 10
Value = int | bytes | str
_CONDITION = re.compile(r"([A-Za-z_]+)(<=|>=|!=|==|=|<|>)(.*)", re.DOTALL)
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "!=": ne}


class QueryError(WalletError):
    """The query is invalid. The message says where, why, and which forms exist."""


@dataclass(frozen=True, slots=True)
class QueryField:
    """A property of an offer for queries."""

    doc: str
    read: Callable[[str], Value]
    """Raises QueryError for any other text."""
    of: Callable[[OfferRow], Value | None]
    has_order: bool = False
    is_part: bool = False
    """True if a part of the found text suffices."""
    is_claimed: bool = False
    """True if the value is a provider's claim, not a fact of the chain."""


@dataclass(frozen=True, slots=True)
class QueryCondition:
    """A field compared with values: with `=` at least one must hold, with `!=` none may."""

    field: QueryField
    sign: str
    values: tuple[Value, ...]

    def holds(self, row: OfferRow) -> bool:
        """Return True for a row that meets the condition. Bytes are compared up to the given length."""
        value = self.field.of(row)
        if isinstance(value, int):
            comparisons = [_COMPARED[self.sign](value, wanted) for wanted in self.values if isinstance(wanted, int)]
            # `!=` with several values means that none of them matches.
            return all(comparisons) if self.sign == "!=" else any(comparisons)
        if value is None and self.field.is_claimed:
            return False  # A provider that claims nothing never matches, not even `!=`
        is_met = any(
            _is_part_of(value, wanted) if self.field.is_part else _begins_with(value, wanted) for wanted in self.values
        )
        return is_met != (self.sign == "!=")


def parse_query(text: str) -> tuple[QueryCondition, ...]:
    """Return the conditions of a query, none of an empty one. Raise QueryError for an invalid query."""
    if len(text) > QUERY_LETTERS_MAX:
        raise QueryError(
            f"the query has {len(text)} letters; at most {QUERY_LETTERS_MAX} are allowed", code="query_too_long"
        )
    # `price < 0.5` is `price<0.5`: blanks round a sign belong to the condition
    conditions = re.sub(r"\s*(<=|>=|!=|==|=|<|>|,)\s*", r"\1", text).split()
    if len(conditions) > CONDITIONS_MAX:
        raise QueryError(
            f"the query has {len(conditions)} conditions; at most {CONDITIONS_MAX} are allowed",
            code="too_many_conditions",
        )
    return tuple(_condition(condition) for condition in conditions)


def asks_for_claims(conditions: Iterable[QueryCondition]) -> bool:
    """Return True if a condition needs the providers' claims about their machines."""
    return any(condition.field.is_claimed for condition in conditions)


def matching(conditions: Sequence[QueryCondition], rows: Iterable[OfferRow]) -> list[OfferRow]:
    """Return the rows for which all conditions hold, in their order."""
    return [row for row in rows if all(condition.holds(row) for condition in conditions)]


def _condition(condition: str) -> QueryCondition:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise QueryError(
            f"{shown(condition)} is not a condition; write a field, a sign and a value: `price<0.5`",
            code="no_condition",
        )
    name, sign, values_text = match.groups()
    field = FIELDS.get(name)
    if field is None:
        raise QueryError(unknown("field", name, list(FIELDS)), code="unknown_field")
    sign = "=" if sign == "==" else sign
    if sign not in {"=", "!="} and not field.has_order:
        raise QueryError(f"{name} has no order, so {sign} cannot compare it; use = or !=", code="no_order")
    texts = values_text.split(",")
    # An inequality has one bound. Only equality takes a list.
    if len(texts) > (VALUES_MAX if sign in {"=", "!="} else 1):
        raise QueryError(
            f"{name}{sign} has {len(texts)} values; give 1, or up to {VALUES_MAX} with = and !=",
            code="too_many_values",
        )
    try:
        return QueryCondition(field, sign, tuple(field.read(text) for text in texts))
    except QueryError as error:
        raise QueryError(f"{name}: {error}", code=error.code) from None


def _begins_with(value: Value | None, wanted: Value) -> bool:
    if isinstance(value, bytes) and isinstance(wanted, bytes):
        return value.startswith(wanted)
    return value == wanted


def _is_part_of(value: Value | None, wanted: Value) -> bool:
    return (
        isinstance(value, str) and isinstance(wanted, str) and _letters_and_digits(wanted) in _letters_and_digits(value)
    )


def _letters_and_digits(text: str) -> str:
    """Return the letters and digits alone, because a condition has no room for blanks."""
    return "".join(character for character in text.lower() if character.isalnum())


def _read_amount(text: str) -> int:
    try:
        return parse_amount(text)
    except AmountError as error:
        raise QueryError(str(error), code=error.code) from None


def _read_whole(text: str) -> int:
    if re.fullmatch(rf"[0-9]{{1,{DIGITS_MAX}}}", text, re.ASCII) is None:
        raise QueryError(f"{shown(text)} is not a whole number", code="not_whole")
    return int(text)


def _read_name(text: str) -> str:
    if not _letters_and_digits(text):
        raise QueryError(
            f"{shown(text)} has no letter or digit; write a part of the name, such as 4090", code="no_name"
        )
    return text


def _read_mebibytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,7})(?:\.([0-9]{1,3}))?(Mi|Gi|Ti)", text, re.ASCII)
    if match is None:
        raise QueryError(f"{shown(text)} is not a size; write it like 24Gi or 512Mi", code="invalid_size")
    thousandths = int(match[1]) * 1_000 + int((match[2] or "0").ljust(3, "0"))
    return -(-thousandths * {"Mi": 1, "Gi": 1_024, "Ti": 1_024**2}[match[3]] // 1_000)


def _read_kilobits(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})(M|G)bit", text, re.ASCII)
    if match is None:
        raise QueryError(f"{shown(text)} is not a rate; write it like 100Mbit or 1Gbit", code="invalid_rate")
    return int(match[1]) * {"M": 1_000, "G": 1_000_000}[match[2]]


def _read_version(text: str) -> int:
    """Return a whole number that grows as versions do: up to four parts of at most five digits."""
    if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}", text, re.ASCII) is None:
        raise QueryError(f"{shown(text)} is not a version; write it like 535.104", code="invalid_version")
    parts = [int(part) for part in text.split(".")]
    number = 1  # Version 0 then has a value too, and only a missing claim is 0
    for part in (*parts, 0, 0, 0)[:4]:
        # A part has at most five digits, so the numbers keep the order of the versions.
        number = number * 100_000 + part
    return number


def _read_share(text: str) -> int:
    """Return `0.9` or `90%` in millionths."""
    match = re.fullmatch(r"([0-9]{1,3})(?:\.([0-9]{1,6}))?(%?)", text, re.ASCII)
    millionths = -1
    if match is not None:
        digits_in_millionths = int(match[1]) * 1_000_000 + int((match[2] or "0").ljust(6, "0"))
        millionths = digits_in_millionths // 100 if match[3] else digits_in_millionths
    if not 0 <= millionths <= 1_000_000:
        raise QueryError(f"{shown(text)} is not a share; write it like 0.9 or 90%", code="invalid_share")
    return millionths


def _claimed(read: Callable[[DeviceClaims], Value | None]) -> Callable[[OfferRow], Value | None]:
    """Return the reader of a claim, which gives None for a provider without it."""
    # 0 and the empty text mean that the provider claims nothing.
    return lambda row: None if row.claims is None else read(row.claims) or None


def _claimed_version(text: str) -> int | None:
    """Return the version at the beginning of a provider's text, or None."""
    # A longer number would not fit `_read_version`, so it counts as no claim.
    match = re.match(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}(?![0-9])", text, re.ASCII)
    return None if match is None else _read_version(match[0])


def _reader_of_choice(kind: str, names: Iterable[str]) -> Callable[[str], str]:
    known = list(names)

    def read(text: str) -> str:
        if text not in known:
            raise QueryError(unknown(kind, text, known), code="unknown_name")
        return text

    return read


def _read_account(text: str) -> bytes:
    try:
        return ss58.account_from_text(text)
    except ValueError as error:
        raise QueryError(
            f"{shown(text)} is not an account ({error}); give an address, or 0x and 64 hex digits",
            code="invalid_account",
        ) from None


def _read_device_id(text: str) -> bytes:
    # Whole bytes, because ids are compared as bytes.
    if re.fullmatch("0x([0-9a-fA-F]{2}){1,32}", text, re.ASCII) is None:
        raise QueryError(
            f"{shown(text)} is not a device; give 0x and its first hex digits, two per byte",
            code="invalid_device",
        )
    return bytes.fromhex(text[2:])


def _claim_field(
    description: str,
    read: Callable[[str], Value],
    claim_reader: Callable[[DeviceClaims], Value | None],
    *,
    has_order: bool = True,
) -> QueryField:
    """Return the field of a number that a provider claims."""
    return QueryField(description, read, _claimed(claim_reader), has_order=has_order, is_claimed=True)


def _claimed_name_field(description: str, claim_reader: Callable[[DeviceClaims], str]) -> QueryField:
    return QueryField(description, _read_name, _claimed(claim_reader), is_part=True, is_claimed=True)


def _platform_version(claims: DeviceClaims, platform_name: str) -> int | None:
    return _claimed_version(claims.platform_version) if claims.platform == platform_name else None


FIELDS: Mapping[str, QueryField] = {
    "class": QueryField(
        "cpu, consumer or datacenter", _reader_of_choice("class", CLASS_NAMES), lambda row: row.kind.name.lower()
    ),
    "price": QueryField(
        "the provider's price for a unit, in oGPU", _read_amount, lambda row: row.price, has_order=True
    ),
    "service": QueryField("the service's number", _read_whole, lambda row: row.service, has_order=True),
    "workload": QueryField(
        "the workload", _reader_of_choice("workload", [*registry.workload_names().values()]), lambda row: row.workload
    ),
    "state": QueryField(
        "free, working, paused or unproven",
        _reader_of_choice("state", [state.value for state in DeviceState]),
        lambda row: row.state.value,
    ),
    "bond": QueryField("the device's bond, in oGPU", _read_amount, lambda row: row.bond, has_order=True),
    "free_bond": QueryField(
        "the part of the bond that secures no unit, in oGPU", _read_amount, lambda row: row.free_bond, has_order=True
    ),
    "provider": QueryField("an account", _read_account, lambda row: row.provider),
    "device": QueryField(
        "the first digits of the device's id, as 0x and hex digits", _read_device_id, lambda row: row.device
    ),
    "since": QueryField("the block of the last price change", _read_whole, lambda row: row.since, has_order=True),
    "reliability": QueryField(
        "the provider's reliability in the chain's history, 0 to 1",
        _read_share,
        lambda row: row.reliability_ppm,
        has_order=True,
    ),
    "vram": _claim_field("memory of the GPU, as 24Gi", _read_mebibytes, lambda said: said.vram_mib),
    "vendor": _claimed_name_field("the device's maker", lambda said: said.vendor),
    "model": _claimed_name_field("a part of the device's name, such as 4090", lambda said: said.model),
    "driver": _claim_field("version of the GPU's driver", _read_version, lambda said: _claimed_version(said.driver)),
    "cuda": _claim_field(
        "the newest CUDA version that it runs", _read_version, lambda said: _platform_version(said, "cuda")
    ),
    "rocm": _claim_field("the ROCm version that it runs", _read_version, lambda said: _platform_version(said, "rocm")),
    "cpu": _claimed_name_field("a part of the processor's name", lambda said: said.processor),
    "cores": _claim_field("available processor cores", _read_whole, lambda said: said.cores),
    "memory": _claim_field("the machine's memory, as 64Gi", _read_mebibytes, lambda said: said.memory_mib),
    "disk": _claim_field("the machine's free disk, as 500Gi", _read_mebibytes, lambda said: said.disk_free_mib),
    "down": _claim_field("bandwidth to the machine, as 100Mbit", _read_kilobits, lambda said: said.down_kbit),
    "up": _claim_field("bandwidth from the machine, as 100Mbit", _read_kilobits, lambda said: said.up_kbit),
}
