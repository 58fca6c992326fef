"""Daemons that lie about whole batches: what they answer, which drawn leaves they show, what they pass as auditors.

Always: all is computed honestly first, and other duties are done honestly; two who tell the same lie about a unit tell
it to the bit.
"""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import Any

from devnet.proofs.cheating.lies import BatchLie, RightAnswers, ToldBatch, drawn_paths
from gpu_tasks.batches.leaf_draws import weight_floor
from gpu_tasks.batches.outcomes import decode_outcomes, encode_outcomes
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks_api import CheckStatus
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.checking import CheckDuty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race
from gpu_tasks.provider.duties.racing import RaceDuty
from gpu_tasks.provider.duties.sending import StepMessage
from gpu_tasks.provider.journal.records import UnitResult
from gpu_tasks.workloads.form import WorkloadForm


def told_about(lie: BatchLie, right: RightAnswers) -> ToldBatch:
    """The lie about a batch that everybody tells who tells this lie."""
    return lie(right, Random(right.unit))


def most_of(terms: UnitTerms) -> tuple[int, ...]:
    """Tokens out that each request of a unit may be said to have, where all may have as many."""
    return (terms.tokens_max // terms.requests,) * terms.requests


class LyingRacing(RaceDuty):
    """Computes its batches, and answers something else."""

    def __init__(self, parts: Parts, lie: BatchLie) -> None:
        """As `RaceDuty`; nothing was told yet."""
        super().__init__(parts)
        self._lie = lie
        self.told: dict[bytes, ToldBatch] = {}

    async def compute(self, race: Race, form: WorkloadForm, asked: UnitInput) -> UnitResult:
        """See `RaceDuty`."""
        honest, parts, unit = await super().compute(race, form, asked), self.parts, race.unit_id
        outcomes = decode_outcomes(honest.outcomes)
        right = RightAnswers(parts.identity.genesis, unit, asked.salt, outcomes, most_of(race.unit.terms))
        told = self.told[unit] = told_about(self._lie, right)
        content = encode_outcomes(told.outcomes)
        return replace(
            honest,
            outcomes=content,
            output_root=batch_root(told.totals),
            output_blob=parts.store.put(seal(content, [asked.reply_key]), is_own=True),
            totals=told.totals,
            usage=replace(honest.usage, work_units=told.totals.tokens_out),
        )


class LyingShowing(CheckDuty):
    """Shows the drawn leaves of what it told as far as that has paths to show, or nothing; audits honestly."""

    def __init__(self, parts: Parts, told: dict[bytes, ToldBatch], *, hides: bool) -> None:
        """As `CheckDuty`."""
        super().__init__(parts)
        self._told, self._hides = told, hides

    async def _show(self, status: CheckStatus) -> None:
        unit, check, told = status.unit, status.check, self._told.get(status.unit)
        if told is None:
            await super()._show(status)
            return
        terms = check.terms
        assert check.seed is not None, "it is known which leaves are shown"
        floor = weight_floor(terms.allowed, terms.requests)
        drawn = drawn_paths(told, check.seed, unit, floor, terms.input_share)
        paths = tuple(path for path in drawn if path is not None)
        if self._hides or len(paths) < len(drawn):
            self.parts.telemetry.tell("cheat", mode="lying", unit=unit, what="leaves", answer="kept back")
            return
        call = LeafChecks.show_leaves(unit=unit, totals=told.totals, paths=paths)
        await _sent(self, StepMessage(call, "leaves_shown", {"unit": unit}))


class LyingDaemon(Daemon):
    """Tells one kind of lie about each batch."""

    def __init__(self, lie: BatchLie, *parts: Any, hides: bool = False) -> None:
        """As `Daemon`; who `hides` shows no leaf of what it told."""
        super().__init__(*parts)
        self.racing = racing = LyingRacing(self.parts, lie)
        self.checking = LyingShowing(self.parts, racing.told, hides=hides)


class LazyChecking(CheckDuty):
    """Passes whatever it audits: it computes nothing, and makes up the proof that it did."""

    async def _audit(self, status: CheckStatus) -> None:
        call = LeafChecks.pass_leaves(unit=status.unit, proof=os.urandom(32))
        self.parts.telemetry.tell("cheat", mode="lazy-auditor", unit=status.unit, what="proof", answer="made up")
        await _sent(self, StepMessage(call, "leaves_passed", {"unit": status.unit}))


class LazyAuditor(Daemon):
    """See `LazyChecking`."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        self.checking = LazyChecking(self.parts)


async def _sent(duty: CheckDuty, message: StepMessage) -> None:
    """Send it; what the node refuses is told."""
    try:
        await duty.book.send(message)
    except ChainError as error:
        duty.parts.telemetry.tell("refused", problem=str(error))
