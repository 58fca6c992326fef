# The part of PyYAML that this project uses: its parser's events.
from collections.abc import Iterator

from yaml import reader as reader

class Mark:
    line: int
    column: int

class Event:
    start_mark: Mark

class StreamEndEvent(Event): ...
class AliasEvent(Event): ...

class ScalarEvent(Event):
    value: str
    style: str | None

class SequenceStartEvent(Event): ...
class SequenceEndEvent(Event): ...
class MappingStartEvent(Event): ...
class MappingEndEvent(Event): ...
class SafeLoader: ...
class YAMLError(Exception): ...

class MarkedYAMLError(YAMLError):
    problem: str | None
    problem_mark: Mark | None

def parse(stream: str, Loader: type[SafeLoader]) -> Iterator[Event]: ...
