"""The simulator: sound runs pass, equal seeds repeat, planted bugs are seen."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from consensus import signstate
from consensus.finality.gadget import Gadget
from consensus.parameters import DEVNET
from consensus.validators import ValidatorSet
from devnet.simulation import scenario as scenarios
from devnet.simulation.__main__ import catalogue, deal_jobs, kind_of, main, parse, sampled, summarise
from devnet.simulation.node import SimulatedNode
from devnet.simulation.scenario import SimulatedScenario, run
from inline_pool import InlinePool
from nightly_but import nightly_but
from runtime.blocks.votes import BallotKind

SEEDS_UNTIL_CAUGHT = 15
SAMPLED = {"n5-calm", "n5-honest", "n5-equivocators", "n5-weights", "n5-honest-sets"}


def short(scenario: SimulatedScenario) -> SimulatedScenario:
    return replace(scenario, storm_s=25, quiet_s=20, handoffs_least=0)


@pytest.mark.parametrize("scenario", nightly_but(14, catalogue(4)), ids=lambda scenario: scenario.name)
def test_four_validators_agree(scenario: SimulatedScenario) -> None:
    outcome = run(short(scenario) if scenario.storm_s else scenario, seed=1)
    assert outcome.failures == ()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_other_sizes_agree(size: int) -> None:
    assert run(short(SimulatedScenario(f"n{size}", size)), seed=2).failures == ()


def test_unequal_stakes_agree() -> None:
    scenario = SimulatedScenario("stakes", 5, stakes=(10, 20, 40, 20, 10), equivocators=1)
    assert run(short(scenario), seed=3).failures == ()


def test_sampling_can_be_forced_on_a_small_network() -> None:
    parameters = replace(DEVNET, force_sampling=True, sample_units=20)
    outcome = run(SimulatedScenario("sampled", 4, storm_s=0, quiet_s=20, parameters=parameters), seed=4)
    assert outcome.failures == ()
    assert outcome.accept_ms


@pytest.mark.parametrize(
    "scenario", nightly_but(2, [each for each in catalogue(5) if each.name in SAMPLED]), ids=lambda each: each.name
)
def test_five_validators_that_poll_three_units_agree(scenario: SimulatedScenario) -> None:
    outcome = run(short(sampled(scenario, 1, 3)), seed=1)
    assert outcome.failures == ()
    assert outcome.accept_ms


def test_a_third_of_the_seeds_samples_and_no_scenario_is_left_out() -> None:
    options, scenarios = parse(["--seeds", "300"]), list(catalogue(4))
    dealt = list(deal_jobs(scenarios, options))
    chosen = [scenario.name for scenario, _ in dealt if scenario.parameters.force_sampling]
    assert [seed for scenario, seed in dealt if scenario.parameters.force_sampling] == list(range(2, 300, 3))
    of_every = deal_jobs(scenarios, parse(["--every", "--seeds", "3"]))
    assert {seed for scenario, seed in of_every if scenario.parameters.force_sampling} == {2}
    assert {kind_of(name) for name in chosen} == {kind_of(scenario.name) for scenario in scenarios}
    assert all(sampled(scenario, seed, None) == scenario for seed in range(9) for scenario in catalogue(26))


@pytest.mark.parametrize(("words", "sizes"), [(["--sample", "0"], {0}), (["--sample", "4"], {4}), ([], {0, 3})])
def test_the_command_line_may_choose_the_sample(words: list[str], sizes: set[int]) -> None:
    dealt = deal_jobs(list(catalogue(5)), parse(["--seeds", "6", *words]))
    assert {each.parameters.force_sampling and each.parameters.sample_units for each, _ in dealt} == sizes


def test_two_of_seven_silent_stop_snowflake_but_not_finality() -> None:
    outcome = run(SimulatedScenario("silent", 7, silent=2, storm_s=0, quiet_s=30), seed=5)
    assert outcome.failures == ()
    assert outcome.accept_ms == ()


def test_a_half_is_no_quorum() -> None:
    # With two of four silent nothing may become final, and nothing conflict.
    outcome = run(SimulatedScenario("halt", 4, silent=2, storm_s=0, quiet_s=30), seed=6)
    assert outcome.finals == 0
    assert outcome.failures == ("only 0 new final blocks after healing",)


def test_seed_repeats_bit_for_bit_whatever_the_hash_seed() -> None:
    code = (
        "from devnet.simulation.scenario import SimulatedScenario, run;"
        "print(run(SimulatedScenario('repeat', 4, equivocators=1, storm_s=15, quiet_s=10), 7).trace)"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "77")
    }
    assert len(traces) == 1
    other = run(SimulatedScenario("repeat", 4, equivocators=1, storm_s=15, quiet_s=10), 8)
    assert other.trace + "\n" not in traces


def failures_until_caught(scenario: SimulatedScenario, first: int = 0) -> str:
    """Return the failures of the first seed that catches the bug.

    `first` is the present one, so that no run is wasted.
    """
    for seed in range(first, first + SEEDS_UNTIL_CAUGHT):
        failures = run(scenario, seed).failures
        if any("liveness" not in failure and "only" not in failure for failure in failures):
            return " ".join(failures)
    return ""


def test_half_quorum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValidatorSet, "is_quorum", lambda self, weight: 2 * weight >= self.total)
    assert "conflicting finals" in failures_until_caught(SimulatedScenario("mutant", 4, equivocators=1), first=25)


def test_finalise_after_skip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = signstate._require_compatible

    def lax(kind: BallotKind, signed: BallotKind) -> None:
        if {kind, signed} != {BallotKind.FINALISE, BallotKind.SKIP}:
            sound(kind, signed)

    monkeypatch.setattr(signstate, "_require_compatible", lax)
    assert "framed" in failures_until_caught(SimulatedScenario("mutant", 4))


def test_forgotten_votes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    start = SimulatedNode.start

    def forgetful(node: SimulatedNode) -> None:
        node.disk.sign_state = replace(signstate.EMPTY, header=node.disk.sign_state.header)
        start(node)

    monkeypatch.setattr(SimulatedNode, "start", forgetful)
    # Blackouts: a node that restarts alone votes only for blocks that it still has, so it takes many restarts in one
    # open round.
    scenario = SimulatedScenario("mutant", 4, storm=scenarios.BLACKOUT_MIX, storm_s=50)
    assert "framed" in failures_until_caught(scenario, first=4)


@pytest.mark.nightly
def test_forgotten_certificates_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # The only holder of a round's certificate forgets it, and no node can continue: a stall, no conflict.
    start = SimulatedNode.start

    def forgetful(node: SimulatedNode) -> None:
        node.disk.certificates = {}
        start(node)

    scenario = SimulatedScenario("mutant", 5, equivocators=1, storm=scenarios.BLACKOUT_MIX, storm_s=50, quiet_s=20)
    monkeypatch.setattr(SimulatedNode, "start", forgetful)
    stalled = next(seed for seed in range(22, 60) if run(scenario, seed).failures)
    monkeypatch.setattr(SimulatedNode, "start", start)
    assert run(scenario, stalled).failures == ()


@pytest.mark.nightly
def test_a_vote_that_is_never_asked_for_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three required signers had a restored database, and received the request while it could not sign."""
    scenario = SimulatedScenario("n4-put-back", 4, silent=1, storm=scenarios.PUT_BACK_MIX, storm_s=60)
    assert run(scenario, 1).failures == ()
    monkeypatch.setattr(Gadget, "is_silent", lambda _: False)
    assert run(scenario, 1).failures == ("only 0 new final blocks after healing",)


