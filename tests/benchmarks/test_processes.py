"""Figures of a process from /proc, and of a node from its log."""

import os
import sys
from pathlib import Path

import pytest

from benchmarks.node import pids_by_role, wait_for_line
from benchmarks.processes import command_of, cpu_seconds_of, peak_mib, usage
from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import Process


def test_a_peak_is_no_less_than_what_is_resident_now() -> None:
    pid = os.getpid()
    assert peak_mib(pid) >= usage(pid).rss_mib > 1
    assert cpu_seconds_of(pid) > 0
    assert Path(sys.executable).name in command_of(pid) or "pytest" in command_of(pid)


def test_the_first_line_that_holds_the_words_is_found_and_a_process_without_it_is_named(tmp_path: Path) -> None:
    said = Process("talker", "http.server", ("--version-that-there-is-not",), tmp_path)
    processes.start(said)
    try:
        assert "error: unrecognized arguments" in wait_for_line(said, "unrecognized")
        with pytest.raises(DevnetError, match="talker never said 'goodbye'"):
            wait_for_line(said, "goodbye", seconds=5)
        with pytest.raises(DevnetError, match="talker ended"):
            pids_by_role(said)
    finally:
        processes.stop(said)
