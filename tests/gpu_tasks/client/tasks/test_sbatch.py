"""A batch script of Slurm as a job: a table of its options."""

import pytest

from converted import IMAGE, sbatch
from error_codes import raises_code
from gpu_tasks.client.tasks.foreign import ForeignFileError
from gpu_tasks.client.tasks.sbatch import from_sbatch
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import INTERVALS_MAX
from gpu_tasks.tasks.container_order import intervals_of
from gpu_tasks.tasks.container_task import ContainerFile
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.yaml_tree import Table

HOUR = 3_600_000
TASK = "0x" + "ab" * 32


@pytest.mark.parametrize(
    ("options", "name", "value", "lost"),
    [
        ("--job-name=train", "name", "train", []),
        ("-J Train_7", "name", "train-7", []),
        ("--time=90", "time.milliseconds", HOUR + HOUR // 2, []),
        ("-t 2:30:15", "time.milliseconds", 9_015_000, []),
        ("-t2:30:15", "time.milliseconds", 9_015_000, []),
        ("--time 0-12", "time.milliseconds", 12 * HOUR, []),
        ("--time=21:00:00", "time.milliseconds", 21 * HOUR, []),
        ("--time=21:00:01", "time.milliseconds", 21 * HOUR, ["--time=21:00:01"]),
        ("--gres=gpu", "gpus", 1, []),
        ("--gres=gpu:1", "gpus", 1, []),
        ("--gres=gpu:2", "gpus", 1, ["2 GPUs"]),
        ("--gres=gpu:0", "gpus", 0, []),
        ("--gres gpu:a100:1", "gpus", 1, ["GPUs of type a100"]),
        ("--gres=gpu:a100", "gpus", 1, ["GPUs of type a100"]),
        ("--gres=fpga:1", "gpus", 0, ["--gres=fpga:1"]),
        ("--gres=gres/gpu:1,shard:2", "gpus", 1, ["--gres=shard:2"]),
        ("--gres=none", "gpus", 0, []),
        ("--gpus=many", "gpus", 0, ["--gpus=many"]),
        ("--gpus=1", "classes", (DeviceClass.CONSUMER, DeviceClass.DATACENTER), []),
        ("-G rtx4090:1", "gpus", 1, ["GPUs of type rtx4090"]),
        ("--gpus-per-node=1", "gpus", 1, []),
        ("--gpus-per-socket=1", "gpus", 1, []),
        ("--cpus-per-task=4", "cpu_thousandths", 4_000, []),
        ("-c4", "cpu_thousandths", 4_000, []),
        ("--ntasks=1 --nodes=1", "cpu_thousandths", 1_000, []),
        ("-n2 -N 4", "copies", 1, ["--ntasks=2", "--nodes=4"]),
        ("--mem=4G", "memory_bytes", 4 << 30, []),
        ("--mem=2048", "memory_bytes", 2 << 30, []),
        ("--mem=1K", "memory_bytes", 1 << 20, []),
        ("--mem=0", "memory_bytes", 512 << 20, ["--mem=0"]),
        ("--mem-per-cpu=1G -c 4", "memory_bytes", 4 << 30, []),
        ("-c 4 --mem-per-cpu=1000K", "memory_bytes", 4 << 20, []),
        ("--mem-per-cpu=1G", "memory_bytes", 1 << 30, []),
        ("--mem-per-cpu=1G -c 0", "memory_bytes", 1 << 30, []),
        ("--tmp=10G", "disk_bytes", 10 << 30, []),
        ("--output=slurm-%j.out -e err", "name", "job", []),
        ("--export=NONE", "environment", {}, []),
        ("--export=ALL", "environment", {}, ["--export=ALL"]),
        ("--export=A=1,B=2", "environment", {"A": "1", "B": "2"}, []),
        ("--export=A=1\n#SBATCH --export=B=2", "environment", {"A": "1", "B": "2"}, []),
        ("--export=HOME,A=x=y", "environment", {"A": "x=y"}, ["--export=HOME"]),
        ("--chdir=/data", "name", "job", ["--chdir"]),
        ("-p gpu -A me --qos=high", "name", "job", []),
        ("--mail-type=END --requeue --time=120", "time.milliseconds", 2 * HOUR, []),
        ("--constraint=h100", "name", "job", ["--constraint"]),
        ("--exclusive --time=120", "time.milliseconds", 2 * HOUR, ["--exclusive"]),
        ("--exclusive nonsense", "name", "job", ["--exclusive", "nonsense"]),
        ("--nobody-knows=1", "name", "job", ["--nobody-knows"]),
        ("--dependency=afterok:123", "name", "job", ["--dependency=afterok:123"]),
        ("--time=120 # and a comment --time=1", "time.milliseconds", 2 * HOUR, []),
        ("--time=10\n#SBATCH --time=120", "time.milliseconds", 2 * HOUR, []),
        ("--comment='a b' --time=120", "time.milliseconds", 2 * HOUR, []),
        ("--comment='a", "name", "job", ["#SBATCH --comment='a"]),
        ("--comment='a\n#SBATCH --time=120", "time.milliseconds", 2 * HOUR, ["#SBATCH --comment='a"]),
        ("nonsense", "name", "job", ["nonsense"]),
    ],
)
def test_an_option_becomes_what_it_means(options: str, name: str, value: object, lost: list[str]) -> None:
    found = sbatch(f"#SBATCH {options}\necho done\n")
    read: object = found.task
    for part in name.split("."):
        read = getattr(read, part)
    assert read == value
    assert found.lost == lost


@pytest.mark.parametrize(
    ("options", "hints"),
    [
        ("--array=0-9%4", ("--array 0-9%4 --watch",)),
        ("--array 1,3", ("--array 1,3",)),
        ("--array '0-9;touch x'", ()),
        ("--array=0-63", ("--array 0-63",)),
        ("--array=0-168", ()),
        ("--array=0-5:0", ()),
        ("--array=9-0", ()),
        ("--array=0-630:10%3", ("--array 0-630:10%3 --watch",)),
        (f"-d afterok:{TASK}", (f"--after-ok {TASK}",)),
        (f"--dependency=afterany:{TASK}", (f"--after-any {TASK}",)),
        (f"--dependency=after:{TASK}", (f"--after-any {TASK}",)),
        (f"--dependency=afterok:{TASK};touch", ()),
    ],
)
def test_what_is_said_to_submit(options: str, hints: tuple[str, ...]) -> None:
    assert sbatch(f"#SBATCH {options}\n").foreign.hints == hints


def test_the_script_goes_in_and_runs_with_its_shell() -> None:
    found = sbatch("echo done\n", shell="#!/usr/bin/env bash")
    assert found.task.command == ("/usr/bin/env", "bash", "/in/job.sh")
    assert (found.task.inputs, found.task.is_lease) == (("job.sh",), False)
    assert sbatch("", shell="echo").task.command == ("/bin/sh", "/in/job.sh")
    assert sbatch("", shell="#!'").task.command == ("/bin/sh", "/in/job.sh")
    assert sbatch("", name="Train it.sh".replace(" ", "_")).task.name == "train-it"


def test_options_end_with_the_first_command() -> None:
    text = "\n# words\n##SBATCH --time=6\n#SBATCHES --time=7\n#SBATCH --time=5\n\necho\n#SBATCH --time=9\n"
    found = sbatch(text)
    assert (found.task.time.milliseconds, found.lost) == (300_000, ["ES", "#SBATCH --time=9"])


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("#SBATCH --time=10\n  # what the GPU needs\n#SBATCH --gres=gpu:1 --mem=16G\n", []),
        ("#SBATCH--time=10\n#SBATCH--gres=gpu:1\n\n \t\v\f\n#SBATCH\t--mem=16G\n", []),
        ("#SBATCH --time=10 --gres=gpu:1 --mem=16G\nset -e\n#SBATCH --mem=1G\n#SBATCH--time=9\n",
         ["#SBATCH --mem=1G", "#SBATCH--time=9"]),
        ("#SBATCH --time=10 --gres=gpu:1 --mem=16G\n  #SBATCH --mem=1G\n", ["#SBATCH --mem=1G"]),
        ("#SBATCH --time=10 --gres=gpu:1 --mem=16G\n#SBATCH hetjob\n#SBATCH --mem=1G --time=3\n",
         ["other components"]),
        ("#SBATCH --time=10 --gres=gpu:1 --mem=16G packjob --mem=1G\n", ["other components"]),
        ("#SBATCH --time=10 --gpus=1 --mem-per-gpu=16G --cpus-per-gpu=1\n", []),
        ("#SBATCH --time=10 --gpus=1 --mem=16G --ntasks-per-node=1 --tasks-per-node=1 --nodes=1-1\n", []),
        ("#SBATCH --time=10 --gpus=1 --mem=16G --open-mode=append\n", []),
        ("#SBATCH --time=10 --gpus=1 --mem=16G --ntasks-per-node=2\n", ["--ntasks-per-node=2"]),
    ],
)  # fmt: skip
def test_lines_are_directives_by_slurms_own_rule(text: str, lost: list[str]) -> None:
    found = sbatch(text)
    task = found.task
    assert (task.time.milliseconds, task.gpus, task.memory_bytes) == (600_000, 1, 16 << 30)
    assert [each.strip() for each in found.lost] == lost


