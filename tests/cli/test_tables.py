"""Tables on terminals of any width: every cell is there, whole, under its name or beside it."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cli import output, tables
from cli.output import Output
from cli.tables import FittedTable, Record
from cli.wallet.program import main as ogpu_wallet
from gpu_tasks.client import cli as client_cli
from runtime.cryptography import ss58
from wallet_runner import answer, chain, wallet

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 100, 200)
ENDS = (WIDTHS[0], WIDTHS[-1])  # records, and columns
ADDRESS = ss58.encode(bytes(range(32)))
TASK = "0x" + "ab" * 32
STYLES = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")
BORDERS = "━─┏┓┗┛┡┩├┤┼╇┳┴┃│└┘"


def drawn(shown: FittedTable | Record, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width, emoji=False).print(shown)
    return file.getvalue()


def joined(texts: Sequence[str]) -> str:
    return "".join("".join(texts).split())


def require_all(text: str, title: str, names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Every title, name and cell is in the text, in order, and no line is longer than the terminal."""
    lines = [line.rstrip() for line in STYLES.sub("", text).splitlines()]
    assert all(len(line) <= width for line in lines)
    body = [line for line in lines if line[:1] in {"┃", "│"}]
    if not body:
        pairs = [part for row in rows for pair in zip(names, row, strict=True) for part in pair]
        assert joined(lines).endswith(joined([title, *pairs])), "a bar stood there before"
        return
    cells = [re.split("[┃│]", line)[1:-1] for line in body]
    for place, name in enumerate(names):
        said = " ".join(" ".join(line[place] for line in cells).split())
        assert said == " ".join(" ".join([name, *(row[place] for row in rows)]).split()), "words stay whole, in order"


WORDS = st.text(st.characters(categories=("L", "N"), max_codepoint=0x24F), max_size=70)
CELLS = st.lists(WORDS, max_size=6).map(" ".join)
TABLES = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.lists(st.text("abcdefgh", min_size=1, max_size=20), min_size=count, max_size=count),
        st.lists(st.lists(CELLS, min_size=count, max_size=count), max_size=4),
    )
)


