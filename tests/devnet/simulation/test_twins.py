"""Twins: sound gadgets pass every scenario, planted bugs are found, a missed bar sets the exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from consensus import signstate
from consensus.finality.rounds import Rounds
from consensus.validators import ValidatorSet
from devnet.simulation.gadgets import BareNode
from devnet.simulation.twins import EDGES_BY_NAME, chosen_scenarios, count_scenarios, main, partitions, play_scenario
from inline_pool import InlinePool
from runtime.blocks.votes import BallotKind

SCENARIOS = 40
LINKS_ARE_NEEDED = (103_322,)


def failures_of(count: int) -> str:
    """Return the failures of the first failing scenario out of `count`."""
    return next(
        (" ".join(found) for number in chosen_scenarios(count) if (found := play_scenario(number).failures)), ""
    )


def test_the_scenarios_are_all_that_there_are_and_any_number_of_them_is_spread() -> None:
    assert len(partitions()) == 41  # of five gadgets, in at most three groups
    assert count_scenarios() == len(EDGES_BY_NAME) * 41**2 * 16 > 100_000
    assert len(set(chosen_scenarios(count_scenarios()))) == count_scenarios()
    assert len({number % len(EDGES_BY_NAME) for number in chosen_scenarios(20)}) == len(EDGES_BY_NAME)
    assert chosen_scenarios(4, first_index=2)[:2] == chosen_scenarios(4)[2:]


def test_no_scenario_breaks_a_rule_and_the_doubled_key_is_found() -> None:
    outcomes = [play_scenario(number) for number in chosen_scenarios(SCENARIOS)]
    assert [outcome.failures for outcome in outcomes if outcome.failures] == []
    assert [play_scenario(number).failures for number in LINKS_ARE_NEEDED] == [()] * len(LINKS_ARE_NEEDED)
    assert sum(outcome.accused > 0 for outcome in outcomes) > SCENARIOS // 2
    assert {outcome.height for outcome in outcomes} == {6}
    assert play_scenario(chosen_scenarios(1)[0]) == outcomes[0]


def test_half_a_quorum_makes_two_finals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValidatorSet, "is_quorum", lambda self, weight: 2 * weight >= self.total)
    assert "conflicting finals" in failures_of(SCENARIOS)


def test_a_proposal_over_rounds_that_nobody_skipped_makes_two_finals(monkeypatch: pytest.MonkeyPatch) -> None:
    """One scenario in some hundred shows it, so these are named. After a change of the draws, others do."""
    monkeypatch.setattr(
        Rounds, "links", lambda self, parent, round_: (parent == 0 or parent in self.notarised) and parent < round_
    )
    assert any("conflicting finals" in " ".join(play_scenario(number).failures) for number in LINKS_ARE_NEEDED)


def test_finalise_after_skip_frames_the_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = signstate._require_compatible

    def lax(kind: BallotKind, signed: BallotKind) -> None:
        if {kind, signed} != {BallotKind.FINALISE, BallotKind.SKIP}:
            sound(kind, signed)

    monkeypatch.setattr(signstate, "_require_compatible", lax)
    assert "an honest key is accused" in failures_of(SCENARIOS)


def test_without_help_for_those_who_lack_certificates_somebody_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BareNode, "_send_certificates", lambda *_: None)
    assert "after healing" in failures_of(SCENARIOS)


def test_without_help_over_the_edge_somebody_stays_in_the_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = BareNode._send_certificates

    def this_epoch_only(node: BareNode, sender: BareNode, need: Any) -> None:
        if need.epoch == node.gadget.members.epoch:
            sound(node, sender, need)

    monkeypatch.setattr(BareNode, "_send_certificates", this_epoch_only)
    assert "stands at 2 of 6" in failures_of(SCENARIOS) or "stands at 0 of 6" in failures_of(SCENARIOS)


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_missed_bar_is_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_sound: bool
) -> None:
    monkeypatch.setattr("devnet.simulation.twins.ProcessPoolExecutor", InlinePool)
    if not is_sound:
        monkeypatch.setattr(Rounds, "parent_round", lambda _: None)  # no node proposes any more
    report = tmp_path / "out" / "twins.json"
    assert main(["--count", "2", "--report", str(report)]) == (0 if is_sound else 1)
    figures = json.loads(report.read_text())
    assert (figures["scenarios"], figures["stalled"]) == (2, 0 if is_sound else 2)
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("twins: 2 of 134480 scenarios, 0 conflicts")
    assert ("FAILED scenario 0" in said) != is_sound