@pytest.mark.parametrize("time", ["24:00:00", "1-0", "20-0", "0", "UNLIMITED"])
def test_a_task_gets_the_longest_time_there_is(time: str) -> None:
    found = sbatch(f"#SBATCH --time={time}\n")
    assert (found.task.time.milliseconds, found.lost) == (21 * HOUR, [f"--time={time}"])
    assert intervals_of(ContainerFile("x", found.task, Table([], 1)), 2_000)[1] <= INTERVALS_MAX


def test_an_array_that_is_too_large_is_said_with_its_parts() -> None:
    (loss,) = sbatch("#SBATCH --array=0-168\n").foreign.carrying.losses
    assert all(f"`--array {part}`" in loss.why for part in ("0-63", "64-127", "128-168"))
    (loss,) = sbatch("#SBATCH --array=0-100000:2%8\n").foreign.carrying.losses
    assert "`--array 0-126:2`, `--array 128-254:2`" in loss.why


@pytest.mark.parametrize(
    ("last", "part", "is_all"), [(128, "128-128", True), (191, "128-191", True), (192, "128-191", False)]
)
def test_the_parts_of_an_array_are_all_of_it_or_are_said_to_go_on(last: int, part: str, is_all: bool) -> None:
    (loss,) = sbatch(f"#SBATCH --array=0-{last}\n").foreign.carrying.losses
    assert (f"`--array {part}`" in loss.why, "and so on" not in loss.why) == (True, is_all)


