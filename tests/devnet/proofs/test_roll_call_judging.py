"""The requirements of the roll call over real nodes: each record that breaks one is named."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.roll_call import CalledProvider, DeviceFigures, RollCallPart, judge_roll_call
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROLL_CALL_BOND
from gpu_tasks.market.claims.claim_events import (
    CheckEnded,
    CheckerDrawn,
    ClaimEnded,
    ItemDisputed,
    PointsDrawn,
    SamplesShown,
)
from gpu_tasks.market.claims.claims import (
    CHECKER_BOND,
    CheckEnd,
    ClaimOutcome,
    ClaimStage,
    ClaimTerms,
    ResultClaim,
)
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, fees_max, finder_reward, item_rate, least_collateral
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoteOpened, VotersDrawn
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.market.devices.events import DeviceAssigned
from gpu_tasks.provider.doctor.chain import PROVED_TOO_LITTLE
from runtime.encoding.types import DispatchClass, DispatchInfo, Pays, Weight
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked
from runtime.pallets.system import ExtrinsicFailed

ALICE, BOB, DAVE, EVE = (bytes([number]) * 32 for number in range(1, 5))
VALIDATORS = tuple(bytes([number]) * 32 for number in range(11, 15))
FEE, ROWS = 100, 4_096
COLLATERAL = least_collateral(4_000, items=ROWS, rate_ppm=ALWAYS_PPM, vote_fee=FEE)
WHY = "it has proven 0 of the 1"
PROVIDERS = (
    CalledProvider("Alice", RollCallPart.KILLED, ALICE, 1, None, None),
    CalledProvider("Bob", RollCallPart.HONEST, BOB, 1, None, None),
    CalledProvider("Dave", RollCallPart.WEAK, DAVE, 1, WHY, PROVED_TOO_LITTLE),
    CalledProvider("Eve", RollCallPart.LIAR, EVE, 1, WHY, PROVED_TOO_LITTLE),
)
SAMPLES = (ItemSample(0, ITEM_WEIGHT, bytes(16)),)
WRONG = ItemVote(Verdict.WRONG, b"w" * 32, ())


def claim_of(device: bytes) -> bytes:
    return b"claim" + device[:27]


def dispute_of(device: bytes) -> bytes:
    return b"voted" + device[:27]


def opened(owner: bytes) -> ResultClaim:
    terms = ClaimTerms(
        handler=Capacity.index, provider=owner, customer=owner, root=bytes(32), items=ROWS, weight=ROWS * ITEM_WEIGHT,
        item_weight_max=ITEM_WEIGHT, price=0, collateral=COLLATERAL, rate_ppm=item_rate(ROWS, ALWAYS_PPM), check_ppm=0,
        fee_min=FEE, fees_held=fees_max(0, 0, FEE), sealed_at=1, run_blocks=10, excluded=(),
    )  # fmt: skip
    return ResultClaim(terms, 30, ClaimStage.DRAWING, 1)


CLAIMS = {claim_of(owner): opened(owner) for owner in (ALICE, BOB, DAVE, EVE)}


def proof_held(owner: bytes) -> Locked:
    return Locked(owner, ROLL_CALL_BOND, claim_of(owner), COLLATERAL + 2 * FEE)


def begun(owner: bytes) -> list[Any]:
    """Return the events of a proof up to the provider's samples."""
    claim, checker = claim_of(owner), VALIDATORS[0]
    return [
        proof_held(owner), ev.CapacityStated(owner, 1, 6, claim), PointsDrawn(claim, (0,)),
        Locked(checker, CHECKER_BOND, claim, COLLATERAL), CheckerDrawn(claim, 0, checker, bytes(32), COLLATERAL),
        SamplesShown(claim, 0, SAMPLES),
    ]  # fmt: skip


def passed(owner: bytes) -> list[Any]:
    """Return the events of a proof whose only check passes. The test's device ids serve as owners."""
    claim, checker = claim_of(owner), VALIDATORS[0]
    return [
        *begun(owner), CheckEnded(claim, 0, CheckEnd.PASSED), Paid(owner, ROLL_CALL_BOND, claim, checker, FEE),
        Unlocked(owner, ROLL_CALL_BOND, claim, COLLATERAL + FEE), Unlocked(checker, CHECKER_BOND, claim, COLLATERAL),
        ClaimEnded(claim, ClaimOutcome.PASSED),
    ]  # fmt: skip


