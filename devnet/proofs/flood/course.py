"""The course of a run: a quiet stretch, then one attack after the other, each with its recovery.

Invariant: the same tasks measure honest clients, final blocks and processes from start to end. An attack begins when
the network has recovered, or after a limit on that wait.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import trio

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, genesis_hash
from devnet.proofs.flood import measures, network
from devnet.proofs.flood.attack import READY, Attack, AttackAccount, Door, Needs, victim_of
from devnet.proofs.flood.clients import LOOPBACK, ask
from devnet.proofs.flood.judging import (
    AttackFigures,
    BarResult,
    MemoryUse,
    Records,
    Stretch,
    is_to_be_tried_again,
    misses,
)
from devnet.stage.report import Narrator

NICE = 10  # of an attacker
QUIET_SECONDS_MIN = 20.0
BEFORE_SECONDS = 5.0
PREPARE_SECONDS, END_SECONDS = 120.0, 20.0
MEMORY_SECONDS = 60.0
RPC_BACK_SECONDS = 15.0
WELL_INTERVALS, WELL_RATIO = 3, 1.5
STEP_SECONDS = 0.5
BLOB = b"a blob of an honest customer"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures that an attack is compared with."""

    intervals: AttackFigures
    doors: dict[str, AttackFigures]


@dataclass(slots=True)
class Course:
    """A run in progress."""

    devnet: Devnet
    seconds: float
    narrator: Narrator
    is_hogged: bool = False
    """True if every attack runs beside processes that use all processors."""
    records: Records = field(default_factory=Records)
    quiet: Stretch = field(default_factory=lambda: Stretch(0.0, 0.0))
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def live(self, ready: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        """Measure until cancelled. Call `ready` after the quiet stretch."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                for door, attempt in measures.doors_of(self.devnet, genesis_hash(self.devnet)).items():
                    nursery.start_soon(measures.keep_trying, door, attempt, self.records)
                nursery.start_soon(measures.watch_finals, self.devnet, self.records)
                nursery.start_soon(measures.watch_processes, self.devnet, self.records)
                nursery.start_soon(measures.watch_disk, self.devnet.folder, self.records)
                await trio.sleep(BEFORE_SECONDS)
                self.quiet = await self._stretch(max(self.seconds, QUIET_SECONDS_MIN))
                intervals, doors = self._quiet_figures([self.quiet])
                seen = ", ".join(f"{door} p99 {each.p99_ms} ms" for door, each in doors.items())
                self.narrator.line(
                    f"quiet: final blocks every {intervals.p50_ms} ms, p99 {intervals.p99_ms} ms; {seen}"
                )
                ready(trio.lowlevel.current_trio_token())
                await trio.sleep_forever()

    async def judged(self, attack: Attack) -> BarResult:
        """Run an attack and judge it.

        Repeat it if it failed only in time and the disk stalled, which no node can prevent.
        """
        finding = await self._try(attack)
        finding.misses = misses(finding)
        while is_to_be_tried_again(finding):
            earlier, finding = finding, await self._try(attack)
            finding.misses, finding.earlier_misses = misses(finding), [*earlier.earlier_misses, earlier.misses]
        return finding

    async def _try(self, attack: Attack) -> BarResult:
        """Prepare the attack's needs, attack, wait for the recovery, and compute the figures."""
        async with self._with_needs(attack):
            with network.beside_hogs() if self._hogged(attack) else nullcontext():
                baseline = await self._baseline(attack)
                logs, starts = measures.log_sizes(self.devnet), self._running()
                stretch, account = await self._attacked(attack)
            logs_then = measures.log_sizes(self.devnet)
            violations = [*account.violations, *await self._revived(starts), *await self._rpc_back()]
            recovered = await self._well_again(stretch)
            working = Stretch(stretch.start, time.monotonic())  # a node works off its queues after the attack
            memory = await self._memory(stretch)
            tracebacks = measures.tracebacks(logs, measures.log_sizes(self.devnet))
            finding = self._finding(attack, account, stretch, baseline, self._extra_cpu(working), memory)
        if recovered is None:
            violations.append(f"finality: not as regular as before within {MEMORY_SECONDS:.0f} s")
        if attack.aftermath is not None:
            violations += await attack.aftermath(self.devnet)
        finding.recovered_seconds, finding.violations = recovered, violations
        finding.log_bytes_per_second, finding.tracebacks = (
            measures.growth(logs, logs_then) / stretch.seconds,
            tracebacks,
        )
        return finding

    async def _baseline(self, attack: Attack) -> Baseline:
        """Return the quiet figures: those of the first stretch, and those before the attack if blocks came in time.

        Late blocks there are an effect of an earlier attack. For an attack beside hogs, measure only now, beside the
        same hogs (`network.beside_hogs`).
        """
        if self._hogged(attack):
            await trio.sleep(BEFORE_SECONDS)
            intervals, doors = self._quiet_figures([await self._stretch(max(self.seconds, QUIET_SECONDS_MIN))])
            return Baseline(intervals, {door: doors[door] for door in self._doors(attack)})
        first, now = self.quiet, await self._stretch(BEFORE_SECONDS)
        usual = self._quiet_figures([first])[0].p99_ms
        late = self._quiet_figures([now])[0].p99_ms
        is_quiet = usual is not None and late is not None and late <= usual * WELL_RATIO
        intervals, doors = self._quiet_figures([first, now] if is_quiet else [first])
        _, doors_now = self._quiet_figures([now])
        return Baseline(
            intervals, {door: doors[door] if doors[door].count else doors_now[door] for door in attack.doors}
        )

    def _hogged(self, attack: Attack) -> bool:
        return attack.hogged or self.is_hogged

    def _doors(self, attack: Attack) -> tuple[Door, ...]:
        """Return the judged interfaces. Beside hogs, proofs are always judged too."""
        return (
            (*attack.doors, Door.PROOFS) if self._hogged(attack) and Door.PROOFS not in attack.doors else attack.doors
        )

    async def _stretch(self, seconds: float) -> Stretch:
        start = time.monotonic()
        await trio.sleep(seconds)
        return Stretch(start, time.monotonic())

    # --- the attack

    async def _attacked(self, attack: Attack) -> tuple[Stretch, AttackAccount]:
        """Run the attack in a process of its own.

        The stretch has the intended length, even if the attack ended early.
        """
        arguments = [sys.executable, "-m", "devnet.proofs.flood.attacker", str(self.devnet.folder), attack.name]
        log = self.devnet.folder / "attacker.log"
        with log.open("ab") as errors:
            process = await trio.lowlevel.open_process(
                [*arguments, str(self.seconds), str(0 if self._hogged(attack) else NICE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=processes.source_path(),
            )
        try:
            return await self._led(process)
        except (trio.TooSlowError, EOFError, trio.BrokenResourceError):
            now = time.monotonic()
            told = f"the attack itself failed; {log} ends:\n{lifecycle.tail(log)}"
            return Stretch(now - STEP_SECONDS, now), AttackAccount(violations=[told])
        finally:
            process.kill()

    async def _led(self, process: trio.Process) -> tuple[Stretch, AttackAccount]:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        with trio.fail_after(PREPARE_SECONDS):
            line, rest = await _line(process.stdout, b"")
        if line != READY:
            raise EOFError
        start = time.monotonic()
        await process.stdin.send_all(b"go\n")
        await trio.sleep(self.seconds)
        deadline = time.monotonic()
        with trio.fail_after(END_SECONDS):
            line, _ = await _line(process.stdout, rest)
        return Stretch(start, deadline), AttackAccount.from_json(line)

    # --- afterwards

    def _running(self) -> dict[str, int | None]:
        return {
            member.name: processes.running(lifecycle.node_process(self.devnet, member))
            for member in self.devnet.members
        }

    async def _revived(self, before: dict[str, int | None]) -> list[str]:
        """Return a problem for each node that has ended, and start it again."""
        dead = [name for name, process_id in self._running().items() if process_id is None and before[name] is not None]
        found = []
        for name in dead:
            process = network.node_of(self.devnet, self.devnet.member(name))
            found.append(f"the node {name} ended; its log ends: {lifecycle.tail(process.log, 2)}")
            processes.start(process)  # in this thread: a child dies with the thread that started it
        if dead:
            await trio.to_thread.run_sync(lambda: asyncio.run(lifecycle.ready(self.devnet)))
        return found

    async def _rpc_back(self) -> list[str]:
        """Kill an RPC process that no longer answers, so that the next attack meets a working one."""
        since = time.monotonic()
        if await self._answers_within(RPC_BACK_SECONDS, since):
            return []
        process_id = measures.rpc_pid(self.devnet, victim_of(self.devnet).name)
        if process_id is not None:
            os.kill(process_id, signal.SIGKILL)
        if not await self._answers_within(MEMORY_SECONDS, since):
            raise DevnetError(f"the RPC process of {victim_of(self.devnet).name} did not start again")
        return [f"JSON-RPC answered nobody for another {RPC_BACK_SECONDS:.0f} s: its process was killed"]

    async def _answers_within(self, seconds: float, since: float) -> bool:
        """Return whether an honest call that began after `since` is answered within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await trio.sleep(STEP_SECONDS)
            if any(call.is_answered and call.began > since for call in self.records.calls if call.door == Door.RPC):
                return True
        return False

    async def _well_again(self, stretch: Stretch) -> float | None:
        """Return the seconds until final blocks were regular again, or None after the limit."""
        figures, _ = self._quiet_figures([self.quiet])
        limit_ms = (figures.p50_ms or 1000) * WELL_RATIO
        while (now := time.monotonic()) < stretch.end + MEMORY_SECONDS:
            recent = Stretch(max(stretch.end, now - WELL_INTERVALS * limit_ms / 1000), now)
            intervals = self.records.intervals(recent, now, is_whole=True)
            watched = len(self.records.finals)
            if len(intervals) >= watched * (WELL_INTERVALS - 1) and max(intervals) <= limit_ms:
                return round(now - stretch.end, 1)
            await trio.sleep(STEP_SECONDS)
        return None

    async def _memory(self, stretch: Stretch) -> dict[str, MemoryUse]:
        """Return each role's memory after all roles freed it, or after the limit."""
        before, peak = self.records.resident_at(stretch.start), self.records.resident_peak(stretch)
        while True:
            now = time.monotonic()
            after = self.records.resident_at(now)
            found = {role: MemoryUse(size, peak.get(role, size), after.get(role, 0)) for role, size in before.items()}
            if now > stretch.end + MEMORY_SECONDS or all(memory.after <= memory.limit for memory in found.values()):
                return found
            await trio.sleep(STEP_SECONDS)

    # --- figures

    def _quiet_figures(self, quiet: Sequence[Stretch]) -> tuple[AttackFigures, dict[str, AttackFigures]]:
        now = time.monotonic()
        doors = dict.fromkeys(call.door for call in self.records.calls)
        return self.records.interval_figures(quiet, now, is_whole=True), {
            door: self.records.door_figures(door, quiet, now) for door in doors
        }

    def _finding(
        self,
        attack: Attack,
        account: AttackAccount,
        stretch: Stretch,
        baseline: Baseline,
        cpu: dict[str, float],
        memory: dict[str, MemoryUse],
    ) -> BarResult:
        now = time.monotonic()
        return BarResult(
            attack=attack.name,
            finding=attack.finding,
            rule=attack.rule,
            seconds=self.seconds,
            quiet_intervals=baseline.intervals,
            intervals=self.records.interval_figures([stretch], now, is_whole=False),
            quiet_doors=baseline.doors,
            doors={door: self.records.door_figures(door, [stretch], now) for door in self._doors(attack)},
            cpu_per_second={role: round(seconds / stretch.seconds, 3) for role, seconds in cpu.items()},
            others_cpu_per_second=self._others_cpu(stretch, account),
            slowest_write_ms=self.records.slowest_write_ms(stretch),
            memory=memory,
            account=account,
            recovered_seconds=None,
            log_bytes_per_second=0.0,
            tracebacks=0,
            violations=[],
            hogged=self._hogged(attack),
        )

    def _others_cpu(self, stretch: Stretch, account: AttackAccount) -> float:
        """Return the CPU seconds per second of other programs. The attacker's CPU time includes its preparation."""
        others = self.records.others_seconds(stretch) - account.cpu_seconds
        return round(max(0.0, others) / stretch.seconds, 2)

    def _extra_cpu(self, stretch: Stretch) -> dict[str, float]:
        """Return the CPU seconds beyond the quiet share, by role, over all nodes."""
        first = self.quiet
        quiet = {role: used / first.seconds for role, used in self.records.cpu_seconds(first).items()}
        extra: dict[str, float] = {}
        for role, used in self.records.cpu_seconds(stretch).items():
            kind = role.rpartition("/")[2]
            extra[kind] = extra.get(kind, 0.0) + used - quiet.get(role, 0.0) * stretch.seconds
        return extra

    # --- the needs of some attacks

    @asynccontextmanager
    async def _with_needs(self, attack: Attack) -> AsyncIterator[None]:
        """Run the processes that this attack needs, with an honest client of each."""
        match attack.needs:
            case Needs.NOTHING:
                yield
            case Needs.PROVIDER:
                async with self._provider():
                    yield
            case Needs.STRICT_NODE:
                async with self._strict_node():
                    yield

    @asynccontextmanager
    async def _provider(self) -> AsyncIterator[None]:
        member = victim_of(self.devnet)
        process = lifecycle.provider_process(self.devnet, member)
        processes.start(process)  # in this thread: a child dies with the thread that started it
        try:
            await trio.to_thread.run_sync(lifecycle.wait_for_provider, self.devnet, member)
            stored = await ask(member.ports.blobs, "PUT", "/blobs", BLOB, LOOPBACK)
            async with self._door(Door.BLOBS, measures.blobs_of(member, stored.body.decode())):
                yield
        finally:
            processes.stop(process)

    @asynccontextmanager
    async def _strict_node(self) -> AsyncIterator[None]:
        """Run a fifth node. The attacker finds it as the last member in the devnet's description."""
        wider, member, process = network.with_strict_node(self.devnet)
        processes.start(process)  # in this thread: a child dies with the thread that started it
        try:
            await trio.to_thread.run_sync(lambda: asyncio.run(lifecycle.ready(wider)))
            async with self._door(Door.SLOTS, measures.slots_of(member, genesis_hash(self.devnet))):
                yield
        finally:
            processes.stop(process)
            layout.save(self.devnet)

    @asynccontextmanager
    async def _door(self, door: Door, attempt: measures.Try) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(measures.keep_trying, door, attempt, self.records))
            yield
            nursery.cancel_scope.cancel()


async def _line(stream: trio.abc.ReceiveStream, rest: bytes) -> tuple[str, bytes]:
    """Return the next line of a process, and the bytes after it. Raise EOFError at the end."""
    while b"\n" not in rest:
        data = await stream.receive_some()
        if not data:
            raise EOFError
        rest += data
    line, _, rest = rest.partition(b"\n")
    return line.decode(), rest