def test_a_script_with_a_byte_order_mark_is_refused() -> None:
    """A shell does not read its first line, and Slurm refuses it."""
    with pytest.raises(ForeignFileError):
        from_sbatch("\ufeff#!/bin/bash\n#SBATCH --mem=1G\n".encode(), "job.sh", IMAGE, "2 oGPU")


def test_secrets_in_a_script_are_said() -> None:
    found = sbatch("#SBATCH --export=API_KEY=abc\nexport HF_TOKEN='hf_x'\nTOKEN=$HF_TOKEN\nSORT=1\nUSE_KEY='1'\n")
    assert found.lost == ["--export API_KEY", "HF_TOKEN as a secret"]


def test_no_value_of_a_secret_goes_into_the_task_file() -> None:
    assert sbatch("#SBATCH --export=API_KEY=abc,MODE=fast\n").task.environment == {"MODE": "fast"}


def test_what_a_cluster_has_and_a_container_has_not_is_named_once() -> None:
    text = "# srun\nmodule load cuda\nmodule load x\nsrun a $SLURM_JOB_ID $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID\nmodules\n"
    assert sbatch(text).lost == ["module", "srun", "SLURM_JOB_ID"]
    assert sbatch("#SBATCH --export=SLURM_JOB_ID=7\necho $SLURM_JOB_ID\n").lost == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#SBATCH --time=soon", "invalid_time"),
        ("#SBATCH --time", "invalid_time"),
        ("#SBATCH --mem=lots", "invalid_size"),
        ("#SBATCH --cpus-per-task=two", "invalid_cores"),
        ("echo\r\n", "line_endings"),
        ("#" * 200_000, "script_too_long"),
    ],
)
def test_what_can_be_no_task_is_refused(text: str, code: str) -> None:
    with raises_code(ForeignFileError, code):
        sbatch(text)


def test_an_image_has_to_be_said() -> None:
    with raises_code(ForeignFileError, "no_image"):
        sbatch("echo\n", image=None)
    assert str(sbatch("echo\n", image=IMAGE).task.image).startswith("ghcr.io/acme/tool@")
    with pytest.raises(TaskFileError, match="rename it"):
        sbatch("echo\n", name="-x.sh")


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_what_is_one_line_to_a_shell_is_one_line(end: str) -> None:
    found = sbatch(f"# a remark{end}#SBATCH --export=HIDDEN=1\n#SBATCH --job-name=x\necho")
    assert (found.task.name, found.task.environment) == ("x", {})
