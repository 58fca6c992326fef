"""Planted bugs: the lists are well formed, and a campaign reports the fate of each bug."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.mutants import __main__, campaign, trial
from scripts.mutants.campaign import Campaign, open_campaign
from scripts.mutants.planted import Mutant, MutantError, choose, read_list, require_applicable
from scripts.mutants.trial import Verdict

ROOT = Path(__file__).parents[2]
SOUND = """
def is_quorum(weight, total):
    return 3 * weight > 2 * total
"""
TESTS = """
from small import is_quorum

def test_quorum():
    assert is_quorum(3, 4)
    assert not is_quorum(2, 3)

def test_little():
    assert is_quorum(4, 4)
"""


def mutant(name: str, plant: str, tests: str = "test_small.py", find: str = "3 * weight > 2 * total") -> Mutant:
    return Mutant(name, "room", "small.py", find, plant, "somebody suffers", (tests,))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    (root / "small.py").write_text(SOUND)
    (root / "test_small.py").write_text(TESTS)
    return root


@pytest.fixture
def opened(tree: Path) -> Iterator[Campaign]:
    with open_campaign(tree, 2) as opened:
        yield opened


def test_the_lists_name_files_and_tests_that_are_there_and_each_bug_can_be_planted() -> None:
    listed = read_list()
    require_applicable(listed, ROOT)
    assert sum(mutant.file.startswith("consensus/") for mutant in listed) >= 30
    assert sum(mutant.file.startswith("node/") for mutant in listed) >= 30
    assert sum(mutant.file.startswith("gpu_tasks/market/") for mutant in listed) >= 15
    assert {mutant.file.split("/")[0] for mutant in listed} >= {"runtime", "gpu_tasks", "wallet"}
    missing = {mutant.file for mutant in listed if not (ROOT / mutant.file).is_file()}
    missing |= {test for mutant in listed for test in mutant.tests if not (ROOT / test.split("::")[0]).is_file()}
    assert missing == set()
    assert [mutant.name for mutant in listed if not mutant.harm.endswith(".")] == []


def test_a_text_that_does_not_occur_once_is_an_error_that_names_the_mutant(tree: Path) -> None:
    gone = mutant("gone", "return True", find="no such text")
    often = mutant("often", "b", find="weight")
    with pytest.raises(MutantError, match=r"(?s)gone does not apply: small\.py .* 0 times.*often .* 2 times"):
        require_applicable([gone, often], tree)
    require_applicable([mutant("fine", "True")], tree)


@pytest.mark.parametrize(
    "text",
    [
        "[a]\nfile = 'f'\nfind = 'x'\nplant = 'y'\nharm = 'h'",
        "[a]\nfile = 'f'\nfind = 'x'\nplant = 'x'\nharm = 'h'\ntests = ['t']",
        "[a]\nfile = 'f'\nfind = 'x'\nplant = 'y'\nharm = 'h'\ntests = []",
        "[a]\nfile = 'f'\nfind = 'x'\nplant = 'y'\nharm = 'h'\ntests = ['t']\nskip = true",
        "a = 1",
        "[a",
    ],
)
def test_a_list_that_says_nothing_clear_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "room.toml").write_text(text)
    with pytest.raises(MutantError):
        read_list(tmp_path)


def test_a_name_chooses_a_mutant_or_a_room() -> None:
    listed = [mutant("a", "x"), mutant("b", "y")]
    assert choose(listed, ["b"]) == listed[1:]
    assert choose(listed, ["room"]) == choose(listed, []) == listed
    with pytest.raises(MutantError, match="called c"):
        choose(listed, ["c"])


def test_a_bug_that_hangs_its_tests_is_killed_by_time_out(opened: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "LIMIT_SECONDS", 2.0)
    (ended,) = opened.try_all([mutant("hangs", "next(weight for weight in iter(int, 1) if weight)")], lambda *_: None)
    assert ended.verdict is Verdict.HUNG


@pytest.mark.nightly
def test_each_bug_is_killed_survives_or_does_not_run(tree: Path, opened: Campaign) -> None:
    listed = [
        mutant("killed", "3 * weight >= 2 * total"),
        mutant("missed", "3 * weight >= 2 * total", "test_small.py::test_little"),
        mutant("broken", "3 * weight >"),
        mutant("gone", "x", find="no such text"),
    ]
    assert opened.check_sound(["test_small.py"]) == []
    told: list[str] = []
    trials = opened.try_all(listed, lambda planted, _: told.append(planted.name))
    assert [ended.verdict for ended in trials] == [
        Verdict.KILLED, Verdict.SURVIVED, Verdict.BROKEN, Verdict.INAPPLICABLE
    ]  # fmt: skip
    assert trials[0].killer == "test_small.py::test_quorum"
    assert sorted(told) == sorted(planted.name for planted in listed)
    assert (tree / "small.py").read_text() == SOUND
    assert opened.check_sound(["test_small.py"]) == [], "every copy is sound again"


def test_a_named_test_that_fails_without_any_bug_is_said(tree: Path) -> None:
    (tree / "test_small.py").write_text("def test_wrong():\n    assert False\n")
    with open_campaign(tree, 1) as opened:
        (failed,) = opened.check_sound(["test_small.py"])
    assert failed.killer == "test_small.py::test_wrong"


def test_an_interruption_ends_what_runs_and_removes_the_copies(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    (tree / "test_small.py").write_text("import time\n\ndef test_long():\n    time.sleep(600)\n")
    begun = threading.Event()
    start = trial._start

    def start_and_say(root: Path, tests: tuple[str, ...], *, compiles: bool) -> subprocess.Popen[str]:
        begun.set()
        return start(root, tests, compiles=compiles)

    def interrupted(*_: object) -> Iterator[None]:
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "_start", start_and_say)
    with pytest.raises(KeyboardInterrupt), open_campaign(tree, 1) as opened:
        original = ThreadPoolExecutor.map

        def mapped(threads: ThreadPoolExecutor, *arguments: object) -> object:
            original(threads, *arguments)  # type: ignore[arg-type]  # as it was called
            return interrupted()

        monkeypatch.setattr(ThreadPoolExecutor, "map", mapped)
        opened.try_all([mutant("long", "True")], lambda *_: None)
    assert list((tmp_path / "copies").iterdir()) == []


def test_the_tests_of_a_module_begin_with_its_mirror() -> None:
    tests = __main__.tests_of(ROOT, "consensus/certificates.py")
    assert tests[0] == "tests/consensus/test_certificates.py"
    assert 1 < len(tests) == len({*tests}) <= __main__.TESTS_MAX


def test_drawn_mutants_are_planted_by_their_whole_text(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "room").mkdir()
    (tree / "room" / "small.py").write_text(SOUND)
    (tree / "tests" / "room").mkdir(parents=True)
    (tree / "tests" / "room" / "test_small.py").write_text(TESTS)
    with pytest.raises(MutantError):
        __main__.draw(tree, ["room"], 1, 3)  # no environment of Cosmic Ray
    words = tree / "operators.py"
    words.write_text(
        "import json, sys; asked = json.load(sys.stdin); file = next(iter(asked['files'])); text = open(file).read();"
        "print(json.dumps([dict(file=file, line=asked['seed'], operator='O', text=text.replace('>', '>='))]))"
    )
    monkeypatch.setattr(__main__, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(__main__, "OPERATORS", words)
    (found,) = __main__.draw(tree, ["room"], 1, 3)
    assert (found.name, found.file, found.tests) == (
        "room/small.py:3 O",
        "room/small.py",
        ("tests/room/test_small.py",),
    )
    assert ">=" in found.applied(SOUND)
    with pytest.raises(MutantError):
        __main__.draw(tree, ["tests"], 1, 3)  # nothing there has tests


def test_lines_that_changed_after_a_commit_are_known(tree: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a"]
    for words in (["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *words], cwd=tree, check=True)
    lines = (tree / "small.py").read_text().splitlines()
    (tree / "small.py").write_text("\n".join(["first", *lines[:-1], "last", "more"]) + "\n")
    assert __main__.changed_lines(tree, "small.py", "HEAD") == [1, len(lines) + 1, len(lines) + 2]
    assert __main__.changed_lines(tree, "test_small.py", "HEAD") == []
    with pytest.raises(MutantError):
        __main__.changed_lines(tree, "small.py", "nothing")
