"""Task files of any bytes become a tree of texts, or an error with a line, at a low cost."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.tasks import yaml_tree
from gpu_tasks.tasks.problems import Problem, TaskFileError
from gpu_tasks.tasks.yaml_tree import DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX, FileNode, Listing, Scalar, Table, parse

SIZE = FILE_BYTES_MAX
HOSTILE = {
    "brackets": "[" * SIZE,
    "braces": "{" * SIZE,
    "items": "a: [" + "a," * (SIZE // 2 - 3) + "]",
    "keys of a flow": "{" + "".join(f"k{number}: v," for number in range(SIZE // 10)) + "}",
    "keys": "".join(f"k{number}: v\n" for number in range(SIZE // 9)),
    "dashes": "- " * (SIZE // 2),
    "question marks": "? " * (SIZE // 2),
    "colons": "{" + "?," * (SIZE // 2 - 1),
    "a long text": "a: " + "b" * (SIZE - 4),
    "escapes": 'a: "' + "\\x41" * ((SIZE - 6) // 4) + '"',
    "line breaks in quotes": 'a: "' + "\\\n" * ((SIZE - 6) // 2) + '"',
    "a block of blank lines": "a: |\n" + " \n" * (SIZE // 2 - 3),
    "directives": "%TAG ! a\n" * (SIZE // 9),
    "documents": "---\n" * (SIZE // 4),
    "laughs": "a: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(SIZE // 24)),
    "comments": "#\n" * (SIZE // 2),
    "half keys": "[[[[[[[[" + "a: " * (SIZE // 3 - 3),
}
MEMORY_MAX = 4_000_000


def tree(text: str) -> FileNode:
    return parse(text.encode(), "task.yaml")


def refusal(text: str | bytes) -> Problem:
    with pytest.raises(TaskFileError) as refused:
        parse(text if isinstance(text, bytes) else text.encode(), "task.yaml")
    (problem,) = refused.value.problems
    assert str(refused.value) == f"task.yaml:{problem.line}: {problem.text}"
    return problem


def plain(node: FileNode) -> object:
    match node:
        case Scalar():
            return str(node)
        case Listing():
            return [plain(item) for item in node]
        case Table():
            return {str(key): plain(value) for key, value in node.items()}


def test_scalars_are_their_texts_and_everything_has_its_line() -> None:
    read = tree('a: no\nb: {c: 1e3, d: "x: y"}\nf:\n  - ~\n  - 0o17\n')
    assert plain(read) == {"a": "no", "b": {"c": "1e3", "d": "x: y"}, "f": ["~", "0o17"]}
    assert isinstance(read, Table)
    assert [key.line for key in read] == [1, 2, 3]
    listing = read[Scalar("f", 3)]
    assert isinstance(listing, Listing)
    assert [item.line for item in listing] == [4, 5]


def test_json_is_yaml() -> None:
    assert plain(tree('{"a": {"b": [1, "2"]}}')) == {"a": {"b": ["1", "2"]}}


@pytest.mark.parametrize(
    ("text", "line", "code", "value"),
    [
        ("", 1, "empty", ""),
        ("# nothing\n", 1, "empty", ""),
        (b"a: \xff", 1, "not_utf8", ""),
        (b"\n\na: \xff", 3, "not_utf8", ""),
        ("a: \x07", 1, "wrong_letters", "0x7"),
        ("a: b\na: c\n", 2, "repeated_key", "'a' repeats line 1"),
        ("a: &x b\n", 1, "anchor", ""),
        ("&x a: b\n", 1, "anchor", ""),
        ("a: [b]\nc: *a\n", 2, "anchor", ""),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "tag", ""),
        ("a: ! b\n", 1, "tag", ""),
        ("a: b\n---\nc: d\n", 2, "second_document", ""),
        ("[a]: b\n", 1, "key_not_word", ""),
        ("a:\n\tb: c\n", 2, "not_yaml", "found character '\\t'"),
        ("a: b: c\n", 1, "not_yaml", "(column 5)"),
        ("a: [b\n", 2, "not_yaml", ""),
        ("%YAML 9.0\n---\na: b\n", 1, "not_yaml", ""),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), 1, "too_deep", f"{DEPTH_MAX}"),
        ("[" + "a," * NODES_MAX + "]", 1, "too_many_values", f"{NODES_MAX:,}"),
        ("#" * (FILE_BYTES_MAX + 1), 1, "too_large", f"{FILE_BYTES_MAX:,}"),
    ],
)
def test_what_is_no_such_file_is_named_with_its_line(text: str | bytes, line: int, code: str, value: str) -> None:
    problem = refusal(text)
    assert (problem.line, problem.code) == (line, code)
    assert value in problem.text


def test_the_limits_themselves_are_allowed() -> None:
    tree("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    tree("[" + "a," * (NODES_MAX - 1) + "]")
    tree("a: b\n" + "#" * (FILE_BYTES_MAX - 5))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_takes_little_memory_and_no_more_nodes_than_allowed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    read_node = yaml_tree._Composer._compose_node

    def counted(composer: yaml_tree._Composer, event: object, depth: int) -> FileNode:
        nonlocal seen
        seen += 1
        return read_node(composer, event, depth)  # type: ignore[arg-type]  # as the library types it

    monkeypatch.setattr(yaml_tree._Composer, "_compose_node", counted)
    assert len(text.encode()) <= FILE_BYTES_MAX
    tracemalloc.start()
    try:
        parse(text.encode(), "task.yaml")
    except TaskFileError as error:
        assert len(str(error)) < 400  # noqa: PT017  # a file may be one or none
    finally:
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert used < MEMORY_MAX
    assert seen <= NODES_MAX + 1


@given(st.text(alphabet="ab:-[]{}?&*!|>'\"%@# \n\t,0~\x00\u2028", max_size=60) | st.text(max_size=40))
def test_any_text_is_a_tree_or_an_error_with_a_line(text: str) -> None:
    try:
        parse(text.encode("utf-8", "surrogatepass"), "task.yaml")
    except TaskFileError as error:
        assert 1 <= error.problems[0].line <= text.count("\n") + text.count("\u2028") + 2  # noqa: PT017


@given(st.binary(max_size=60))
def test_any_bytes_are_a_tree_or_an_error(data: bytes) -> None:
    try:
        parse(data, "task.yaml")
    except TaskFileError as error:
        assert str(error).startswith("task.yaml:")  # noqa: PT017
