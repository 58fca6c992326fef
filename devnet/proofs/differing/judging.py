"""What must have come of a batch whose racers differ, and what it took. Judged from final blocks and daemons' words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devnet.proofs.cheating.bent_batches import bent_place
from devnet.proofs.differing.scenes import DifferingScene
from devnet.proofs.differing.traces import DisputeTrace
from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, subtree_count
from gpu_tasks.market.courts.cases import PartyFault


@dataclass(frozen=True, slots=True)
class DisputeFigures:
    """Blocks since commits closed, tokens, grains."""

    scene: str
    requests: int
    disputed: int
    """Blocks from the close of commits to the first that asks for trees."""
    shown: int
    """To the last tree that was shown."""
    paid: int
    """To payment."""
    judges: int
    judged_tokens: int
    """That all judges together computed."""
    whole_tokens: int
    """That they compute at least where each has to compute the batch."""
    lost: int
    """By the liar, of its collateral."""
    collateral: int
    price: int
    """Of the winner, before the fee."""


def figures_of(scene: DifferingScene, trace: DisputeTrace, liar: bytes) -> DisputeFigures:
    """What it took; zeros where it did not come so far."""

    def since(heights: list[int]) -> int:
        return max(heights) - trace.closed_at if heights else 0

    judges = len(trace.computed)
    return DisputeFigures(
        scene=scene.name,
        requests=scene.requests,
        disputed=since([trace.disputed_at]),
        shown=since([height for height, _ in trace.shown]),
        paid=since([height for height, _ in trace.settled]),
        judges=judges,
        judged_tokens=judges * trace.leaf_tokens,
        whole_tokens=judges * trace.batch_tokens,
        lost=sum(slash.amount for slash in trace.slashes if slash.provider == liar),
        collateral=trace.collaterals.get(liar, 0),
        price=sum(event.price for _, event in trace.settled),
    )


def failures_of(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> list[str]:
    """What is not as it should be, as sentences."""
    found = [*_of_money(trace, liar, honest), *_of_trees(scene, trace, liar, honest)]
    found += _of_words(scene, trace)
    return [*found, *(_of_judges(scene, trace) if scene.is_judged else _of_silence(trace))]


def _of_money(trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    winners = [event.winner for _, event in trace.settled]
    if winners != [honest]:
        yield f"the honest racer was to be paid once: {len(winners)} payments"
    lost = [(slash.provider, slash.fault, slash.amount) for slash in trace.slashes]
    expected = [(liar, PartyFault.LIED, trace.collaterals.get(liar, 0))]
    if lost != expected or not trace.collaterals.get(liar):
        yield f"the liar alone was to lose all that it held for the batch: {lost}, and not {expected}"


def _of_trees(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    below = bent_place(scene.requests) // SUBTREE_LEAVES
    steps = [below] if subtree_count(scene.requests) == 1 else [None, below]
    wanted = steps if scene.is_judged else steps[:1]
    asked = [event.subtree for _, event in trace.asked]
    if asked != wanted:
        yield f"asked for were the nodes {asked}, and not {wanted}"
    for who, name, shows in ((liar, "the liar", scene.is_judged), (honest, "the honest racer", True)):
        shown = sum(event.provider == who for _, event in trace.shown)
        if shown != len(wanted) * shows:
            yield f"{name} showed nodes {shown} times"
    if scene.away_blocks:
        after = [height for height, event in trace.shown if event.provider == honest and height > trace.returned_at]
        if not trace.returned_at or not after:
            yield "the honest daemon was to be killed, and to show nodes when it was back"


def _of_words(scene: DifferingScene, trace: DisputeTrace) -> Iterator[str]:
    if scene.waits and not (trace.why or "").startswith("its racers differ; both show their "):
        yield f"its customer was told: {trace.why}"
    own = [row for row in trace.to_show or () if row["batch"] == "0x" + trace.unit.hex() and not row["shown"]]
    if scene.waits and (trace.to_show is None or len(own) != bool(scene.away_blocks)):
        yield f"the honest provider's status listed as to be shown: {trace.to_show}"


def _of_judges(scene: DifferingScene, trace: DisputeTrace) -> Iterator[str]:
    bent = bent_place(scene.requests)
    judged = [event.leaf for _, event in trace.leaves]
    if judged != [bent]:
        yield f"the leaves {judged} were judged, and not {bent} alone"
    if trace.cases != 1:
        yield f"{trace.cases} cases, where one leaf differs"
    whole = [line for line in trace.computed if line["event"] != "recomputed" or line.get("leaf") != bent]
    if whole:
        yield f"judges computed more than the leaf: {whole}"
    if len(trace.computed) < len(trace.opinions) or not trace.opinions:
        yield f"{len(trace.opinions)} opinions, and {len(trace.computed)} computations of the leaf"
    if trace.withheld:
        yield f"{len(trace.withheld)} trees were withheld"


def _of_silence(trace: DisputeTrace) -> Iterator[str]:
    if len(trace.withheld) != 1:
        yield f"{len(trace.withheld)} trees were withheld, and not one"
    if trace.cases or trace.leaves or trace.computed:
        yield f"{trace.cases} cases and {len(trace.computed)} computations, where one tree is left"