@given(TABLES, st.sampled_from(WIDTHS))
def test_no_cell_is_lost(table: tuple[list[str], list[list[str]]], width: int) -> None:
    names, rows = table
    require_all(drawn(FittedTable("A title", names, rows), width), "A title", names, rows, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_of_long_words_becomes_records(width: int) -> None:
    names, row = ("task", "by", "why"), (TASK, ADDRESS, "nobody bids " * 20)
    text = drawn(FittedTable("Tasks", names, [row, row]), width)
    require_all(text, "Tasks", names, [row, row], width)
    assert ("│" in text) == (width == 200)
    assert text.count(ADDRESS) == 2, "an address is whole wherever a line has room for it"
    assert text.count(TASK) == (0 if width == 60 else 2)


def table_lines(shown: FittedTable, width: int) -> list[str]:
    return [line for line in drawn(shown, width).splitlines() if line[:1] in {"┃", "│"}]


def test_a_column_of_numbers_stands_at_the_right_and_no_column_is_wider_than_its_text() -> None:
    shown = FittedTable("T", ("a", "long name"), [("x", "1"), ("yy", "22")], [1])
    assert table_lines(shown, 18) == ["┃ a  ┃ long name ┃", "│ x  │         1 │", "│ yy │        22 │"]
    assert table_lines(shown, 40) == table_lines(shown, 18)
    assert table_lines(shown, 13) == ["┃    ┃ long ┃", "┃ a  ┃ name ┃", "│ x  │    1 │", "│ yy │   22 │"]
    assert table_lines(shown, 12) == [], "a word would be broken"


def test_brackets_and_blanks_at_the_ends_of_lines_are_no_markup() -> None:
    shown = FittedTable("[red]T", ("[b]n",), [(" [i]x [/i] \n  y",)])
    assert table_lines(shown, 40) == ["┃ [b]n      ┃", "│ [i]x [/i] │", "│ y         │"]
    assert drawn(shown, 40).startswith("[red]T")
    assert [line.rstrip() for line in drawn(shown, 7).splitlines()] == ["[red]T", "", "[b]n", "  [i]x", "  [/i]", "  y"]
    assert drawn(Record(("[b]n",), ("[i]x",)), 40).split() == ["[b]n", "[i]x"]


def test_the_narrowest_columns_get_their_lines_whole_first() -> None:
    shown = FittedTable("T", ("why", "who"), [("aa " * 10, "bbb bbb bbb")])
    assert any("│ bbb bbb bbb │" in line for line in table_lines(shown, 30))


def test_records_stand_apart_under_the_title() -> None:
    shown = FittedTable("T", ("a", "long name", "cc"), [(" x\n  y ", "1" * 9, ""), ("z", "2", "3")])
    assert [line.rstrip() for line in drawn(shown, 20).splitlines()] == [
        "T", "", "a          x", "           y", "long name  111111111", "cc",
        "", "a          z", "long name  2", "cc         3",
    ]  # fmt: skip
    assert [line.rstrip() for line in drawn(shown, 19).splitlines()] == [
        "T", "", "a", "  x", "  y", "long name", "  111111111", "cc", "",
        "", "a          z", "long name  2", "cc         3",
    ]  # fmt: skip


def test_wide_letters_take_the_room_that_they_take() -> None:
    assert table_lines(FittedTable("T", ("a",), [("\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 5,)]), 13) == []


def test_a_table_without_rows_has_its_names() -> None:
    assert "price" in drawn(FittedTable("Offers", ("device", "price"), []), 80)


class Recorded(FittedTable):
    """Records its arguments."""

    made: list[tuple[str, Any, Any]]

    def __init__(self, title: str, columns: Any, rows: Any, at_right: Any = ()) -> None:
        super().__init__(title, columns, rows, at_right)
        self.made.append((title, columns, rows))


COMMANDS = {
    **dict.fromkeys(
        ("validators", "candidates", "stakes //Alice", "balance //Alice //Bob", "locks //Alice"),
        ogpu_wallet,
    ),
    **dict.fromkeys(("parameters", "rewards //Alice", "history //Bob", "list"), ogpu_wallet),
    **dict.fromkeys(
        ("offer services", "offer providers", "offer price", "offer search", "ps --key //Alice"), client_cli.main
    ),
}


def test_the_tables_of_the_programs_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "FittedTable", Recorded)
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "delegate", "//Alice", "50", "--key", "//Bob", "--yes"))
        answer(wallet(tmp_path, url, "new", "carol", typed="pass\npass\n"))
        options = ["--url", url, "--keyring", str(tmp_path / "keys")]
        seen = 0
        for command, program in COMMANDS.items():
            for width in ENDS:
                Recorded.made = []
                here = {"COLUMNS": str(width), "FORCE_COLOR": "1"}
                result = CliRunner().invoke(program, [*options, *command.split()], env=here)
                assert result.exit_code == 0, (command, result.output)
                if len(Recorded.made) == 1:
                    require_all(result.stdout, *Recorded.made[0], width)
                    seen += len(Recorded.made[0][2])
        assert seen > len(ENDS) * 20, "there was something to show"


@pytest.mark.parametrize(("said", "width"), [("60", 60), ("200", 200), ("", 77), ("wide", 77)])
def test_without_a_terminal_tables_are_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, said: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", said)
    console = tables.console_for(77, file=io.StringIO())
    assert console.width == width
    assert Output(as_json=False).console.width == (output.WIDTH_WITHOUT_TERMINAL if width == 77 else width)


def test_every_table_is_drawn_in_one_place() -> None:
    """The devnet's table alone has its own narrow form."""
    for room in ("wallet", "cli", "node", "gpu_tasks"):
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "rich" not in text:
                continue  # parsing everything takes seconds
            imported = [
                (node.module, name.name)
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom)
                for name in node.names
            ]
            assert ("rich.table", "Table") not in imported or path == Path(tables.__file__), path
