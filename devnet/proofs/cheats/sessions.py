"""Cheats in sessions, played on a devnet: dishonest providers with honest customers, and hostile customers.

All sessions of a run are open at once. Invariant: the judgement reads final blocks, and the vouchers that customers
signed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from devnet.launcher.folder import DevnetError
from devnet.proofs.cheats.findings import CheatFinding, CheatFindings
from devnet.proofs.cheats.session_judgement import JudgedSession, PlayedSession
from devnet.proofs.cheats.session_scenes import (
    ANSWER_TOKENS,
    CUSTOMER_SCENES,
    PROVIDER_SCENES,
    REFUND_SCENES,
    CustomerScene,
    ProviderScene,
)
from devnet.proofs.cheats.units import BUILT_IN_MODEL, DECODER, wrong_issuance
from devnet.stage.actors.place_sale import create_services, offer_places
from devnet.stage.actors.session_customer import SessionOffer, SessionSeat, open_sessions, seats_of
from devnet.stage.measuring.session_ledger import SessionLedger
from devnet.stage.network import CHEAT, CUSTOMER, BlockFollower, FreshDevnet, Stage
from devnet.stage.scenario import Scenario
from genesis import dev_accounts
from gpu_tasks.market.sessions.records import SessionRecord
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.sessions.provider_end import SessionRefusal
from gpu_tasks.workloads.model_forms import form_named
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

VALIDATORS, REFUND_VALIDATORS = 6, 4
"""Beside a provider and its checker three voters are left, and two."""
CHAIN_NUMBERS = {
    "Sessions.session_check_rate": 1_000_000,
    "Sessions.session_settle_blocks": 40,
    "ResultClaims.duty_blocks": 20,
    "Disputes.vote_blocks": 20,
}
"""Each item of a claim is checked."""
RATE = GRAINS_PER_OGPU // 100
DEPOSIT, TERM = 2 * GRAINS_PER_OGPU, 900
PLACES = 32
ANSWER_SECONDS, SILENCE_SECONDS = 120.0, 20.0
SCRIPT_SECONDS = 150.0
BLOCKS_MAX = 900
SceneT = TypeVar("SceneT")
OPENER = CHEAT
"""The customer of dishonest providers. Hostile customers have another key, so that no two calls share a nonce."""
PROMPT = "The quick brown fox jumps over the lazy dog, and then"


@dataclass(slots=True)
class SessionCourse:
    """All sessions of a run."""

    stage: Stage
    scenes: Sequence[ProviderScene]
    customers: Sequence[CustomerScene]
    played: dict[bytes, PlayedSession] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def honest(self) -> str:
        """The name of the honest provider."""
        return self.stage.devnet.members[-1].name

    def run(self, services: dict[str, int]) -> None:
        """Open all sessions, use them, and close them. Problems are noted."""
        try:
            asyncio.run(self._run(services))
        except Exception as error:  # noqa: BLE001  # recorded as a failure of the run
            self.problems.append(f"{type(error).__name__}: {error}")

    async def _run(self, services: dict[str, int]) -> None:
        opener, hostile = (keypair_from_suri(f"//{name}") for name in (OPENER, CUSTOMER))
        async with await ChainClient.connect(self.stage.url) as chain:
            attacks = [(scene, services[self.honest]) for scene in self.customers]
            attacked = await self._opened(chain, hostile, attacks)
            # The device with fewer sessions comes first, so the honest one is the spare.
            served = await self._opened(chain, opener, [(scene, services[scene.name]) for scene in self.scenes])
            for seat in (*(seat for _, seat in attacked), *(seat for _, seat in served)):
                await seat.wait()
            ways: list[Coroutine[Any, Any, None]] = [self._served(scene, seat) for scene, seat in served]
            ways += [self._attacked(scene, seat) for scene, seat in attacked]
            await asyncio.gather(*ways)
            for key, seats in ((opener, served), (hostile, attacked)):
                calls = tuple(Sessions.close(session=seat.id) for _, seat in seats)
                # Some of them are closed already.
                if calls:
                    await chain.submit(Utility.force_batch(calls=calls), key)

    async def _opened(
        self, chain: ChainClient, key: Keypair, scenes: Sequence[tuple[SceneT, int]]
    ) -> list[tuple[SceneT, SessionSeat]]:
        """Open a session for each scene, at its service. Return the seats."""
        if not scenes:
            return []
        ids = await open_sessions(chain, key, [SessionOffer(service, DEPOSIT, TERM, RATE) for _, service in scenes])
        records = await seats_of(chain, ids)
        if len(records) < len(ids):
            raise DevnetError(f"{len(ids) - len(records)} of {len(ids)} sessions got no provider")
        form = form_named(f"{DECODER}:{BUILT_IN_MODEL}")
        return [
            (scene, SessionSeat(self.stage.url, chain.genesis_hash, session_id, records[session_id], key, form))
            for (scene, _), session_id in zip(scenes, ids, strict=True)
        ]

    # ---------------------------------------------------------------------------------------------- dishonest providers

    async def _served(self, scene: ProviderScene, seat: SessionSeat) -> None:
        """Let an honest customer use a session at a dishonest provider."""
        played = self.played[seat.id] = PlayedSession(seat.id, scene)
        cheat = self.stage.devnet.members[self.scenes.index(scene)].name
        if seat.record.legs[0].owner != dev_accounts.stash(cheat):
            played.problems.append(f"{cheat} is not its provider")
            return
        request = seat.form.encode(PROMPT, ANSWER_TOKENS, {}, bytes(32))
        seconds = SILENCE_SECONDS if scene.is_handed_over else ANSWER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._asked(seat, played, request)
        except TimeoutError:
            if not scene.is_handed_over:
                played.problems.append(f"the provider has not answered for {seconds:.0f} s")
                return
            await self._handed_over(seat, played)

    async def _asked(self, seat: SessionSeat, played: PlayedSession, request: bytes | None) -> None:
        """Ask a request, or go on with the answer of an earlier provider."""
        folder = self.stage.devnet.folder / "customers"
        async with seat.client(folder, played.signed) as client:
            parts = client.go_on() if request is None else client.ask(request)
            async with contextlib.aclosing(parts):
                async for arrived in parts:
                    played.tokens += len(arrived.tokens)

    async def _handed_over(self, seat: SessionSeat, played: PlayedSession) -> None:
        """Go on with the spare."""
        async with await ChainClient.connect(self.stage.url) as chain:
            outcome = await chain.submit(Sessions.hand_over(session=seat.id), seat.key)
            record: SessionRecord = await chain.read(Sessions.sessions, seat.id, at=await chain.finalized())
        if not outcome.is_success:
            played.problems.append(f"it was not handed over: {outcome.error}")
            return
        spare = replace(seat, record=record)
        try:
            await spare.wait()
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._asked(spare, played, None)
        except TimeoutError:
            played.problems.append("the spare has not answered")

    # ------------------------------------------------------------------------------------------------ hostile customers

    async def _attacked(self, scene: CustomerScene, seat: SessionSeat) -> None:
        """Let a hostile customer use a session at the honest provider."""
        played = self.played[seat.id] = PlayedSession(seat.id, scene)
        request = seat.form.encode(PROMPT, ANSWER_TOKENS, {}, bytes(32))
        promised: Voucher | None = None
        try:
            async with asyncio.timeout(SCRIPT_SECONDS), seat.raw() as raw:
                try:
                    await scene.script(raw, request)
                finally:
                    promised, played.tokens = raw.promised, raw.tokens
        except SessionRefusal as refusal:
            played.code = refusal.code or ""
        except ConnectionError as error:
            played.code = str(error).partition(":")[0]
        except TimeoutError:
            played.problems.append("the provider keeps the stream open")
        if promised is not None:
            played.signed.append(promised)


def _sell(stage: Stage, scenes: Sequence[ProviderScene], honest: str) -> dict[str, int]:
    """Create a service for each dishonest provider, and one for hostile customers. Return their numbers by name."""
    cheats = [member.name for member in stage.devnet.members[: len(scenes)]]
    form = form_named(f"{DECODER}:{BUILT_IN_MODEL}")
    services = create_services(stage, form, [*(scene.name for scene in scenes), honest], RATE)
    offers = {cheat: [services[scene.name]] for scene, cheat in zip(scenes, cheats, strict=True)}
    spared = [services[scene.name] for scene in scenes if scene.is_handed_over]
    offer_places(stage, offers | {honest: [services[honest], *spared]}, RATE, PLACES)
    return services


def play_sessions(stage: Stage, scenes: Sequence[ProviderScene], customers: Sequence[CustomerScene]) -> CheatFindings:
    """Give the providers their modes, use all sessions at once, and judge each."""
    names = [member.name for member in stage.devnet.members]
    modes = {name: scene.mode for scene, name in zip(scenes, names, strict=False)}
    stage.restart(modes)
    stage.resume(*names)
    course = SessionCourse(stage, scenes, customers)
    services = _sell(stage, scenes, course.honest)
    liars = frozenset(dev_accounts.stash(name) for scene, name in zip(scenes, names, strict=False) if scene.is_false)
    ledger = SessionLedger(liars)
    follower = BlockFollower(stage, ledger.take, stage.next_height())
    worker = threading.Thread(target=course.run, args=(services,), daemon=True)
    worker.start()

    def are_over() -> bool:
        is_played = not worker.is_alive() and all(trace.is_over for trace in ledger.sessions.values())
        return is_played or bool(course.problems)

    follower.until("the end of every session", are_over, BLOCKS_MAX)
    attempts = [row for name in modes for row in stage.telemetry(name) if row["event"] == "cheat"]
    return _judged(stage, course, ledger, attempts)


def _judged(
    stage: Stage, course: SessionCourse, ledger: SessionLedger, attempts: Sequence[dict[str, Any]]
) -> CheatFindings:
    names = [*(scene.name for scene in course.scenes), *(scene.name for scene in course.customers)]
    findings = {name: CheatFinding(name) for name in names}
    for session_id, played in course.played.items():
        of_session = tuple(row for row in attempts if row.get("unit") == session_id.hex())
        judged = JudgedSession(played, ledger.sessions[session_id], of_session)
        finding = findings[played.scene.name]
        judged.record_in(finding)
        stage.narrator.line(
            f"{played.scene.title}: {', '.join(finding.answers) or 'no claim'}; {played.tokens} tokens, "
            f"{max(0, played.unpaid)} unpaid"
        )
        for failure in finding.failures:
            stage.narrator.line(f"FAILED: {played.scene.name}: {failure}")
    first = next(iter(findings.values()))
    first.failures += course.problems
    for name, finding in findings.items():
        if not finding.sessions:
            finding.failures.append(f"{name} was not played")
    first.failures += stage.ask(wrong_issuance)
    return CheatFindings(list(findings.values()))


SCENARIOS = (
    Scenario(
        "sessions",
        "Providers that cheat in sessions, and hostile customers",
        FreshDevnet(VALIDATORS, "sessions", numbers=CHAIN_NUMBERS).open,
        partial(play_sessions, scenes=PROVIDER_SCENES, customers=CUSTOMER_SCENES),
    ),
    Scenario(
        "session-refunds",
        "Too few voters about a session: its customer gets the money back",
        FreshDevnet(REFUND_VALIDATORS, "session-refunds", numbers=CHAIN_NUMBERS).open,
        partial(play_sessions, scenes=REFUND_SCENES, customers=()),
    ),
)
