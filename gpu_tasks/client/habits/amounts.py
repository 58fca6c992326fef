"""Times and sizes as Slurm, Compose and Akash write them, as task files do."""

from __future__ import annotations

import re

from gpu_tasks.client.habits.foreign import ForeignFileError
from gpu_tasks.client.habits.trees import line_of
from gpu_tasks.tasks.problems import shown
from gpu_tasks.tasks.quantities import QuantityError, written_span

MIB = 1 << 20
DIGITS_MAX = 20
_SIZE = re.compile(r"([0-9]+)(?:\.([0-9]+))? ?([kmgtKMGT]?)(i?)[bB]?", re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_CPU = re.compile(r"([0-9]{1,6})(m?)|([0-9]{0,3})\.([0-9]{1,9})", re.ASCII)
_SLURM_TIME = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?", re.ASCII)


def size_of(text: str, where: str, *, unit: str = "", is_decimal: bool = False) -> str:
    """Whole mebibytes, rounded up; empty for 0, which means all there is, or no limit.

    `unit` is that of a number without one; decimal: without an i, K is 1,000. ForeignFileError.
    """
    found = _SIZE.fullmatch(text)
    is_milli = found is not None and is_decimal and found[3] == "m"  # to Kubernetes and Akash no million
    if found is None or is_milli or len(text) > DIGITS_MAX:
        raise ForeignFileError(f"{where}: {shown(text)} is no size", line_of(text))
    whole, part, letter, binary = found.groups(default="")
    power = _POWERS[(letter or unit).lower()]
    base = 1_000 if is_decimal and not binary and power else 1_024
    size = int(whole + part) * base**power
    return f"{-(-size // (MIB * 10 ** len(part)))}Mi" if size else ""


def cores_of(text: str, where: str) -> str:
    """Return cores, in thousandths at the finest, rounded up: `2`, `0.5`, `.5`, `500m`; empty for 0, no limit."""
    found = _CPU.fullmatch(text)
    if found is None:
        raise ForeignFileError(f"{where}: {shown(text)} is no number of cores", line_of(text))
    number, milli, whole, part = found.groups(default="")
    if number:
        thousandths = int(number) if milli else int(number) * 1_000
    else:
        thousandths = int(whole or 0) * 1_000 + -(-int(part.ljust(9, "0")) // 1_000_000)
    return f"{thousandths // 1_000}.{thousandths % 1_000:03}".rstrip("0").rstrip(".") if thousandths else ""


def size_for_cores(size: str, cores: str) -> str:
    """So much for each core, both as they were read here."""
    whole, _, part = cores.partition(".")
    thousandths = int(whole) * 1_000 + int(part.ljust(3, "0"))
    return f"{-(-int(size.removesuffix('Mi')) * thousandths // 1_000)}Mi"


def slurm_seconds(text: str) -> int:
    """`90` (minutes), `90:00`, `2:00:00`, `1-12`, `1-12:30`, `1-12:30:00`; by sbatch's manual page, `--time`.

    0 and Slurm's words for it mean no limit.
    """
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return 0
    found = _SLURM_TIME.fullmatch(text)
    if found is None:
        raise ForeignFileError(f"--time: {shown(text)} is no time; Slurm writes minutes, H:M:S or D-H:M:S")
    days, *parts = found.groups()
    given = [int(each) for each in parts if each is not None]
    if days is not None:
        hours, minutes, seconds = (*given, 0, 0)[:3]
    elif len(given) == 3:
        hours, minutes, seconds = given
    else:
        hours, (minutes, seconds) = 0, (*given, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def written_time(seconds: int) -> str:
    """As a task file has it."""
    try:
        return written_span(seconds * 1_000)
    except QuantityError:
        raise ForeignFileError("a time is at least a second") from None
