"""What was found: the rows of the tables, and real over declared weight of each case."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.weights.timer import ROUNDS, Meter
from runtime.encoding.types import Origin, Signed
from runtime.frame.call import Call
from runtime.frame.weights import EXTRINSIC_BASE

RATIO_MAX = 1.5
"""Real over declared: what a call, a hook or a block may take beyond its weight, noise included."""
HOOK_SLACK_NANOSECONDS = 2_000_000
"""What the first work of its kind in a block takes beyond the next: two thousandths of a slot."""
LEAST_NANOSECONDS = 100.0
SLACK_NANOSECONDS = 5_000
"""Nobody sees the difference where a call takes less than that: the clock and a cache miss are as much."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One case: nanoseconds of reference time, measured and declared."""

    real: float
    declared: float
    slack: float = SLACK_NANOSECONDS

    @property
    def value(self) -> float:
        """Real over declared."""
        return self.real / max(self.declared, 1.0)

    @property
    def is_missed(self) -> bool:
        """Whether the case takes more than it may."""
        return self.real > RATIO_MAX * self.declared and self.real - self.declared > self.slack


@dataclass
class Findings:
    """Grows while the world goes on."""

    meter: Meter
    rows: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def call(self, who: bytes | Origin, call: Call, *, rounds: int = ROUNDS, has_time: bool = True) -> float:
        """Measure a call whose weight is one row."""
        real = self._measured(who, call, call.name, rounds, has_time)
        self.rows[call.name] = max(real, self.rows.get(call.name, 0.0))
        return real

    def part(self, who: bytes | Origin, part: str, call: Call) -> None:
        """Measure a call in a case in which it takes more than its row: what it takes beside that is a row too."""
        real = self._measured(who, call, f"{call.name} ({part})")
        self.rows[f"{call.name} {part}"] = max(LEAST_NANOSECONDS, real - self.rows[call.name])

    def alone(self, who: bytes, call: Call) -> None:
        """Compare a call whose row comes from whole blocks, with what its extrinsic weighs besides.

        By itself it takes more than its row, for it shares nothing; what thousands take the bar of whole blocks bounds.
        """
        base = EXTRINSIC_BASE.ref_time / 1_000
        real = self.meter.call(Signed(who), call)
        self.ratios[f"{call.name} by itself"] = Ratio(base + real, base + call.weight.ref_time / 1_000)

    def growing(
        self, who: bytes | Origin, part: str, calls: Mapping[int, Call], *, inner: float = 0.0, beside: float = 0.0
    ) -> None:
        """Measure a call whose weight grows with the number of its parts, few and many of them.

        `inner` is what each part weighs by a row of its own, `beside` what the call is charged for by none.
        """
        found = {count: self._measured(who, call, f"{call.name} x{count}") for count, call in calls.items()}
        name = next(iter(calls.values())).name
        self.rows |= line(name, part, {count: real - beside - count * inner for count, real in found.items()})

    def growing_by_signer(self, part: str, call: Call, signers: Mapping[int, bytes]) -> None:
        """The same where the parts are what the signer has."""
        found = {count: self._measured(who, call, f"{call.name} x{count}") for count, who in signers.items()}
        self.rows |= line(call.name, part, found)

    def hooks(self, name: str, *, rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
        """Measure the hooks of the next block; those that say what they weighed are cases, called `name`."""
        found = self.meter.hooks("on_initialize", rounds)
        for pallet, (real, said) in found.items():
            if said:
                own = self.rows.get(f"{pallet}.on_initialize", 0.0)
                self.ratios[f"{pallet}.on_initialize: {name}"] = Ratio(
                    max(0.0, real - own), said, HOOK_SLACK_NANOSECONDS
                )
        return found

    def quiet_hooks(self) -> None:
        """Measure what hooks take in every block, when nothing is due: the base of a block has it."""
        for kind in ("on_initialize", "on_finalize"):
            for pallet, (real, _) in self.meter.hooks(kind).items():
                if real:
                    self.rows[f"{pallet}.{kind}"] = real

    def _measured(
        self, who: bytes | Origin, call: Call, name: str, rounds: int = ROUNDS, has_time: bool = True
    ) -> float:
        origin = Signed(who) if isinstance(who, bytes) else who
        real = self.meter.call(origin, call, rounds, has_time=has_time)
        self.ratios[name] = Ratio(real, call.weight.ref_time / 1_000)
        return real


def line(name: str, part: str, found: Mapping[int, float]) -> dict[str, float]:
    """The two rows of what grows with a count: what it takes without any, and for each."""
    few, many = min(found), max(found)
    each = max(LEAST_NANOSECONDS, (found[many] - found[few]) / (many - few))
    return {name: max(LEAST_NANOSECONDS, found[few] - few * each), f"{name} {part}": each}
