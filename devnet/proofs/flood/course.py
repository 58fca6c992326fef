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
from devnet.proofs.flood.attack import READY, Attack, AttackAccount, Door, ExtraProcess, victim_of
from devnet.proofs.flood.clients import LOOPBACK, http_request
from devnet.proofs.flood.judging import (
    AttackFigures,
    BarResult,
    MemoryUse,
    Records,
    Stretch,
    is_to_be_tried_again,
    missed_requirements,
)
from devnet.stage.report import Narrator

ATTACKER_PRIORITY = 10  # of an attacker
QUIET_SECONDS_MIN = 20.0
BEFORE_SECONDS = 5.0
PREPARE_SECONDS, END_SECONDS = 120.0, 20.0
MEMORY_SECONDS = 60.0
RPC_BACK_SECONDS = 15.0
WELL_INTERVALS, WELL_RATIO = 3, 1.5
STEP_SECONDS = 0.5
HONEST_BLOB = b"a blob of an honest customer"


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
    quiet_stretch: Stretch = field(default_factory=lambda: Stretch(0.0, 0.0))
    cancel_scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def live(self, ready: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        """Measure until cancelled. Call `ready` after the quiet stretch."""
        with self.cancel_scope:
            async with trio.open_nursery() as nursery:
                for door, try_once in measures.doors_of(self.devnet, genesis_hash(self.devnet)).items():
                    nursery.start_soon(measures.keep_trying, door, try_once, self.records)
                nursery.start_soon(measures.watch_finals, self.devnet, self.records)
                nursery.start_soon(measures.watch_processes, self.devnet, self.records)
                nursery.start_soon(measures.watch_disk, self.devnet.folder, self.records)
                await trio.sleep(BEFORE_SECONDS)
                self.quiet_stretch = await self._measure_stretch(max(self.seconds, QUIET_SECONDS_MIN))
                figures, figures_by_door = self._quiet_figures([self.quiet_stretch])
                door_texts = ", ".join(f"{door} p99 {latency.p99_ms} ms" for door, latency in figures_by_door.items())
                self.narrator.line(
                    f"quiet: final blocks every {figures.p50_ms} ms, p99 {figures.p99_ms} ms; {door_texts}"
                )
                ready(trio.lowlevel.current_trio_token())
                await trio.sleep_forever()

    async def judged(self, attack: Attack) -> BarResult:
        """Run an attack and judge it.

        Repeat it if it failed only in time and the disk stalled, which no node can prevent.
        """
        result = await self._try_attack(attack)
        result.misses = missed_requirements(result)
        while is_to_be_tried_again(result):
            earlier_result, result = result, await self._try_attack(attack)
            result.misses, result.earlier_misses = (
                missed_requirements(result),
                [*earlier_result.earlier_misses, earlier_result.misses],
            )
        return result

    async def _try_attack(self, attack: Attack) -> BarResult:
        """Prepare the attack's needs, attack, wait for the recovery, and compute the figures."""
        async with self._with_needs(attack):
            with network.beside_hogs() if self._is_hogged(attack) else nullcontext():
                baseline = await self._baseline(attack)
                sizes_before, pids_before = measures.log_sizes(self.devnet), self._running()
                stretch, account = await self._attacked(attack)
            sizes_after = measures.log_sizes(self.devnet)
            violations = [*account.violations, *await self._revived(pids_before), *await self._rpc_back()]
            recovered = await self._well_again(stretch)
            working = Stretch(stretch.start, time.monotonic())  # a node works off its queues after the attack
            memory_by_role = await self._memory(stretch)
            tracebacks = measures.tracebacks(sizes_before, measures.log_sizes(self.devnet))
            result = self._finding(attack, account, stretch, baseline, self._extra_cpu(working), memory_by_role)
        if recovered is None:
            violations.append(f"finality: not as regular as before within {MEMORY_SECONDS:.0f} s")
        if attack.aftermath is not None:
            violations += await attack.aftermath(self.devnet)
        result.recovered_seconds, result.violations = recovered, violations
        result.log_bytes_per_second, result.tracebacks = (
            measures.added_bytes(sizes_before, sizes_after) / stretch.seconds,
            tracebacks,
        )
        return result

    async def _baseline(self, attack: Attack) -> Baseline:
        """Return the quiet figures: those of the first stretch, and those before the attack if blocks came in time.

        Late blocks there are an effect of an earlier attack. For an attack beside hogs, measure only now, beside the
        same hogs (`network.beside_hogs`).
        """
        if self._is_hogged(attack):
            await trio.sleep(BEFORE_SECONDS)
            figures, figures_by_door = self._quiet_figures(
                [await self._measure_stretch(max(self.seconds, QUIET_SECONDS_MIN))]
            )
            return Baseline(figures, {door: figures_by_door[door] for door in self._judged_doors(attack)})
        first_stretch, current_stretch = self.quiet_stretch, await self._measure_stretch(BEFORE_SECONDS)
        usual_p99_ms = self._quiet_figures([first_stretch])[0].p99_ms
        late_p99_ms = self._quiet_figures([current_stretch])[0].p99_ms
        is_quiet = usual_p99_ms is not None and late_p99_ms is not None and late_p99_ms <= usual_p99_ms * WELL_RATIO
        figures, figures_by_door = self._quiet_figures(
            [first_stretch, current_stretch] if is_quiet else [first_stretch]
        )
        _, doors_now = self._quiet_figures([current_stretch])
        return Baseline(
            figures,
            {door: figures_by_door[door] if figures_by_door[door].count else doors_now[door] for door in attack.doors},
        )

    def _is_hogged(self, attack: Attack) -> bool:
        return attack.hogged or self.is_hogged

    def _judged_doors(self, attack: Attack) -> tuple[Door, ...]:
        """Return the judged interfaces. Beside hogs, proofs are always judged too."""
        return (
            (*attack.doors, Door.PROOFS)
            if self._is_hogged(attack) and Door.PROOFS not in attack.doors
            else attack.doors
        )

    async def _measure_stretch(self, seconds: float) -> Stretch:
        started = time.monotonic()
        await trio.sleep(seconds)
        return Stretch(started, time.monotonic())

    # --- the attack

    async def _attacked(self, attack: Attack) -> tuple[Stretch, AttackAccount]:
        """Run the attack in a process of its own.

        The stretch has the intended length, even if the attack ended early.
        """
        arguments = [sys.executable, "-m", "devnet.proofs.flood.attacker", str(self.devnet.folder), attack.name]
        log = self.devnet.folder / "attacker.log"
        with log.open("ab") as errors:
            attacker = await trio.lowlevel.open_process(
                [*arguments, str(self.seconds), str(0 if self._is_hogged(attack) else ATTACKER_PRIORITY)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=processes.source_path(),
            )
        try:
            return await self._lead_attack(attacker)
        except (trio.TooSlowError, EOFError, trio.BrokenResourceError):
            failure_time = time.monotonic()
            failure = f"the attack itself failed; {log} ends:\n{lifecycle.tail(log)}"
            return Stretch(failure_time - STEP_SECONDS, failure_time), AttackAccount(violations=[failure])
        finally:
            attacker.kill()

    async def _lead_attack(self, attacker: trio.Process) -> tuple[Stretch, AttackAccount]:
        assert attacker.stdin is not None  # both are pipes
        assert attacker.stdout is not None
        with trio.fail_after(PREPARE_SECONDS):
            line, later_bytes = await _read_line(attacker.stdout, b"")
        if line != READY:
            raise EOFError
        started = time.monotonic()
        await attacker.stdin.send_all(b"go\n")
        await trio.sleep(self.seconds)
        end_time = time.monotonic()
        with trio.fail_after(END_SECONDS):
            line, _ = await _read_line(attacker.stdout, later_bytes)
        return Stretch(started, end_time), AttackAccount.from_json(line)

    # --- afterwards

    def _running(self) -> dict[str, int | None]:
        return {
            member.name: processes.running(lifecycle.node_process(self.devnet, member))
            for member in self.devnet.members
        }

    async def _revived(self, pids_before: dict[str, int | None]) -> list[str]:
        """Return a problem for each node that has ended, and start it again."""
        dead_nodes = [name for name, pid in self._running().items() if pid is None and pids_before[name] is not None]
        problems = []
        for name in dead_nodes:
            attacker = network.node_of(self.devnet, self.devnet.member(name))
            problems.append(f"the node {name} ended; its log ends: {lifecycle.tail(attacker.log, 2)}")
            processes.start(attacker)  # in this thread: a child dies with the thread that started it
        if dead_nodes:
            await trio.to_thread.run_sync(lambda: asyncio.run(lifecycle.ready(self.devnet)))
        return problems

    async def _rpc_back(self) -> list[str]:
        """Kill an RPC process that no longer answers, so that the next attack meets a working one."""
        called_after = time.monotonic()
        if await self._answers_within(RPC_BACK_SECONDS, called_after):
            return []
        pid = measures.rpc_pid(self.devnet, victim_of(self.devnet).name)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        if not await self._answers_within(MEMORY_SECONDS, called_after):
            raise DevnetError(f"the RPC process of {victim_of(self.devnet).name} did not start again")
        return [f"JSON-RPC answered no client for another {RPC_BACK_SECONDS:.0f} s: its process was killed"]

    async def _answers_within(self, seconds: float, called_after: float) -> bool:
        """Return whether an honest call that began after `since` is answered within `seconds`."""
        end_time = time.monotonic() + seconds
        while time.monotonic() < end_time:
            await trio.sleep(STEP_SECONDS)
            if any(
                honest_call.is_answered and honest_call.began > called_after
                for honest_call in self.records.calls
                if honest_call.door == Door.RPC
            ):
                return True
        return False

    async def _well_again(self, stretch: Stretch) -> float | None:
        """Return the seconds until final blocks were regular again, or None after the limit."""
        usual_figures, _ = self._quiet_figures([self.quiet_stretch])
        limit_ms = (usual_figures.p50_ms or 1000) * WELL_RATIO
        while (now_seconds := time.monotonic()) < stretch.end + MEMORY_SECONDS:
            recent_stretch = Stretch(max(stretch.end, now_seconds - WELL_INTERVALS * limit_ms / 1000), now_seconds)
            recent_intervals = self.records.intervals(recent_stretch, now_seconds, is_whole=True)
            watched_nodes = len(self.records.finals)
            if len(recent_intervals) >= watched_nodes * (WELL_INTERVALS - 1) and max(recent_intervals) <= limit_ms:
                return round(now_seconds - stretch.end, 1)
            await trio.sleep(STEP_SECONDS)
        return None

    async def _memory(self, stretch: Stretch) -> dict[str, MemoryUse]:
        """Return each role's memory after all roles freed it, or after the limit."""
        resident_before, resident_peaks = self.records.resident_at(stretch.start), self.records.resident_peak(stretch)
        while True:
            now_seconds = time.monotonic()
            resident_after = self.records.resident_at(now_seconds)
            memory_by_role = {
                role: MemoryUse(resident_bytes, resident_peaks.get(role, resident_bytes), resident_after.get(role, 0))
                for role, resident_bytes in resident_before.items()
            }
            if now_seconds > stretch.end + MEMORY_SECONDS or all(
                role_memory.after <= role_memory.limit for role_memory in memory_by_role.values()
            ):
                return memory_by_role
            await trio.sleep(STEP_SECONDS)

    # --- figures

    def _quiet_figures(self, quiet_stretches: Sequence[Stretch]) -> tuple[AttackFigures, dict[str, AttackFigures]]:
        now_seconds = time.monotonic()
        door_names = dict.fromkeys(honest_call.door for honest_call in self.records.calls)
        return self.records.interval_figures(quiet_stretches, now_seconds, is_whole=True), {
            door: self.records.door_figures(door, quiet_stretches, now_seconds) for door in door_names
        }

    def _finding(
        self,
        attack: Attack,
        account: AttackAccount,
        stretch: Stretch,
        baseline: Baseline,
        cpu_by_role: dict[str, float],
        memory_by_role: dict[str, MemoryUse],
    ) -> BarResult:
        now_seconds = time.monotonic()
        return BarResult(
            attack=attack.name,
            finding=attack.finding,
            rule=attack.rule,
            seconds=self.seconds,
            quiet_intervals=baseline.intervals,
            intervals=self.records.interval_figures([stretch], now_seconds, is_whole=False),
            quiet_doors=baseline.doors,
            doors={
                door: self.records.door_figures(door, [stretch], now_seconds) for door in self._judged_doors(attack)
            },
            cpu_per_second={role: round(seconds / stretch.seconds, 3) for role, seconds in cpu_by_role.items()},
            others_cpu_per_second=self._others_cpu(stretch, account),
            slowest_write_ms=self.records.slowest_write_ms(stretch),
            memory=memory_by_role,
            account=account,
            recovered_seconds=None,
            log_bytes_per_second=0.0,
            tracebacks=0,
            violations=[],
            hogged=self._is_hogged(attack),
        )

    def _others_cpu(self, stretch: Stretch, account: AttackAccount) -> float:
        """Return the CPU seconds per second of other programs. The attacker's CPU time includes its preparation."""
        others_seconds = self.records.others_seconds(stretch) - account.cpu_seconds
        return round(max(0.0, others_seconds) / stretch.seconds, 2)

    def _extra_cpu(self, stretch: Stretch) -> dict[str, float]:
        """Return the CPU seconds beyond the quiet share, by role, over all nodes."""
        first_stretch = self.quiet_stretch
        # A quiet node uses CPU too. Only the rest is the attack's.
        quiet_shares = {
            role: used_seconds / first_stretch.seconds
            for role, used_seconds in self.records.cpu_seconds(first_stretch).items()
        }
        extra_by_role: dict[str, float] = {}
        for role, used_seconds in self.records.cpu_seconds(stretch).items():
            role_kind = role.rpartition("/")[2]
            extra_by_role[role_kind] = (
                extra_by_role.get(role_kind, 0.0) + used_seconds - quiet_shares.get(role, 0.0) * stretch.seconds
            )
        return extra_by_role

    # --- the needs of some attacks

    @asynccontextmanager
    async def _with_needs(self, attack: Attack) -> AsyncIterator[None]:
        """Run the processes that this attack needs, with an honest client of each."""
        match attack.needs:
            case ExtraProcess.NOTHING:
                yield
            case ExtraProcess.PROVIDER:
                async with self._provider():
                    yield
            case ExtraProcess.STRICT_NODE:
                async with self._strict_node():
                    yield

    @asynccontextmanager
    async def _provider(self) -> AsyncIterator[None]:
        member = victim_of(self.devnet)
        attacker = lifecycle.provider_process(self.devnet, member)
        processes.start(attacker)  # in this thread: a child dies with the thread that started it
        try:
            await trio.to_thread.run_sync(lifecycle.wait_for_provider, self.devnet, member)
            stored_blob = await http_request(member.ports.blobs, "PUT", "/blobs", HONEST_BLOB, LOOPBACK)
            async with self._client_of_door(Door.BLOBS, measures.blobs_of(member, stored_blob.body.decode())):
                yield
        finally:
            processes.stop(attacker)

    @asynccontextmanager
    async def _strict_node(self) -> AsyncIterator[None]:
        """Run a fifth node. The attacker finds it as the last member in the devnet's description."""
        wider_devnet, member, attacker = network.with_strict_node(self.devnet)
        processes.start(attacker)  # in this thread: a child dies with the thread that started it
        try:
            await trio.to_thread.run_sync(lambda: asyncio.run(lifecycle.ready(wider_devnet)))
            async with self._client_of_door(Door.SLOTS, measures.slots_of(member, genesis_hash(self.devnet))):
                yield
        finally:
            processes.stop(attacker)
            layout.save(self.devnet)

    @asynccontextmanager
    async def _client_of_door(self, door: Door, try_once: measures.TryInterface) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(measures.keep_trying, door, try_once, self.records))
            yield
            nursery.cancel_scope.cancel()


async def _read_line(stream: trio.abc.ReceiveStream, later_bytes: bytes) -> tuple[str, bytes]:
    """Return the next line of a process, and the bytes after it. Raise EOFError at the end."""
    while b"\n" not in later_bytes:
        part = await stream.receive_some()
        if not part:
            raise EOFError
        later_bytes += part
    line, _, later_bytes = later_bytes.partition(b"\n")
    return line.decode(), later_bytes