def test_nobody_loses_the_last_copy_of_a_final_block() -> None:
    world = scenarios.make_world(SimulatedScenario("some", 4, storm_s=0), 1)
    for node in world.nodes:
        node.start()
    world.run_until(scenarios.START_MS + 10_000)
    victim, behind = world.nodes[:2]
    victim.crash()
    victim.disk.noted += 100  # as if it alone had seen so much
    scenarios._restore_database(victim)
    assert victim.disk.final.height > 0
    victim.crash()
    victim.disk.noted = behind.disk.noted
    behind.disk.noted += 1
    scenarios._restore_database(victim)
    assert victim.disk.final.height > 0
    victim.crash()
    behind.disk.noted -= 1
    scenarios._restore_database(victim)
    assert victim.disk.final.height == 0
    world.run_until(scenarios.START_MS + 20_000)
    assert victim.disk.final.height > 10


def test_command_line_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "simulate.json"
    arguments = ["--seeds", "1", "--validators", "4", "--scenarios", "calm", "--jobs", "1", "--report", str(report)]
    assert main(arguments) == 0
    assert "1 runs" in (said := capsys.readouterr().out)
    assert "0 poll a sample" in said
    figures = json.loads(report.read_text())
    assert figures["failures"] == []
    assert figures["runs_of_kind"] == {"calm": 1}
    assert figures["scenarios"]["n4-calm"]["failed"] == 0


def test_what_went_wrong_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = run(short(SimulatedScenario("n4-some", 4, storm_s=0)), 1)
    monkeypatch.setattr(scenarios, "FINALS_AFTER_HEALING_MIN", 1_000)
    stalled = run(short(SimulatedScenario("n4-some", 4, storm_s=0)), 1)
    bad = ("conflicting finals: height 3 at node 1", "honest node framed: x", "2 pieces of evidence do not verify")
    outcomes = [sound, stalled, *(replace(sound, failures=(failure,)) for failure in bad)]
    sampling = [replace(sound, scenario=name) for name in ("n4-some-k3", "n4-some-k20", "n4-k3-some")]
    assert summarise([sound, sound, *sampling], [], 1.0)["runs_with_samples"] == 2
    assert summarise(outcomes, [], 1.0)["failed_runs"] == {
        "conflicting_finals": 1,
        "honest_accused": 1,
        "false_evidence": 1,
        "stalled": 1,
        "late_and_stuck": 0,
        "refused_handoffs": 0,
    }


@pytest.mark.parametrize("seeds", [14, 20, 200])
def test_every_kind_of_scenario_has_its_turn(seeds: int) -> None:
    options = parse(["--seeds", str(seeds)])
    kinds: Counter[str] = Counter()
    for place, size in enumerate((4, 5, 7)):
        turns = Counter(
            kind_of(scenario.name) for scenario, _ in deal_jobs(list(catalogue(size)), options, place * seeds)
        )
        assert max(turns.values()) - (min(turns.values()) if len(turns) == len(list(catalogue(size))) else 0) <= 1
        kinds.update(turns.keys())
    assert kinds.keys() == {kind_of(scenario.name) for scenario in catalogue(4)}


def test_command_line_fails_when_a_bar_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "FINALS_AFTER_HEALING_MIN", 1_000)
    monkeypatch.setattr("devnet.simulation.__main__.ProcessPoolExecutor", InlinePool)
    arguments = ["--seeds", "1", "--scenarios", "n4-calm", "--validators", "4", "--report", str(tmp_path / "out.json")]
    assert main(arguments) == 1
    assert "FAILED n4-calm seed 0" in capsys.readouterr().out
