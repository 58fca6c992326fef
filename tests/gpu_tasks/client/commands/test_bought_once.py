"""`ogpu run` and `ogpu task submit`: the same command buys nothing twice, and an interrupted one offers to end it."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.session import CallFailedError
from converted import IMAGE
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.commands import post, run, submit, task_runs, task_submission, tasks
from gpu_tasks.client.commands.task_submission import TaskSubmission
from gpu_tasks.client.offers.outlook import spendable
from gpu_tasks.client.tasks.estimates import Willingness
from gpu_tasks.client.tasks.orders import load_any
from gpu_tasks.client.units.posting import Wish
from gpu_tasks.client.units.posting_once import PostingRecord
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import plan_of
from planted_tasks import BOB
from priced_tasks import a_task
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet.outbox import OutboxFile
from wallet.rpc import NodeUnreachableError
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere", "nothing_final")

MINIMAL = str(Path(__file__).parents[4] / "examples" / "minimal.yaml")
SUBMIT = ["task", "submit", MINIMAL, *OF_BOB, "--yes"]
RUN = ["run", *OF_BOB, "--image", IMAGE, "--max-price", "2 oGPU", "--anyway", "--yes"]
PROGRAM = ["--", "true"]
KILLED = """
import asyncio, os, signal, sys
from gpu_tasks.client.units import posting_once
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import tasks
from gpu_tasks.client.commands import submit
from gpu_tasks.data.blob_client import BlobClient
from wallet.client import ChainClient

async def put(self, blob, endpoints, copies):
    return endpoints

