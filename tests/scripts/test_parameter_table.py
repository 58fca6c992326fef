"""The tables of docs/parameters.md equal the code's."""

from scripts.parameter_table import DOCUMENT, TABLE, tables

TEXT = DOCUMENT.read_text(encoding="utf-8")


def test_the_page_shows_what_the_code_says() -> None:
    """After an intended change: `python -m scripts.parameter_table --write`."""
    assert {match["name"]: match["body"] for match in TABLE.finditer(TEXT)} == tables()


def test_every_parameter_has_a_reason_that_is_a_sentence() -> None:
    rows = [line.split(" | ") for line in tables()["parameters"].splitlines()[2:]]
    assert rows
    assert all(len(row) == 6 and row[-1].endswith(". |") for row in rows)
