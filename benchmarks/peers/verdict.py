"""The comparison of runs: ratios, medians and the bar.

Invariant: two nodes are compared only within a pair of runs, one right after the other, because the machine's other
load changes from minute to minute. The verdict uses the median of the pairs and the worst of the shapes.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks.peers.race import Result

BAR, GOAL = 1.2, 1.5
"""The required and desired rates of final transfers, as multiples of the other node's rate."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run each of this node and of the other one."""

    ours: Result
    theirs: Result

    @property
    def ratio(self) -> float:
        """This node's rate over the other node's."""
        return self.ours.final_per_second / self.theirs.final_per_second


@dataclass(frozen=True, slots=True)
class Standing:
    """The result of all pairs of one shape."""

    label: str
    pairs: Sequence[Pair]

    @property
    def ratio(self) -> float:
        """The median ratio of the pairs."""
        return round(statistics.median(pair.ratio for pair in self.pairs), 2)

    @property
    def ours(self) -> dict[str, float]:
        """The medians of this node's runs."""
        return medians([pair.ours for pair in self.pairs])

    @property
    def theirs(self) -> dict[str, float]:
        """The medians of the other node's runs."""
        return medians([pair.theirs for pair in self.pairs])

    def report(self) -> dict[str, object]:
        """Return the medians and every run, for programs."""
        runs = [{"ratio": round(pair.ratio, 3), **asdict(pair)} for pair in self.pairs]
        return {"ratio": self.ratio, "ogpu": self.ours, "anvil": self.theirs, "runs": runs}


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Return the median of each figure, with processes by their names."""
    figures = [_figures(result) for result in results]
    return {name: round(statistics.median(each[name] for each in figures), 1) for name in figures[0]}


def _figures(result: Result) -> dict[str, float]:
    totals = {
        "final_per_second": result.final_per_second,
        "handed_in_per_second": result.handed_in_per_second,
        "handed_in_again": float(result.handed_in_again),
        "cpu_us": result.cpu_us_of_all,
        "client_cpu_us": result.client_cpu_us,
        "peak_mib": result.peak_mib_of_all,
    }
    parts = {f"cpu_{role}_us": used for role, used in result.cpu_us.items()}
    return totals | parts | {f"peak_{role}_mib": used for role, used in result.peak_mib.items()}


def failures(standings: Sequence[Standing]) -> list[str]:
    """Return one sentence for each shape that misses the bar."""
    return [
        f"{standing.label}: {standing.ratio:.2f} times anvil, the bar is {BAR}"
        for standing in standings
        if standing.ratio < BAR
    ]


def line(standings: Sequence[Standing], libraries: Mapping[str, Mapping[str, object]], seconds: int) -> str:
    """Return the line of figures."""
    parts = [_of_shape(standing) for standing in standings]
    apart = [f"{name} {figures.get('cpu_us', 'not run')}" for name, figures in libraries.items()]
    if apart:
        parts.append(f"CPU us a transfer without network: {', '.join(apart)}")
    worst = min(standing.ratio for standing in standings)
    verdict = "goal met" if worst >= GOAL else "bar met" if worst >= BAR else "bar MISSED"
    return "; ".join((f"peers: {verdict} ({BAR}, goal {GOAL})", *parts, f"{seconds} s"))


def _of_shape(standing: Standing) -> str:
    ours, theirs = standing.ours, standing.theirs
    return (
        f"{standing.label}: {standing.ratio:.2f} times anvil, "
        f"{ours['final_per_second']:,.0f} to {theirs['final_per_second']:,.0f} final a second, "
        f"CPU us {ours['cpu_us']:.0f} to {theirs['cpu_us']:.0f}, MiB {ours['peak_mib']:.0f} to {theirs['peak_mib']:.0f}"
    )
