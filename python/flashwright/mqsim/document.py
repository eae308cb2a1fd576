"""XML as MQSim has it: elements, each with its line, so that an error can name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from flashwright._core import InputError

MOST_BYTES = 16 << 20
"""A configuration has some kilobytes: what is longer is something else."""


@dataclass
class Element:
    """An element: its text, and what lies within."""

    name: str
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def named(self, name: str) -> list[Element]:
        """Give the elements of a name right within."""
        return [child for child in self.children if child.name == name]


def read(path: Path, root: str, what: str) -> Element:
    """Read a file whose outermost element is `root`.

    Raises InputError if it cannot be read, is no XML, or is something else: `what` it should be.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size} bytes: too long to be {what}")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from error
    found = _parse(path, content, what)
    if found.name != root:
        raise InputError(
            f"{path}, line {found.line}: <{found.name}> is not {what}; right would be <{root}>"
        )
    return found


def _parse(path: Path, content: bytes, what: str) -> Element:
    parser = expat.ParserCreate()
    document = Element("", 0)
    open_elements = [document]

    def start(name: str, _attributes: dict[str, str]) -> None:
        element = Element(name, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_name: str) -> None:
        element = open_elements.pop()
        element.text = element.text.strip()

    def text(part: str) -> None:
        open_elements[-1].text += part

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    try:
        is_all = True
        parser.Parse(content, is_all)
    except (expat.ExpatError, LookupError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        said = expat.errors.messages.get(getattr(error, "code", 0), str(error))
        raise InputError(f"{path}, line {line}: no XML ({said}); right would be {what}") from error
    return document.children[0]
