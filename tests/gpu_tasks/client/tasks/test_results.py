"""Results, checkpoints and outputs: the providers that are asked, refused data, and the wrong segment."""

import asyncio
import hashlib
import io
import lzma
import random
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from error_codes import raises_code
from gpu_tasks.client.commands import task_dispute
from gpu_tasks.client.commands.task_runs import program_facts
from gpu_tasks.client.tasks.results import (
    NAMES_SHOWN,
    NOTHING,
    FetchedRun,
    RunBlobError,
    fetch_lines,
    fetch_outputs,
    fetch_result,
    last_stated,
    names_in,
    places_with_lines,
    stated_digests,
)
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.program_left import LogLine, encode_left
from gpu_tasks.data.run_states import encode_run_state
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone, Slot, Task, TaskResult, TaskState
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.stepwise import states, stepwise
from gpu_tasks.workloads.train_int8.form import TrainingForm
from planted_tasks import BOB, BOB_KEY, MILESTONES, STATES, order, run_blob, run_root
from priced_tasks import a_task
from provider_chain import keypair
from runtime.cryptography import ss58
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import Keys
from training_requests import text_of
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

# Results and checkpoints: which one is asked for, of whom, and what another one is worth.


MAKER, OTHER = b"1" * 32, b"2" * 32
PROVIDERS = {stash: Provider(bytes(32), f"http://127.0.0.1:{stash[0]}".encode(), 0) for stash in (MAKER, OTHER)}
WHOLE = run_blob(MILESTONES)
COUNTED = HeldCheckpoint(Milestone(1, run_root(1), 7, address_of(run_blob(1))), BOB)


def with_results(*blobs: bytes) -> Task:
    """A task whose slots have stated the one root, in blobs of their own."""
    stated = (TaskResult(run_root(MILESTONES), address_of(blob), 7) for blob in blobs)
    slots = tuple(Slot(MAKER, bytes((place,)) * 32, 5, 50, 100, result=each) for place, each in enumerate(stated))
    return replace(a_task(state=TaskState.CLAIMED, slots=slots), order=order())


def fetched(task: Task) -> FetchedRun:
    async def main() -> FetchedRun:
        async with BlobClient(private=True) as pool:
            return await fetch_result(pool, BOB_KEY, task, PROVIDERS)

    return asyncio.run(main())


def test_while_a_task_runs_its_checkpoint_is_no_result() -> None:
    task = replace(a_task(state=TaskState.RUNNING, checkpoint=COUNTED), order=order())
    assert last_stated(task) is None
    with raises_code(RunBlobError, "no_result"):
        fetched(task)
    assert last_stated(replace(task, state=TaskState.ENDED)) == COUNTED.milestone


def test_of_a_gang_any_blob_that_is_what_was_stated_will_do(blobs: dict[bytes, bytes]) -> None:
    wrong = run_blob(1)
    blobs[address_of(wrong)] = wrong
    task = with_results(b"nobody has it", wrong, WHOLE)
    with pytest.raises(RunBlobError, match=r"no store serves .*; the result differs.*; .*the result"):
        fetched(task)
    blobs[address_of(WHOLE)] = WHOLE
    assert fetched(task).run.state == STATES[-1]


def test_who_made_it_is_asked_first_and_then_who_keeps_such_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()

    async def get(self: BlobClient, address: bytes, endpoints: list[str], **_: Any) -> bytes:
        asked.append(endpoints)
        raise BlobError("no store has it")

    monkeypatch.setattr(BlobClient, "get", get)
    with pytest.raises(RunBlobError):
        fetched(with_results(WHOLE))
    assert asked == [["http://127.0.0.1:49", "http://127.0.0.1:50"]]


# What a program left is what was stated, or refused; what a provider has sealed may be anything, at no great cost.


KEY = keypair_from_suri("//Ferdie")
LINES = (LogLine(5, is_error=False, text="one"), LogLine(6, is_error=True, text="two"))
FILES = b"an archive"


class KeptBlobs:
    """Stands in for a `BlobClient`: has what it was given."""

    def __init__(self, *blobs: bytes) -> None:
        self._blobs = {address_of(blob): blob for blob in blobs}

    async def get(self, address: bytes, _endpoints: Any) -> bytes:
        return self._blobs[address]


def sealed(content: bytes, key: Keypair = KEY) -> bytes:
    return seal(content, [SealKey.of(key).public])


def left_by(blob: bytes, outputs: bytes = FILES) -> tuple[Task, BlobClient]:
    """A job whose provider stated these outputs, and that they are in this blob."""
    result = TaskResult(hashlib.blake2b(outputs, digest_size=32).digest(), address_of(blob), 0)
    slot = replace(Slot(b"p" * 32, b"d" * 32, 1, 1, 1), result=result)
    task = a_task(checked_by=CheckedBy.METERED, state=TaskState.ENDED, slots=(slot,))
    return task, cast(BlobClient, KeptBlobs(blob))


