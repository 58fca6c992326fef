"""The findings: the rows of the tables, and the real over the declared weight of each case."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.weights.timer import ROUNDS, Meter
from runtime.encoding.types import Origin, Signed
from runtime.frame.call import Call
from runtime.frame.weights import EXTRINSIC_BASE

RATIO_MAX = 1.5
"""The highest permitted ratio of real to declared weight of a call, a hook or a block, with noise included."""
HOOK_SLACK_NANOSECONDS = 2_000_000
"""The extra time of the first work of its kind in a block, in nanoseconds: two thousandths of a slot."""
LEAST_NANOSECONDS = 100.0
SLACK_NANOSECONDS = 5_000
"""A difference below this is noise: a step of the clock or a cache miss takes as long."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One case: measured and declared nanoseconds of reference time."""

    real: float
    declared: float
    slack: float = SLACK_NANOSECONDS

    @property
    def value(self) -> float:
        """The real over the declared weight."""
        return self.real / max(self.declared, 1.0)

    @property
    def is_missed(self) -> bool:
        """True if the case takes more than permitted."""
        return self.real > RATIO_MAX * self.declared and self.real - self.declared > self.slack


@dataclass
class Findings:
    """The rows, ratios and figures, filled during the measurements."""

    meter: Meter
    rows: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def call(self, who: bytes | Origin, call: Call, *, rounds: int = ROUNDS, has_time: bool = True) -> float:
        """Measure a call whose weight is one row. Return the real nanoseconds."""
        real = self._measured(who, call, call.name, rounds, has_time)
        # Several cases can measure one call. Its row must cover the most expensive case.
        self.rows[call.name] = max(real, self.rows.get(call.name, 0.0))
        return real

    def part(self, who: bytes | Origin, part: str, call: Call) -> None:
        """Measure a call in a case that takes more than its row. The difference becomes a row of its own."""
        real = self._measured(who, call, f"{call.name} ({part})")
        self.rows[f"{call.name} {part}"] = max(LEAST_NANOSECONDS, real - self.rows[call.name])

    def alone(self, who: bytes, call: Call) -> None:
        """Compare a call together with the base of its extrinsic, if the call's row comes from whole blocks.

        The call alone takes more than its row, because it shares no work with other calls. The bar of whole blocks
        limits the cost of thousands of such calls.
        """
        base = EXTRINSIC_BASE.ref_time / 1_000
        real = self.meter.call(Signed(who), call)
        self.ratios[f"{call.name} by itself"] = Ratio(base + real, base + call.weight.ref_time / 1_000)

    def growing(
        self, who: bytes | Origin, part: str, calls: Mapping[int, Call], *, inner: float = 0.0, beside: float = 0.0
    ) -> None:
        """Measure a call whose weight grows with the number of its parts, with few and with many of them.

        `inner` is the weight of each part that has a row of its own. `beside` is the part of the call's charge that no
        row covers.
        """
        found = {count: self._measured(who, call, f"{call.name} x{count}") for count, call in calls.items()}
        name = next(iter(calls.values())).name
        self.rows |= line(name, part, {count: real - beside - count * inner for count, real in found.items()})

    def growing_by_signer(self, part: str, call: Call, signers: Mapping[int, bytes]) -> None:
        """Measure a call whose weight grows with the signer's number of parts."""
        found = {count: self._measured(who, call, f"{call.name} x{count}") for count, who in signers.items()}
        self.rows |= line(call.name, part, found)

    def hooks(self, name: str, *, rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
        """Measure the hooks of the next block. Those that report a weight become cases named `name`."""
        found = self.meter.hooks("on_initialize", rounds)
        for pallet, (real, said) in found.items():
            if said:
                # The base of every block already includes the cost of an idle hook.
                own = self.rows.get(f"{pallet}.on_initialize", 0.0)
                self.ratios[f"{pallet}.on_initialize: {name}"] = Ratio(
                    max(0.0, real - own), said, HOOK_SLACK_NANOSECONDS
                )
        return found

    def quiet_hooks(self) -> None:
        """Measure the hooks when nothing is due. The base of every block includes this cost."""
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
    """Return two rows of a cost that grows with a count: the fixed cost, and the cost of each."""
    few, many = min(found), max(found)
    each = max(LEAST_NANOSECONDS, (found[many] - found[few]) / (many - few))
    return {name: max(LEAST_NANOSECONDS, found[few] - few * each), f"{name} {part}": each}
