"""Tables on a terminal: any account can choose a name on the chain, and a terminal obeys control characters."""

import json
import re
from typing import Any

import pytest

from cli.output import Output
from wallet.amounts import BareGrains, Grains
from wallet.errors import harmless

EMOJI = ":heart: :warning:"
HOSTILE = "free\x1b]0;gone\x07\x1b[2J\u202eoff\x9b"


def test_a_table_holds_nothing_that_a_terminal_takes_for_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    output.rows("Services", ("name",), [{"name": HOSTILE}])
    output.facts({"name": HOSTILE})
    shown = capsys.readouterr().out
    assert "free" in shown
    assert harmless(shown) == shown


def test_a_name_in_words_stays_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Else one name would look like another."""
    output = Output(as_json=False)
    output.rows("Validators", ("name",), [{"name": EMOJI}])
    output.facts({"name": EMOJI})
    assert capsys.readouterr().out.count(EMOJI) == 2


def test_json_has_a_text_as_it_is_in_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).facts({"name": HOSTILE})
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert harmless(shown) == shown
    assert json.loads(shown) == {"name": HOSTILE}


def test_numbers_stand_at_the_right_and_names_have_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    """The first value of a column says what it holds."""
    rows: list[dict[str, Any]] = [
        {"the_count": None, "sum": Grains(5), "ok": True, "who": "a"},
        {"the_count": 10, "sum": None, "ok": False, "who": "b"},
    ]
    output = Output(as_json=False)
    output.rows("T", tuple(rows[0]), rows)
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:1] in {"┃", "│"}]
    names, _, second = [re.split("[┃│]", line)[1:-1] for line in lines]
    assert names[0] == " the count "
    assert second[0] == "        10 "
    assert [cell.startswith("  ") for cell in second[2:]] == [False, False]
    output.facts({"the_sum": Grains(150_000_000)})
    assert capsys.readouterr().out.split("  ") == ["the sum", "1.5 oGPU\n"]


def test_line_breaks_stay() -> None:
    assert harmless("a\x1b[2Jb\nc\x9b\u202e") == "a [2Jb\nc  "


def test_an_id_is_whole_where_no_terminal_is_too_narrow_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "task": bytes(range(32)),
        "state": "submitted " * 4,
        "deadline": "in 200 blocks " * 3,
        "why": "it waits " * 30,
    }
    Output(as_json=False).rows("Tasks", tuple(row), [row])
    assert "0x" + bytes(range(32)).hex() in capsys.readouterr().out


def test_an_amount_is_whole_whatever_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    first = {f"amount {number}": None for number in range(8)} | {"why": "it waits " * 30}
    row = {f"amount {number}": Grains(5_244_022_500 + number) for number in range(8)} | {"why": "it waits " * 30}
    Output(as_json=False).rows("Amounts", tuple(row), [first, row])
    shown = capsys.readouterr().out
    assert all(f"52.4402250{number} oGPU" in shown for number in range(1, 8)), "the first row has none"


def test_an_amount_without_its_unit_is_one_for_programs_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).rows("Amounts in oGPU", ("amount",), [{"amount": BareGrains(150_000_000)}])
    shown = capsys.readouterr().out
    assert "1.5" in shown
    assert "1.5 oGPU" not in shown
    Output(as_json=True).facts({"amount": BareGrains(150_000_000)})
    assert json.loads(capsys.readouterr().out) == {"amount": {"grains": "150000000", "ogpu": "1.5"}}