def test_outputs_and_lines_come_in_one_blob() -> None:
    task, blobs = left_by(sealed(encode_left(FILES, LINES, 7)))
    assert asyncio.run(fetch_outputs(blobs, KEY, task, {})) == FILES
    left = asyncio.run(fetch_lines(blobs, KEY, task, {}, 0))
    assert (left.lines, left.left_out) == (LINES, 5)


def test_of_one_replica_its_own_provider_is_named() -> None:
    sink = io.BytesIO()
    tarfile.open(fileobj=sink, mode="w").close()
    task, _ = left_by(b"", sink.getvalue())
    other = replace(task.slots[0], provider=b"q" * 32)
    slots = tuple(replace(slot, outcome=TaskOutcome.ON_TIME) for slot in (task.slots[0], other))
    task = replace(task, slots=slots, order=replace(task.order, checked_by=CheckedBy.REPLICATED))
    named = [program_facts(bytes(32), task, place, sink.getvalue(), None)["providers"] for place in (None, 1)]
    assert named == [f"{ss58.encode(b'p' * 32)}, {ss58.encode(b'q' * 32)}", ss58.encode(b"q" * 32)]


def test_other_outputs_than_were_stated_are_refused() -> None:
    task, blobs = left_by(sealed(encode_left(b"others", LINES, 2)))
    with raises_code(RunBlobError, "wrong_blob"):
        asyncio.run(fetch_outputs(blobs, KEY, task, {}))


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, encode_left(FILES, LINES, 2)[:-1]])
def test_what_cannot_be_read_is_refused(content: bytes) -> None:
    task, blobs = left_by(sealed(content))
    for fetched in (fetch_outputs(blobs, KEY, task, {}), fetch_lines(blobs, KEY, task, {}, 0)):
        with raises_code(RunBlobError, "unreadable_blob"):
            asyncio.run(fetched)


def test_what_is_sealed_to_another_is_not_opened() -> None:
    task, blobs = left_by(sealed(encode_left(FILES, LINES, 2), keypair_from_suri("//Bob")))
    with raises_code(RunBlobError, "sealed_blob"):
        asyncio.run(fetch_lines(blobs, KEY, task, {}, 0))


def test_where_outputs_could_not_be_taken_there_are_lines() -> None:
    blob = sealed(encode_left(b"", LINES, 2))
    task, blobs = left_by(blob)
    slot = replace(task.slots[0], result=TaskResult(NOTHING, address_of(blob), 3))
    task = replace(task, slots=(slot,))
    with pytest.raises(RunBlobError, match=r"exit code 3\. `ogpu logs`"):
        asyncio.run(fetch_outputs(blobs, KEY, task, {}))
    assert asyncio.run(fetch_lines(blobs, KEY, task, {}, 0)).lines == LINES


def test_lines_are_where_a_blob_was_stated() -> None:
    task, _ = left_by(b"blob")
    (has,) = task.slots
    none, nothing = replace(has, result=None), replace(has, result=TaskResult(NOTHING, NOTHING, 1))
    three = replace(task, slots=(none, has, nothing))
    assert places_with_lines(three) == [1]
    assert [places_with_lines(three, place) for place in range(4)] == [[], [1], [], []]


def archive_of(count: int) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for number in range(count):
            archive.addfile(tarfile.TarInfo(f"file {number}"))
    return sink.getvalue()


def test_the_first_files_of_an_archive_are_named() -> None:
    assert names_in(archive_of(2)) == ["file 0", "file 1"]
    assert len(names_in(archive_of(NAMES_SHOWN + 1))) == NAMES_SHOWN


def test_a_packed_archive_is_not_unpacked() -> None:
    """A header of a gigabyte, in 150 kB, took that much memory of whoever looked at it."""
    with raises_code(RunBlobError, "invalid_archive"):
        names_in(lzma.compress(archive_of(1)))


def test_long_names_and_folders_are_read() -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in ("a/" + "long" * 50, "a/wörter"):
            entry = tarfile.TarInfo(name)
            entry.size = 700
            archive.addfile(entry, io.BytesIO(bytes(700)))
    assert names_in(sink.getvalue()) == ["a/" + "long" * 50, "a/wörter"]


def record(size: int, content: bytes) -> bytes:
    """A pax header of so many bytes."""
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, size
    return header.tobuf(tarfile.USTAR_FORMAT) + content


def test_neither_a_long_header_nor_a_chain_of_them_is_much_work() -> None:
    """A megabyte of digits took a quarter of an hour, and a chain of headers the stack."""
    with pytest.raises(RunBlobError, match="too long"):
        names_in(record(1 << 20, b"1" * (1 << 20)))
    assert names_in(record(512, b"11 path=abc\n".ljust(512, b"\0")) * 900) == []


def test_damaged_archives_are_named_or_refused() -> None:
    chance, whole = random.Random(1), archive_of(3)
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            damaged[chance.randrange(1_536)] = chance.randrange(256)
        try:
            names = names_in(bytes(damaged[: chance.choice((len(damaged), chance.randrange(2_000)))]))
        except RunBlobError:
            continue
        assert len(names) <= NAMES_SHOWN