def refuted(owner: bytes) -> list[Any]:
    """Return the events of a proof that three voters refute."""
    claim, dispute, (checker, *voters) = claim_of(owner), dispute_of(owner), VALIDATORS
    reward = finder_reward(COLLATERAL)
    return [
        *begun(owner), ItemDisputed(claim, dispute, 0, 0),
        *(Locked(voter, VOTER_BOND, dispute, 2 * FEE) for voter in voters),
        VotersDrawn(dispute, 0, tuple(voters), 2 * FEE), *(VoteOpened(dispute, voter, WRONG) for voter in voters),
        *(Unlocked(voter, VOTER_BOND, dispute, 2 * FEE) for voter in voters),
        DisputeEnded(dispute, WRONG), CheckEnded(claim, 0, CheckEnd.UPHELD),
        Paid(owner, ROLL_CALL_BOND, claim, checker, reward),
        *(Paid(owner, ROLL_CALL_BOND, claim, voter, FEE) for voter in voters),
        Paid(owner, ROLL_CALL_BOND, claim, None, COLLATERAL - reward - 3 * FEE),
        Unlocked(owner, ROLL_CALL_BOND, claim, 2 * FEE), Unlocked(checker, CHECKER_BOND, claim, COLLATERAL),
        ClaimEnded(claim, ClaimOutcome.REFUTED), ev.CapacityRefuted(owner, 1),
    ]  # fmt: skip


def events() -> list[Any]:
    return [
        ev.RollCalled(1, bytes(32)),
        *(event for owner in (ALICE, BOB, DAVE) for event in passed(owner)),
        *refuted(EVE),
        DeviceAssigned(ALICE, b"u"),
        DeviceAssigned(BOB, b"u"),
    ]


def judged(happened: list[Any], providers: tuple[CalledProvider, ...] = PROVIDERS) -> list[str]:
    return judge_roll_call(EventTrace([(1, event) for event in happened]), providers, CLAIMS)


def without(kind: type[Any], *, of: bytes) -> Callable[[list[Any]], list[Any]]:
    """Return a change that leaves out the events of a kind about one device or its claim."""
    subjects = {of, claim_of(of)}

    def change(found: list[Any]) -> list[Any]:
        return [
            event
            for event in found
            if not (isinstance(event, kind) and subjects & {getattr(event, name, b"") for name in ("device", "claim")})
        ]

    return change


def test_a_roll_call_as_it_should_be_breaks_no_requirement() -> None:
    assert judged(events()) == []


def test_the_figures_of_a_liar_name_its_loss() -> None:
    found = DeviceFigures.of(EventTrace([(1, event) for event in events()]), PROVIDERS[-1])
    assert (found.outcome, found.lost_grains, found.checks, found.disputes) == ("REFUTED", COLLATERAL, 1, 1)


FAILED = ExtrinsicFailed(None, DispatchInfo(Weight(0, 0), DispatchClass.Normal, Pays.Yes))  # type: ignore[arg-type]  # its error is not read


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda found: found[1:], "there was no roll call"),
        (lambda found: [*found, ev.CapacityStated(ALICE, 1, 6, claim_of(ALICE))], "Alice: it stated 2 proofs"),
        (without(ev.CapacityStated, of=BOB), "Bob: it stated 0 proofs"),
        (lambda found: [*found, FAILED], "1 calls cost their fee"),
        (without(ClaimEnded, of=BOB), "Bob: its claim ended as nothing"),
        (without(SamplesShown, of=ALICE), "Alice: it showed no samples"),
        (lambda found: [*found, ev.CapacityRefuted(ALICE, 1)], "Alice: 1 of its proofs are refuted"),
        (without(ev.CapacityRefuted, of=EVE), "Eve: 0 of its proofs are refuted"),
        (lambda found: [*found, DeviceAssigned(EVE, b"u")], "Eve: it was drawn for 1 units"),
        (lambda found: [*found, DeviceAssigned(DAVE, b"u")], "Dave: it was drawn for 1 units"),
        (lambda found: [each for each in found if each != DeviceAssigned(BOB, b"u")], "Bob: it was drawn for 0 units"),
        (
            lambda found: [*found, Paid(BOB, ROLL_CALL_BOND, claim_of(BOB), None, 1)],
            "Bob: 1 payments are not those of the money table",
        ),
        (lambda found: [*found, proof_held(BOB)], "Bob: grains are left in RollCallBond"),
        (
            lambda found: [each for each in found if not (isinstance(each, Paid) and each.payee is None)],
            f"Eve: it lost {finder_reward(COLLATERAL) + 3 * FEE} of {COLLATERAL} grains",
        ),
    ],
)
def test_a_broken_requirement_is_named(change: Callable[[list[Any]], list[Any]], says: str) -> None:
    failures = judged(change(events()))
    assert any(says in failure for failure in failures), failures


@pytest.mark.parametrize(
    ("place", "changed", "says"),
    [
        (0, {"begun_count": 2}, "Alice: its chain was computed 2 times, not once"),
        (1, {"why_no_work": WHY}, "Bob: status says of it"),
        (2, {"diagnosis": None}, "Dave: doctor says of it: None"),
        (3, {"why_no_work": None}, "Eve: status says of it: None"),
    ],
)
def test_the_output_of_a_providers_programs_is_judged_too(place: int, changed: dict[str, Any], says: str) -> None:
    providers = list(PROVIDERS)
    providers[place] = replace(providers[place], **changed)
    assert any(says in failure for failure in judged(events(), tuple(providers)))
