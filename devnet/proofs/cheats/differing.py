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
from devnet.proofs.cheats.units import AmountCheck, CheatFinding, CheatFindings
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
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
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
    def has_silent_side(self) -> bool:
        """True if a side is silent long enough to query the programs meanwhile."""
        return bool(self.away_blocks) or not self.is_judged


DIFFERING_SCENES = (
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


COMPUTATION_EVENTS = ("verified", "refuted", "recomputed")
"""The events of a judge's daemon after a computation of a unit."""
SHOWING_STAGES = {DisputeStage.SUBTREES.name.lower(), DisputeStage.LEAVES.name.lower()}
"""The stages of a dispute in which the sides show their trees."""


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
    dispute_stage: str | None = None
    """The stage in the customer's `ogpu unit show` while a side has not shown its tree. None if it was not queried."""
    disputes_to_show: list[dict[str, Any]] | None = None
    """The disputes in the honest provider's `ogpu-provider status` at that time. None if it was not queried."""
    computations: list[dict[str, Any]] = field(default_factory=list)
    """Computations of its judges, from the daemons' events."""

    def take(self, height: int, event: object) -> None:
        """Take an event of any unit in the block at this height."""
        subject_unit = event.case if isinstance(event, CaseOpened | OpinionOpened) else getattr(event, "unit", None)
        if subject_unit == self.unit:
            self.happened.append((height, event))

    @property
    def ended_at(self) -> int:
        """The block that settled, refunded or requeued it, or 0 while it is open."""
        end_heights = (
            height for event_type in (UnitSettled, UnitRefunded, UnitRequeued) for height, _ in self.all(event_type)
        )
        return max(end_heights, default=0)


def computations_of(unit_id: bytes, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a daemon's events about computing a unit as a judge."""
    return [row for row in rows if row["event"] in COMPUTATION_EVENTS and row.get("unit") == unit_id.hex()]


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

    def since(event_type: type[Any]) -> int:
        event_heights = [height for height, _ in trace.all(event_type)]
        return max(event_heights) - trace.closed_at if event_heights else 0

    judge_count = len(trace.computations)
    return DisputeFigures(
        scene=scene.name,
        requests=scene.requests,
        disputed=since(UnitDisputed),
        shown=since(NodesShown),
        paid=since(UnitSettled),
        judges=judge_count,
        judged_tokens=judge_count * trace.leaf_tokens,
        whole_tokens=judge_count * trace.batch_tokens,
        lost=sum(slash.amount for slash in trace.events(ProviderSlashed) if slash.provider == liar),
        collateral=trace.collaterals.get(liar, 0),
        price=sum(event.price for event in trace.events(UnitSettled)),
    )


def failures_of(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> list[str]:
    """Return a sentence for each failed requirement."""
    failures = [*_money_failures(trace, liar, honest), *_tree_failures(scene, trace, liar, honest)]
    failures += _status_failures(scene, trace)
    return [*failures, *(_judge_failures(scene, trace) if scene.is_judged else _silence_failures(trace))]


def _money_failures(trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    paid_winners = [event.winner for event in trace.events(UnitSettled)]
    if paid_winners != [honest]:
        yield f"the honest racer was to be paid once: {len(paid_winners)} payments"
    taken_amounts = [(slash.provider, slash.fault, slash.amount) for slash in trace.events(ProviderSlashed)]
    expected_amounts = [(liar, PartyFault.LIED, trace.collaterals.get(liar, 0))]
    if taken_amounts != expected_amounts or not trace.collaterals.get(liar):
        yield f"the liar alone was to lose all that it held for the batch: {taken_amounts}, and not {expected_amounts}"


def _tree_failures(scene: DifferingScene, trace: DisputeTrace, liar: bytes, honest: bytes) -> Iterator[str]:
    bent_subtree = bent_place(scene.requests) // SUBTREE_LEAVES
    subtree_steps = [bent_subtree] if subtree_count(scene.requests) == 1 else [None, bent_subtree]
    expected_subtrees = subtree_steps if scene.is_judged else subtree_steps[:1]
    asked_subtrees = [event.subtree for event in trace.events(NodesAsked)]
    if asked_subtrees != expected_subtrees:
        yield f"asked for were the nodes {asked_subtrees}, and not {expected_subtrees}"
    for side_stash, name, is_shown in ((liar, "the liar", scene.is_judged), (honest, "the honest racer", True)):
        shown_count = sum(event.provider == side_stash for event in trace.events(NodesShown))
        if shown_count != len(expected_subtrees) * is_shown:
            yield f"{name} showed nodes {shown_count} times"
    if scene.away_blocks:
        shown_at = [height for height, event in trace.all(NodesShown) if event.provider == honest]
        shown_later = [height for height in shown_at if height > trace.returned_at]
        if not trace.returned_at or not shown_later:
            yield "the honest daemon was to be killed, and to show nodes when it was back"


def _status_failures(scene: DifferingScene, trace: DisputeTrace) -> Iterator[str]:
    if scene.has_silent_side and trace.dispute_stage not in SHOWING_STAGES:
        yield f"its customer read of the dispute stage {trace.dispute_stage}"
    own_disputes = [
        row for row in trace.disputes_to_show or () if row["batch"] == "0x" + trace.unit.hex() and not row["shown"]
    ]
    if scene.has_silent_side and (trace.disputes_to_show is None or len(own_disputes) != bool(scene.away_blocks)):
        yield f"the honest provider's status listed as to be shown: {trace.disputes_to_show}"


def _judge_failures(scene: DifferingScene, trace: DisputeTrace) -> Iterator[str]:
    bent_leaf = bent_place(scene.requests)
    judged_leaves = [event.leaf for event in trace.events(LeafDisputed)]
    if judged_leaves != [bent_leaf]:
        yield f"the leaves {judged_leaves} were judged, and not {bent_leaf} alone"
    case_count, opinion_count, withheld_count = (
        len(trace.all(event_type)) for event_type in (CaseOpened, OpinionOpened, TreeWithheld)
    )
    if case_count != 1:
        yield f"{case_count} cases, where one leaf differs"
    # The point of the trees: a judge computes one leaf instead of the whole batch.
    excess_rows = [row for row in trace.computations if row["event"] != "recomputed" or row.get("leaf") != bent_leaf]
    if excess_rows:
        yield f"judges computed more than the leaf: {excess_rows}"
    if len(trace.computations) < opinion_count or not opinion_count:
        yield f"{opinion_count} opinions, and {len(trace.computations)} computations of the leaf"
    if withheld_count:
        yield f"{withheld_count} trees were withheld"


def _silence_failures(trace: DisputeTrace) -> Iterator[str]:
    case_count, withheld_count = len(trace.all(CaseOpened)), len(trace.all(TreeWithheld))
    if withheld_count != 1:
        yield f"{withheld_count} trees were withheld, and not one"
    if case_count or trace.all(LeafDisputed) or trace.computations:
        yield f"{case_count} cases and {len(trace.computations)} computations, where one tree is left"


# The fewest validators that leaf checks allow.
VALIDATOR_COUNT = 6
HONEST_PROVIDER = "Alice"
MAX_TOKENS, PRICE_TEXT = 24, "0.05"
TRIES_MAX = 3
BLOCKS_MAX = 400
# Blocks after the request for trees. By then every present racer has shown its tree.
ASK_AFTER_BLOCKS = 4


@dataclass(slots=True)
class DisputedBatch:
    """One batch in progress."""

    stage: Stage
    scene: DifferingScene
    trace: DisputeTrace
    killed_at: int = 0

    def follow_batch(self, first_height: int) -> None:
        """Follow the batch from a block to its end."""
        follower = BlockFollower(self.stage, self._take_event, first_height)
        follower.until(
            "the end of the batch",
            lambda: self.trace.ended_at > 0,
            BLOCKS_MAX,
            lambda: self._act_at_height(follower.next_height - 1),
        )
        member_names = (member.name for member in self.stage.devnet.members)
        self.trace.computations = [
            row for name in member_names for row in computations_of(self.trace.unit, self.stage.telemetry(name))
        ]

    def _act_at_height(self, height: int) -> None:
        first_request = self.trace.first(NodesAsked)
        if first_request is None:
            return
        if self.scene.away_blocks:
            self._keep_away(height)
        if (
            self.scene.has_silent_side
            and height >= first_request[0] + ASK_AFTER_BLOCKS
            and self.trace.dispute_stage is None
        ):
            self._ask_programs()

    def _keep_away(self, height: int) -> None:
        """Kill the honest daemon once, and restart it after the scene's number of blocks."""
        narrator = self.stage.narrator
        if not self.killed_at:
            pid, self.killed_at = self.stage.kill(HONEST_PROVIDER), height
            narrator.line(f"block {height}: killed the provider of {HONEST_PROVIDER} with -9 (process {pid})")
        elif not self.trace.returned_at and height >= self.killed_at + self.scene.away_blocks:
            processes.start(self.stage.process(HONEST_PROVIDER))
            self.trace.returned_at = height
            narrator.line(f"block {height}: started it again")

    def _ask_programs(self) -> None:
        """Record the words to customer and operator while a side has not shown its tree."""
        trace = self.trace
        facts = json.loads(self.stage.ogpu("unit show", "0x" + trace.unit.hex(), is_shown=False))
        trace.dispute_stage = facts["dispute_stage"] or ""
        trace.disputes_to_show = json.loads(self.stage.provider(HONEST_PROVIDER, "status", is_shown=False))["disputes"]
        self.stage.narrator.line(
            f"the customer reads: {facts['why']}; {HONEST_PROVIDER} has to show: {trace.disputes_to_show or 'nothing'}"
        )

    async def _take_event(self, chain: ChainClient, height: int, block_hash: bytes, event: object) -> None:
        """Take an event. Record from the state the racers' collaterals and the size of the leaf."""
        self.trace.take(height, event)
        trace = self.trace
        if isinstance(event, UnitDisputed) and event.unit == trace.unit:
            status = await market_reads.unit(chain, trace.unit, block_hash)
            assert status is not None, "a unit that is disputed is known"
            # The slash ends the collateral, so it is read when the dispute begins.
            trace.collaterals = {racer.owner: racer.collateral for racer in status.unit.racers}
            trace.closed_at = 0 if status.unit.round is None else status.unit.round.closed_at
            honest_racer = racer_of(status.unit, dev_accounts.stash(HONEST_PROVIDER))
            if honest_racer is not None and honest_racer.reveal is not None:
                trace.batch_tokens = honest_racer.reveal.input_tokens + honest_racer.reveal.output_tokens
        if isinstance(event, LeafDisputed) and event.unit == trace.unit:
            shown_root = next(
                shown_nodes.root
                for shown_nodes in trace.events(NodesShown)
                if shown_nodes.provider == dev_accounts.stash(HONEST_PROVIDER)
            )
            leaf_nodes = await chain.read(LeafDisputes.leaves, trace.unit, shown_root, at=block_hash)
            leaf_node = leaf_nodes[event.leaf % SUBTREE_LEAVES]
            trace.leaf_tokens = leaf_node.tokens_in + leaf_node.tokens_out


def play_scenes(stage: Stage) -> CheatFindings:
    """Play all scenes, one after the other."""
    return CheatFindings([_play_scene(stage, scene) for scene in DIFFERING_SCENES])


def _play_scene(stage: Stage, scene: DifferingScene) -> CheatFinding:
    stage.narrator.line(scene.title)
    batch = _sell_batch(stage, scene)
    for _ in range(TRIES_MAX - 1):
        if batch.trace.all(NodesAsked):
            break
        stage.narrator.line(f"{scene.name}: only one of the two answered in time; once more")
        batch = _sell_batch(stage, scene)
    liar, honest = dev_accounts.stash(CHEAT), dev_accounts.stash(HONEST_PROVIDER)
    trace, figures = batch.trace, figures_of(scene, batch.trace, liar)
    finding = CheatFinding(f"differing: {scene.name}", 1, drawn=1, slashed=len(trace.all(ProviderSlashed)))
    finding.failures = failures_of(scene, trace, liar, honest)
    name, unit_text = "the batch's collateral", "0x" + trace.unit.hex()
    finding.checks = [AmountCheck(name, unit_text, trace.ended_at, figures.lost, figures.collateral)]
    finding.figures = {figure: value for figure, value in asdict(figures).items() if figure != "scene"}
    stage.narrator.line(_figures_text(figures))
    return finding


def _sell_batch(stage: Stage, scene: DifferingScene) -> DisputedBatch:
    """Restart the cheat, resume its device, and sell one batch."""
    # The chain pauses the cheat's device after each refuted batch.
    stage.cheat_in(scene.mode)
    prompts_file = purchase.write_prompts(
        stage, scene.name, purchase.read_prompts(purchase.DEFAULT_PROMPTS, scene.requests)
    )
    first_height = stage.next_height()
    arguments = purchase.post_arguments(prompts_file, 2, PRICE_TEXT, batch=scene.requests, max_tokens=MAX_TOKENS)
    (unit_text,) = {row["unit"] for row in json.loads(stage.ogpu("unit post", *arguments, "--again"))}
    batch = DisputedBatch(stage, scene, DisputeTrace(unit=bytes.fromhex(unit_text[2:])))
    batch.follow_batch(first_height)
    return batch


def _figures_text(figures: DisputeFigures) -> str:
    judged_leaves = (
        f"{figures.judges} judges computed {figures.judged_tokens} tokens, of {figures.whole_tokens} for the whole"
    )
    return (
        f"{figures.scene}: of {figures.requests} requests one differs; since commits closed: disputed after "
        f"{figures.disputed} blocks, the last tree after {figures.shown}, paid after {figures.paid}; "
        f"{judged_leaves if figures.judges else 'no judge computed anything'}; the liar lost "
        f"{format_amount(figures.lost)} of {format_amount(figures.collateral)} oGPU, the honest one was paid "
        f"{format_amount(figures.price)}"
    )


def _add_liar(stage: Stage) -> None:
    stage.add_cheat(DIFFERING_SCENES[0].mode)
    stage.leave_devices_to(HONEST_PROVIDER)


DIFFERING_NETWORK = FreshDevnet(VALIDATOR_COUNT, "differing", prepare=_add_liar)
SCENARIO = Scenario("differing", "Batches that two answer differently", DIFFERING_NETWORK.open, play_scenes)