async def killed(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

async def killed_behind(client, extrinsic, send=ChainClient.send):
    await send(client, extrinsic)
    await killed()

async def interrupted(*given, **named):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(600)

BlobClient.put = put
moment = sys.argv.pop(1)
if moment == "before it is sent":
    posting_once.PostingRun._sent = killed
elif moment == "before it is known to be final":
    posting_once.ChainClient.send = killed_behind
elif moment == "by a signal":
    submit.follow_task = interrupted
else:
    submit.follow_task = killed
main()
"""


async def _bought(url: str) -> list[Task]:
    async with await ChainClient.connect(url) as client:
        final = await client.finalized()
        number = await client.read(TrainingMarket.submission_counts, BOB, at=final)
        ids = [task_id_of(client.genesis_hash, BOB, each) for each in range(number)]
        return [task for task in await client.read_many(TrainingMarket.tasks, ids, at=final) if task is not None]


def bought(url: str) -> list[Task]:
    """Bob's tasks, in the order in which they were submitted."""
    return asyncio.run(_bought(url))


class Follower:
    """A substitute for following: the outcomes of the next calls, and a record of the followed tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *does: BaseException | TaskOutcome) -> None:
        self.does, self.followed = list(does), list[str]()

        async def follow(*given: Any, **_: Any) -> Task:
            self.followed.append("0x" + given[3].hex())
            what = self.does.pop(0)
            if isinstance(what, BaseException):
                raise what
            return a_task(state=TaskState.ENDED, outcome=what)

        async def fetch(*_: Any) -> bool:
            return True

        for module in (run, submit):
            monkeypatch.setattr(module, "follow_task", follow)
        monkeypatch.setattr(run, "_fetch_ended", fetch)


def with_option(buying: list[str], option: str) -> list[str]:
    """The same command with an option behind its own words."""
    words = 1 if buying[0] == "run" else 2
    return [*buying[:words], option, *buying[words:]]


@pytest.mark.parametrize("buying", [SUBMIT, [*RUN, "--detach", *PROGRAM]])
def test_what_was_submitted_is_bought_once_more_only_by_again(tmp_path: Path, buying: list[str]) -> None:
    again = with_option(buying, "--again")
    with chain(tmp_path) as url:
        task = answer(ogpu(tmp_path, url, *buying))["task"]
        for more in (buying, with_option(buying, "--dry-run")):
            said = refusal(ogpu(tmp_path, url, *more))
            assert task in said
            assert "--again" in said
        assert len(bought(url)) == 1
        assert answer(ogpu(tmp_path, url, *again))["task"] != task
        assert len(bought(url)) == 2
        assert task not in refusal(ogpu(tmp_path, url, *buying)), "the newest is the one that it goes on with"


@pytest.mark.parametrize("buying", [[*SUBMIT, "--watch"], [*RUN, *PROGRAM]])
@pytest.mark.parametrize("end", [TaskOutcome.ON_TIME, CallFailedError("it ended without a result")])
def test_what_was_interrupted_goes_on_with_the_same_task_until_its_end_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buying: list[str], end: BaseException | TaskOutcome
) -> None:
    follower = Follower(monkeypatch, KeyboardInterrupt(), end)
    with chain(tmp_path) as url:
        broken = ogpu(tmp_path, url, *buying)
        assert broken.exit_code == 1
        (task,) = follower.followed
        for word in (task, "ogpu task watch", "ogpu logs -f", "ogpu task stop"):
            assert word in broken.stderr
        ogpu(tmp_path, url, *buying)
        assert follower.followed == [task, task]
        assert task in refusal(ogpu(tmp_path, url, *buying))
        assert (len(bought(url)), bought(url)[0].outcome) == (1, None), "without a terminal it stays as it is"


@pytest.mark.parametrize("buying", [[*SUBMIT, "--watch"], [*RUN, *PROGRAM]])
@pytest.mark.parametrize("said", ["y\n", "n\n", ""])
def test_at_a_terminal_an_interrupt_asks_whether_to_end_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buying: list[str], said: str
) -> None:
    Follower(monkeypatch, KeyboardInterrupt())
    with chain(tmp_path) as url:
        broken = ogpu(tmp_path, url, *buying, typed=said, as_json=False)
        assert broken.exit_code == 1
        assert "comes back" in " ".join(broken.stdout.split()), broken.stdout
        (task,) = bought(url)
        is_ended = said == "y\n"
        assert task.outcome is (TaskOutcome.CANCELLED_BEFORE_AWARD if is_ended else None)


def test_an_end_is_not_noted_of_a_task_that_another_process_bought_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(*_: Any, **__: Any) -> Task:
        with OutboxFile(tmp_path / "postings") as outbox:
            outbox.execute("UPDATE posted_units SET unit = ?", b"u" * 32)
            outbox.execute("UPDATE parts SET told = '', extrinsic = ?", b"x")
        return a_task(state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)

    monkeypatch.setattr(submit, "follow_task", follow)
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, *SUBMIT, "--watch")
    assert done.exit_code == 0, done.output
    with OutboxFile(tmp_path / "postings") as outbox:
        assert outbox.rows("SELECT unit, told, extrinsic FROM parts JOIN posted_units") == [(b"u" * 32, "", b"x")]


def test_an_end_is_left_to_another_process_that_holds_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[PostingRecord] = []

    async def follow(*_: Any, **__: Any) -> Task:
        with OutboxFile(tmp_path / "postings") as outbox:
            ((name,),) = outbox.rows("SELECT posting FROM parts")
        held.append(PostingRecord.held(tmp_path / "postings", name, ""))
        return a_task(state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)

    monkeypatch.setattr(submit, "follow_task", follow)
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, *SUBMIT, "--watch")
    held[0].close()
    assert done.exit_code == 0, done.output


def test_an_array_that_is_interrupted_names_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Follower(monkeypatch, KeyboardInterrupt(), KeyboardInterrupt())
    path = tmp_path / "job.yaml"
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *RUN, "--save", str(path), "--dry-run", *PROGRAM))
        words = ["task", "submit", str(path), *OF_BOB, "--anyway", "--yes", "--array", "0-1", "--watch"]
        broken = ogpu(tmp_path, url, *words)
        assert broken.exit_code == 1
        assert re.findall("0x[0-9a-f]{64}", broken.stderr.splitlines()[-1]), "for `ogpu task cancel`"


def test_what_one_submits_another_that_watches_goes_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(monkeypatch, TaskOutcome.ON_TIME)
    with chain(tmp_path) as url:
        task = answer(ogpu(tmp_path, url, *SUBMIT))["task"]
        with OutboxFile(tmp_path / "postings") as outbox:
            assert outbox.rows("SELECT extrinsic FROM parts") == [(b"",)], "it is looked for no more"
        assert ogpu(tmp_path, url, *SUBMIT, "--watch").exit_code == 0
        assert follower.followed == [task]
        for more in ([], ["--watch"]):
            assert task in refusal(ogpu(tmp_path, url, *SUBMIT, *more))


def test_what_was_interrupted_is_named_by_who_does_not_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(monkeypatch, KeyboardInterrupt())
    with chain(tmp_path) as url:
        ogpu(tmp_path, url, *SUBMIT, "--watch")
        found = answer(ogpu(tmp_path, url, *SUBMIT))
        assert ([found["task"]], found["sent"], len(bought(url))) == (follower.followed, False, 1)


@pytest.mark.parametrize("buying", [[*SUBMIT, "--watch"], [*RUN, *PROGRAM]])
def test_a_connection_that_breaks_is_no_end_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buying: list[str]
) -> None:
    follower = Follower(monkeypatch, NodeUnreachableError("it is gone"), TaskOutcome.TIME_OVER)
    with chain(tmp_path) as url:
        for _ in range(2):
            ogpu(tmp_path, url, *buying)
        assert len(follower.followed) == 2
        assert len({*follower.followed}) == len(bought(url)) == 1


def test_what_is_begun_goes_on_unasked_even_if_nobody_could_serve_it_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(monkeypatch, KeyboardInterrupt(), TaskOutcome.ON_TIME)
    with chain(tmp_path) as url:
        ogpu(tmp_path, url, *SUBMIT, "--watch")
        monkeypatch.setattr(tasks, "plan_of", lambda *given: replace(plan_of(*given), is_served=False))
        monkeypatch.setattr(Willingness, "why_too_few", lambda *_: "too few run it")
        asking = [word for word in SUBMIT if word != "--yes"]
        done = ogpu(tmp_path, url, *asking, "--watch", typed="n\n")
        assert done.exit_code == 0, done.output
        assert (len(follower.followed), len({*follower.followed}), len(bought(url))) == (2, 1, 1)


@pytest.mark.parametrize("buying", [SUBMIT, ["unit", "post", MINIMAL, "--racers", "3", "--anyway", *OF_BOB, "--yes"]])
def test_what_is_shown_is_what_is_taken(tmp_path: Path, buying: list[str]) -> None:
    """With a tip: the account pays the locked and prepaid money and the fees that a dry run shows."""
    grains: dict[str, list[int]] = {}
    with chain(tmp_path) as url:
        for tip in ("0", "0.5"):
            for name, amount in answer(ogpu(tmp_path, url, *buying, "--tip", tip, "--dry-run")).items():
                if isinstance(amount, dict) and "grains" in amount:
                    grains.setdefault(name, []).append(int(amount["grains"]))
        answer(ogpu(tmp_path, url, *buying, "--tip", "0.5"))
        left = answer(ogpu(tmp_path, url, *buying, "--again", "--dry-run"))["spendable"]
    plain, tipped = grains["fees"]
    assert 50_000_000 <= tipped - plain < 50_001_000
    assert grains["most"][1] - grains["most"][0] == tipped - plain
    shown, taken = grains["locked"][1] + grains["prepaid"][1] + tipped, grains["spendable"][1] - int(left["grains"])
    assert 0 <= shown - taken < 100_000 < grains["prepaid"][1], "a fee goes by the bytes of a call"


def test_each_chain_and_account_buys_its_own() -> None:
    loaded = load_any(Path(MINIMAL))
    names = set()
    for genesis, account in ((bytes(32), BOB), (b"g" * 32, BOB), (bytes(32), b"c" * 32)):
        client, payer = cast(Any, SimpleNamespace(genesis_hash=genesis)), cast(Any, SimpleNamespace(account=account))
        submission = TaskSubmission(cast(Any, None), "//Bob", loaded, Path(), 0, is_again=False)
        names.add(submission._identity(client, payer))
        for buyer in (Buyer.alone(account), Buyer(account, b"d" * 32, b"e" * 32), Buyer(b"f" * 32, account, b"e" * 32)):
            names.add(post._post_identity(client, buyer, Wish(0, 1, {}, 1, 1), []))
    assert len(names) == 3 + 9, "each delegate of a budget buys apart"


def test_another_key_buys_its_own(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        task = answer(ogpu(tmp_path, url, *SUBMIT))["task"]
        others = [word if word != OF_BOB[1] else "//Charlie" for word in SUBMIT]
        assert answer(ogpu(tmp_path, url, *others))["task"] != task
        assert len(bought(url)) == 1


def test_what_may_be_submitted_is_not_offered_to_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ChainClient.send

    async def interrupted(self: ChainClient, extrinsic: bytes, **given: Any) -> Any:
        await honest(self, extrinsic, **given)
        raise KeyboardInterrupt

    with chain(tmp_path) as url:
        with monkeypatch.context() as patch:
            patch.setattr(ChainClient, "send", interrupted)
            broken = ogpu(tmp_path, url, *SUBMIT, typed="y\n", as_json=False)
        found = answer(ogpu(tmp_path, url, *SUBMIT))
        assert (found["sent"], "locked" in found) == (True, True), "no command has said so before"
        (task,) = bought(url)
        assert (broken.exit_code, task.outcome) == (1, None)
        assert "comes back" not in " ".join(broken.stdout.split())


@pytest.mark.parametrize(
    ("state", "customer", "code", "says"),
    [
        (TaskState.RUNNING, BOB, 1, "comes back"),
        (TaskState.ENDED, BOB, 1, "why"),
        (TaskState.RUNNING, bytes(32), 2, ""),
    ],
)
def test_an_interrupt_offers_to_stop_a_task_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: TaskState, customer: bytes, code: int, says: str
) -> None:
    Follower(monkeypatch, KeyboardInterrupt())
    slot = Slot(bytes(32), bytes(32), 1, promised=15, collateral=1, started_at=1)

    async def known(*_: Any) -> Task:
        outcome = TaskOutcome.ON_TIME if state is TaskState.ENDED else None
        return a_task(state=state, customer=customer, outcome=outcome, slots=(slot,))

    monkeypatch.setattr(task_submission, "known_task", known)
    with chain(tmp_path) as url:
        broken = ogpu(tmp_path, url, *SUBMIT, "--watch", typed="n\n", as_json=False)
        assert broken.exit_code == code, broken.output
        shown = " ".join(broken.stdout.split())
        assert says in shown
        assert ("comes back" in shown) is (says == "comes back")


def test_outputs_that_could_not_be_fetched_are_fetched_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(monkeypatch, TaskOutcome.TIME_OVER, TaskOutcome.TIME_OVER)
    whole = [False, True]

    async def fetch(*_: Any) -> bool:
        return whole.pop(0)

    monkeypatch.setattr(run, "_fetch_ended", fetch)
    with chain(tmp_path) as url:
        ogpu(tmp_path, url, *RUN, *PROGRAM)
        ogpu(tmp_path, url, *RUN, *PROGRAM)
        (task,) = set(follower.followed)
        assert (len(follower.followed), whole) == (2, [])
        assert task in refusal(ogpu(tmp_path, url, *RUN, *PROGRAM))


@pytest.mark.parametrize("again", [(), ("--again",)])
def test_a_job_is_requeued_as_often_as_was_agreed_to_over_all_interruptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: tuple[str, ...]
) -> None:
    over = TaskOutcome.TIME_OVER
    follower = Follower(monkeypatch, over, KeyboardInterrupt(), over, over)
    monkeypatch.setattr(task_runs, "was_cut_off", lambda task: task.outcome is over)
    path = tmp_path / "job.yaml"
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *RUN, "--save", str(path), "--dry-run", *PROGRAM))
        requeued = ["task", "submit", str(path), *OF_BOB, "--anyway", "--watch", "--requeue", "2"]
        dry = answer(ogpu(tmp_path, url, *requeued, "--dry-run"))
        assert (dry["times_at_most"], int(dry["most_of_all"]["grains"])) == (3, 3 * int(dry["most"]["grains"]))
        job = ["task", "submit", str(path), *OF_BOB, "--anyway", "--yes", "--watch", "--requeue", "2"]
        asked = ogpu(tmp_path, url, *requeued, typed="n\n", as_json=False).stderr
        assert dry["locked"]["ogpu"] in asked
        assert dry["most_of_all"]["ogpu"] in asked
        broken = ogpu(tmp_path, url, *job, *again)
        assert broken.exit_code == 1, broken.output
        dry = answer(ogpu(tmp_path, url, *requeued, "--dry-run"))
        assert (dry["times_at_most"], dry["most_of_all"]) == (1, dry["most"]), "two of three are begun"
        assert ogpu(tmp_path, url, *job).exit_code == 0
        first, second, third = dict.fromkeys(follower.followed)
        assert follower.followed == [first, second, second, third]
        assert len(bought(url)) == 3
        assert third in refusal(ogpu(tmp_path, url, *job))


def test_an_uninterrupted_job_is_requeued_no_more_often_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = TaskOutcome.TIME_OVER
    Follower(monkeypatch, over, over, over)
    monkeypatch.setattr(task_runs, "was_cut_off", lambda _: True)
    path = tmp_path / "job.yaml"
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *RUN, "--save", str(path), "--dry-run", *PROGRAM))
        job = ["task", "submit", str(path), *OF_BOB, "--anyway", "--yes", "--watch", "--requeue", "1"]
        done = ogpu(tmp_path, url, *job)
        assert (done.exit_code, len(bought(url))) == (0, 2), done.output
        assert "submitted it before" not in done.stderr


def test_a_job_is_requeued_only_where_its_cost_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = TaskOutcome.TIME_OVER
    follower = Follower(monkeypatch, over, over)

    async def left(client: ChainClient, account: bytes) -> int:
        return 0 if follower.followed else await spendable(client, account)

    monkeypatch.setattr(task_submission, "spendable", left)
    monkeypatch.setattr(task_runs, "was_cut_off", lambda _: True)
    path = tmp_path / "job.yaml"
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *RUN, "--save", str(path), "--dry-run", *PROGRAM))
        job = ["task", "submit", str(path), *OF_BOB, "--anyway", "--yes", "--watch", "--requeue", "1"]
        assert "ogpu-wallet send" in refusal(ogpu(tmp_path, url, *job))
        assert len(bought(url)) == 1


@pytest.mark.parametrize("found", [None, a_task()])
def test_a_task_that_the_chain_has_forgotten_is_not_bought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Task | None
) -> None:
    Follower(monkeypatch, TaskOutcome.ON_TIME)
    with chain(tmp_path) as url:
        task = answer(ogpu(tmp_path, url, *SUBMIT))["task"]

        async def forgotten(*_: Any) -> Task | None:
            return found

        with monkeypatch.context() as patch:
            patch.setattr("gpu_tasks.data.training_reads.task", forgotten)
            assert task in refusal(ogpu(tmp_path, url, *SUBMIT, "--watch"))
        assert len(bought(url)) == 1


def bought_by_a_process(folder: Path, url: str, moment: str) -> subprocess.CompletedProcess[str]:
    """The command as a program of its own, to which something happens then."""
    options = ["--url", url, "--keyring", str(folder / "keys"), *SUBMIT, "--watch"]
    command = [sys.executable, "-c", KILLED, moment, *options, "--postings", str(folder / "postings")]
    # a shell has what it starts in the background ignore the signal, and so what that starts
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=heeding,  # it does nothing else
    )


def test_a_signal_leaves_the_task_running_and_names_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        done = bought_by_a_process(tmp_path, url, "by a signal")
        assert done.returncode == 1, done.stderr
        (task,) = bought(url)
        assert task.outcome is None
        said = done.stderr.splitlines()[-1]
        assert re.search("ogpu .*watch 0x[0-9a-f]{64}", said), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("moment", ["before it is sent", "before it is known to be final", "while it is followed"])
def test_after_a_kill_the_same_command_goes_on_with_the_same_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    follower = Follower(monkeypatch, TaskOutcome.ON_TIME)
    with chain(tmp_path) as url:
        done = bought_by_a_process(tmp_path, url, moment)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert ogpu(tmp_path, url, *SUBMIT, "--watch").exit_code == 0
        assert len(bought(url)) == 1
        (task,) = follower.followed
        assert task in done.stderr + done.stdout
