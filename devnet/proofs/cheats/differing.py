"""Two different answers to a batch, one wrong: both racers show trees, a court computes one leaf, and the liar loses.

Invariant: customer, validators and the honest provider use the production programs. The judgement reads final blocks
and the daemons' events. If only one racer answers in time, there is no dispute, and the batch is posted again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from devnet.launcher import processes
from devnet.proofs.cheats.units import CheatFindings, Check, Finding
from devnet.stage.actors import purchase
from devnet.stage.cheating.executors import bent_place
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.network import CHEAT, BlockFollower, FreshDevnet, Stage
from devnet.stage.scenario import Scenario
from genesis import dev_accounts
from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, subtree_count
from gpu_tasks.data import market_reads
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.events import CaseOpened, OpinionOpened
from gpu_tasks.market.inference.events import ProviderSlashed, UnitDisputed, UnitRefunded, UnitRequeued, UnitSettled
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesAsked, NodesShown, TreeWithheld
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from wallet.amounts import format_amount
from wallet.client import ChainClient


@dataclass(frozen=True, slots=True)
class DifferingScene:
    """One batch, and its liar's behaviour."""

    name: str
    title: str
    mode: str
    """The mode of the cheating daemon."""
    requests: int
    is_judged: bool = True
    """True if a court computes the leaf. With a single tree no court does."""
    away_blocks: int = 0
    """The blocks for which the honest daemon is down, killed with SIGKILL when trees are requested.

    0 if it is not killed.
    """

    @property
    def waits(self) -> bool:
        """True if a side is silent long enough to query the programs meanwhile."""
        return bool(self.away_blocks) or not self.is_judged


SCENES = (
    DifferingScene("one-subtree", "64 requests, one of them answered wrongly: the leaves are shown", "bent-middle", 64),
    DifferingScene(
        "subtrees", "200 requests, one answered wrongly; the honest daemon is killed with -9 when trees are asked for",
        "bent-middle", 200, away_blocks=20,
    ),
    DifferingScene(
        "hidden-tree", "64 requests, one answered wrongly, and the liar shows nothing: no court sits",
        "hidden-tree", 64, is_judged=False,
    ),
)  # fmt: skip


JUDGED = ("verified", "refuted", "recomputed")
"""The events of a judge's daemon after a computation of a unit."""


@dataclass(slots=True)
class DisputeTrace(EventTrace):
    """One batch, from its dispute to its end."""

    unit: bytes = field(kw_only=True)
    closed_at: int = 0
    """The last block that counted a commit."""
    collaterals: dict[bytes, int] = field(default_factory=dict)
    """The collateral of each racer when the batch was disputed."""
    leaf_tokens: int = 0
    """The tokens of the judged leaf, as the winner stated them."""
    batch_tokens: int = 0
    """The tokens of all leaves."""
    returned_at: int = 0
    """The block after which the honest daemon was restarted. 0 if it was not killed."""
    why: str | None = None
    """The words of `ogpu unit show` to its customer while a side has not shown its tree."""
    to_show: list[dict[str, Any]] | None = None
    """The disputes in the honest provider's `ogpu-provider status` at that time. None if it was not queried."""
    computed: list[dict[str, Any]] = field(default_factory=list)
    """Computations of its judges, from the daemons' events."""

    def take(self, height: int, event: object) -> None:
        """Take an event of any unit in the block at this height."""
        about = event.case if isinstance(event, CaseOpened | OpinionOpened) else getattr(event, "unit", None)
        if about == self.unit:
            self.happened.append((height, event))

    @property
    def ended_at(self) -> int:
        """The block that settled, refunded or requeued it, or 0 while it is open."""
        ends = (height for kind in (UnitSettled, UnitRefunded, UnitRequeued) for height, _ in self.all(kind))
        return max(ends, default=0)