# A customer computes a run again: which segment of what is stated is wrong.


KEY_OF_RECOMPUTING = keypair(Keys("customer"))
FORM = TrainingForm()
REQUEST = FORM.encode(
    text_of(1, 1_500).decode("latin-1").encode("ascii", "ignore").decode(),
    8,
    {"context": "3", "width": "4", "hidden": "6", "batch": "8", "segment": "1"},
    bytes(32),
)
RUN = tuple(states(stepwise(FORM.open("numpy")).begin(REQUEST)))
RIGHT = tuple(state_hash(state) for state in RUN)


def lying_from(index: int) -> tuple[bytes, ...]:
    """Hashes that are wrong from s(index) on."""
    return (*RIGHT[:index], *(blake2_256(digest) for digest in RIGHT[index:]))


class Blobs:
    """Has what is stored."""

    def __init__(self, *blobs: bytes) -> None:
        self.stored = {address_of(blob): blob for blob in blobs}

    async def get(self, address: bytes, _stores: Sequence[str]) -> bytes:
        if address not in self.stored:
            raise BlobError("nobody has it")
        return self.stored[address]


def stated(digests: Sequence[bytes], **changed: Any) -> tuple[Task, Blobs]:
    """A task whose provider states this trace; its last state is whatever hashes to the last of them."""
    own = SealKey.of(KEY_OF_RECOMPUTING).public
    content = encode_input(b"s" * 32, own, REQUEST)
    asked, last = seal(content, [own]), b"another" if tuple(digests) != RIGHT else RUN[-1]
    digests = (*digests[:-1], state_hash(last))
    result = seal(encode_run_state(tuple(digests), last), [own])
    slot = replace(
        Slot(b"p" * 32, b"d" * 32, 5, 50, 100), result=TaskResult(trace_root(digests), address_of(result), 1)
    )
    task = a_task(state=TaskState.CLAIMED, slots=(slot,))
    order: Any = {
        "workload": FORM.workload_id, "input_root": commitment_of(content), "input_blob": address_of(asked),
        "segments": len(RIGHT) - 1, "milestones": 4,
    }  # fmt: skip
    return replace(task, order=replace(task.order, **order), **changed), Blobs(asked, result)


def first_wrong(task: Task, blobs: Blobs, backend: str = "numpy", told: list[int] | None = None) -> Any:
    seen: list[int] = [] if told is None else told

    async def look() -> int | None:
        right = await task_dispute.right_digests(
            cast(BlobClient, blobs), KEY_OF_RECOMPUTING, task, {}, backend, seen.append
        )
        return task_dispute.first_wrong_item(
            task, right, await stated_digests(cast(BlobClient, blobs), KEY_OF_RECOMPUTING, task, {})
        )

    return asyncio.run(look())


def test_of_a_right_trace_nothing_is_wrong_and_how_far_it_is_is_told() -> None:
    told: list[int] = []
    assert first_wrong(*stated(RIGHT), told=told) is None
    assert told == list(range(9))


@pytest.mark.parametrize(("index", "segment"), [(0, 0), (1, 0), (2, 1), (5, 4), (8, 7)])
def test_the_segment_before_the_first_wrong_state_is_named(index: int, segment: int) -> None:
    assert first_wrong(*stated(lying_from(index))) == segment


def test_what_goes_wrong_before_the_last_leg_is_nobodys_segment_there() -> None:
    assert first_wrong(*stated(lying_from(5), behind=2)) == 0, "the first item of that leg"
    with raises_code(RunBlobError, "differs_earlier"):
        first_wrong(*stated(lying_from(3), behind=2))


def test_what_is_not_to_be_had_or_computed_is_said() -> None:
    task, blobs = stated(RIGHT)
    with raises_code(RunBlobError, "backend_unusable"):
        first_wrong(task, blobs, "abacus")
    with raises_code(RunBlobError, "workload_unknown"):
        first_wrong(replace(task, order=replace(task.order, workload=b"x" * 32)), blobs)
    at_once = model_forms.form_named("decoder-int8:ogpu-bytes").workload_id
    with raises_code(RunBlobError, "workload_unknown"):
        first_wrong(replace(task, order=replace(task.order, workload=at_once)), blobs)
    with pytest.raises(RunBlobError, match="the input asks for 8 segments, and the task for 9"):
        first_wrong(replace(task, order=replace(task.order, segments=9)), blobs)
    with raises_code(RunBlobError, "wrong_blob"):
        first_wrong(replace(task, order=replace(task.order, input_root=b"x" * 32)), blobs)
    with pytest.raises(RunBlobError, match="no store serves the input"):
        first_wrong(replace(task, order=replace(task.order, input_blob=b"x" * 32)), blobs)
    with pytest.raises(RunBlobError, match="no store serves the result"):
        first_wrong(task, Blobs(blobs.stored[task.order.input_blob]))
    with raises_code(RunBlobError, "no_result"):
        first_wrong(replace(task, slots=(replace(task.slots[0], result=None),)), blobs)