def computed_of(unit: bytes, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a daemon's events about computing a unit as a judge."""
    return [line for line in lines if line["event"] in JUDGED and line.get("unit") == unit.hex()]


@dataclass(frozen=True, slots=True)
class DisputeFigures:
    """The figures of one batch: blocks since the end of commits, tokens, grains."""

    scene: str
    requests: int
    disputed: int
    """Blocks until the first request for trees."""
    shown: int
    """Blocks until the last shown tree."""
    paid: int
    """Blocks until payment."""
    judges: int
    judged_tokens: int
    """Tokens that all judges together computed."""
    whole_tokens: int
    """Tokens that they would compute if each computed the whole batch."""
    lost: int
    """The liar's loss, from its collateral."""
    collateral: int
    price: int
    """The winner's payment before the fee."""


def figures_of(scene: DifferingScene, trace: DisputeTrace, liar: bytes) -> DisputeFigures:
    """Return the figures of a batch, with zeros for stages that it did not reach."""

    def since(kind: type[Any]) -> int:
        heights = [height for height, _ in trace.all(kind)]
        return max(heights) - trace.closed_at if heights else 0

    judges = len(trace.computed)
    return DisputeFigures(
        scene=scene.name,
        requests=scene.requests,
        disputed=since(UnitDisputed),
        shown=since(NodesShown),
        paid=since(UnitSettled),
        judges=judges,
        judged_tokens=judges * trace.leaf_tokens,
        whole_tokens=judges * trace.batch_tokens,
        lost=sum(slash.amount for slash in trace.events(ProviderSlashed) if slash.provider == liar),
        collateral=trace.collaterals.get(liar, 0),
        price=sum(event.price for event in trace.events(UnitSettled)),
    )


def failures_of(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> list[str]:
    """Return a sentence for each failed requirement."""
    found = [*_of_dispute_money(trace, liar, honest), *_of_trees(scene, trace, liar, honest)]
    found += _of_words(scene, trace)
    return [*found, *(_of_judges(scene, trace) if scene.is_judged else _of_silence(trace))]


def _of_dispute_money(trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    winners = [event.winner for event in trace.events(UnitSettled)]
    if winners != [honest]:
        yield f"the honest racer was to be paid once: {len(winners)} payments"
    lost = [(slash.provider, slash.fault, slash.amount) for slash in trace.events(ProviderSlashed)]
    expected = [(liar, PartyFault.LIED, trace.collaterals.get(liar, 0))]
    if lost != expected or not trace.collaterals.get(liar):
        yield f"the liar alone was to lose all that it held for the batch: {lost}, and not {expected}"


def _of_trees(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    below = bent_place(scene.requests) // SUBTREE_LEAVES
    steps = [below] if subtree_count(scene.requests) == 1 else [None, below]
    wanted = steps if scene.is_judged else steps[:1]
    asked = [event.subtree for event in trace.events(NodesAsked)]
    if asked != wanted:
        yield f"asked for were the nodes {asked}, and not {wanted}"
    for who, name, shows in ((liar, "the liar", scene.is_judged), (honest, "the honest racer", True)):
        shown = sum(event.provider == who for event in trace.events(NodesShown))
        if shown != len(wanted) * shows:
            yield f"{name} showed nodes {shown} times"
    if scene.away_blocks:
        shown_at = [height for height, event in trace.all(NodesShown) if event.provider == honest]
        after = [height for height in shown_at if height > trace.returned_at]
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
    judged = [event.leaf for event in trace.events(LeafDisputed)]
    if judged != [bent]:
        yield f"the leaves {judged} were judged, and not {bent} alone"
    cases, opinions, withheld = (len(trace.all(kind)) for kind in (CaseOpened, OpinionOpened, TreeWithheld))
    if cases != 1:
        yield f"{cases} cases, where one leaf differs"
    whole = [line for line in trace.computed if line["event"] != "recomputed" or line.get("leaf") != bent]
    if whole:
        yield f"judges computed more than the leaf: {whole}"
    if len(trace.computed) < opinions or not opinions:
        yield f"{opinions} opinions, and {len(trace.computed)} computations of the leaf"
    if withheld:
        yield f"{withheld} trees were withheld"


def _of_silence(trace: DisputeTrace) -> Iterator[str]:
    cases, withheld = len(trace.all(CaseOpened)), len(trace.all(TreeWithheld))
    if withheld != 1:
        yield f"{withheld} trees were withheld, and not one"
    if cases or trace.all(LeafDisputed) or trace.computed:
        yield f"{cases} cases and {len(trace.computed)} computations, where one tree is left"


VALIDATORS = 6
"""The fewest validators that leaf checks allow."""
HONEST = "Alice"
MAX_TOKENS, PRICE = 24, "0.05"
TRIES = 3
BLOCKS_MAX = 400
ASK_AFTER = 4
"""Blocks after the request for trees. By then every present racer has shown its tree."""


@dataclass(slots=True)
class DisputedBatch:
    """One batch in progress."""

    stage: Stage
    scene: DifferingScene
    trace: DisputeTrace
    killed_at: int = 0

    def play(self, first: int) -> None:
        """Follow the batch from a block to its end."""
        blocks = BlockFollower(self.stage, self._take, first)
        blocks.until(
            "the end of the batch",
            lambda: self.trace.ended_at > 0,
            BLOCKS_MAX,
            lambda: self._act(blocks.next_height - 1),
        )
        members = (member.name for member in self.stage.devnet.members)
        self.trace.computed = [
            line for name in members for line in computed_of(self.trace.unit, self.stage.telemetry(name))
        ]

    def _act(self, height: int) -> None:
        asked = self.trace.first(NodesAsked)
        if asked is None:
            return
        if self.scene.away_blocks:
            self._let_be_away(height)
        if self.scene.waits and height >= asked[0] + ASK_AFTER and self.trace.why is None:
            self._ask_programs()

    def _let_be_away(self, height: int) -> None:
        """Kill the honest daemon once, and restart it after the scene's number of blocks."""
        narrator = self.stage.narrator
        if not self.killed_at:
            process_id, self.killed_at = self.stage.kill(HONEST), height
            narrator.line(f"block {height}: killed the provider of {HONEST} with -9 (process {process_id})")
        elif not self.trace.returned_at and height >= self.killed_at + self.scene.away_blocks:
            processes.start(self.stage.process(HONEST))
            self.trace.returned_at = height
            narrator.line(f"block {height}: started it again")

    def _ask_programs(self) -> None:
        """Record the words to customer and operator while a side has not shown its tree."""
        trace = self.trace
        trace.why = json.loads(self.stage.ogpu("unit show", "0x" + trace.unit.hex(), is_shown=False))["why"] or ""
        trace.to_show = json.loads(self.stage.provider(HONEST, "status", is_shown=False))["disputes"]
        self.stage.narrator.line(
            f"the customer is told: {trace.why}; {HONEST} has to show: {trace.to_show or 'nothing'}"
        )

    async def _take(self, chain: ChainClient, height: int, block: bytes, event: object) -> None:
        """Take an event. Record from the state the racers' collaterals and the size of the leaf."""
        self.trace.take(height, event)
        trace = self.trace
        if isinstance(event, UnitDisputed) and event.unit == trace.unit:
            status = await market_reads.unit(chain, trace.unit, block)
            assert status is not None, "a unit that is disputed is known"
            trace.collaterals = {racer.owner: racer.collateral for racer in status.unit.racers}
            trace.closed_at = 0 if status.unit.round is None else status.unit.round.closed_at
            said = racer_of(status.unit, dev_accounts.stash(HONEST))
            if said is not None and said.reveal is not None:
                trace.batch_tokens = said.reveal.input_tokens + said.reveal.output_tokens
        if isinstance(event, LeafDisputed) and event.unit == trace.unit:
            root = next(each.root for each in trace.events(NodesShown) if each.provider == dev_accounts.stash(HONEST))
            nodes = await chain.read(LeafDisputes.leaves, trace.unit, root, at=block)
            node = nodes[event.leaf % SUBTREE_LEAVES]
            trace.leaf_tokens = node.tokens_in + node.tokens_out


def disputed(stage: Stage) -> CheatFindings:
    """Play all scenes, one after the other."""
    return CheatFindings([_played(stage, scene) for scene in SCENES])


def _played(stage: Stage, scene: DifferingScene) -> Finding:
    stage.narrator.line(scene.title)
    batch = _tried(stage, scene)
    for _ in range(TRIES - 1):
        if batch.trace.all(NodesAsked):
            break
        stage.narrator.line(f"{scene.name}: only one of the two answered in time; once more")
        batch = _tried(stage, scene)
    liar, honest = dev_accounts.stash(CHEAT), dev_accounts.stash(HONEST)
    trace, figures = batch.trace, figures_of(scene, batch.trace, liar)
    finding = Finding(f"differing: {scene.name}", 1, drawn=1, slashed=len(trace.all(ProviderSlashed)))
    finding.failures = failures_of(scene, trace, liar, honest)
    lost, unit = "the batch's collateral", "0x" + trace.unit.hex()
    finding.checks = [Check(lost, unit, trace.ended_at, figures.lost, figures.collateral)]
    finding.figures = {name: value for name, value in asdict(figures).items() if name != "scene"}
    stage.narrator.line(_told(figures))
    return finding


def _tried(stage: Stage, scene: DifferingScene) -> DisputedBatch:
    """Restart the cheat, resume its device, and sell one batch."""
    stage.cheat_in(scene.mode)
    file = purchase.write_prompts(stage, scene.name, purchase.read_prompts(purchase.DEFAULT_PROMPTS, scene.requests))
    first = stage.next_height()
    arguments = purchase.post_arguments(file, 2, PRICE, batch=scene.requests, max_tokens=MAX_TOKENS)
    (unit,) = {row["unit"] for row in json.loads(stage.ogpu("unit post", *arguments, "--again"))}
    batch = DisputedBatch(stage, scene, DisputeTrace(unit=bytes.fromhex(unit[2:])))
    batch.play(first)
    return batch


def _told(figures: DisputeFigures) -> str:
    judged = f"{figures.judges} judges computed {figures.judged_tokens} tokens, of {figures.whole_tokens} for the whole"
    return (
        f"{figures.scene}: of {figures.requests} requests one differs; since commits closed: disputed after "
        f"{figures.disputed} blocks, the last tree after {figures.shown}, paid after {figures.paid}; "
        f"{judged if figures.judges else 'no judge computed anything'}; the liar lost {format_amount(figures.lost)} of "
        f"{format_amount(figures.collateral)} oGPU, the honest one was paid {format_amount(figures.price)}"
    )


def _prepare(stage: Stage) -> None:
    stage.add_cheat(SCENES[0].mode)
    stage.leave_devices_to(HONEST)


NETWORK = FreshDevnet(VALIDATORS, "differing", prepare=_prepare)
SCENARIO = Scenario("differing", "Batches that two answer differently", NETWORK.open, disputed)
