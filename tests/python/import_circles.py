"""Finds circles among modules that import each other, of Python and of Rust.

`python tests/python/import_circles.py` prints each as a path, with the line of every import.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rust_modules import ModulePath, module_of, references, shipped, sources

ROOT = Path(__file__).resolve().parents[2]
Graph = dict[str, dict[str, str]]
"""Imports: for each module those that it imports, each with the first place, `file:line`."""
Circle = tuple[str, ...]
"""Modules that import each the next, and the last one the first; the lowest name comes first."""
INIT, LIB = "__init__", "lib"


def circles(graph: Mapping[str, Mapping[str, str]]) -> list[Circle]:
    """Give a shortest circle through each import that lies on one."""
    found = set()
    for source, targets in graph.items():
        for target in targets:
            back = _way(graph, target, source)
            if back is not None:
                lowest = back.index(min(back))
                found.add((*back[lowest:], *back[:lowest]))
    return sorted(found, key=lambda circle: (len(circle), circle))


def _way(graph: Mapping[str, Mapping[str, str]], begin: str, end: str) -> Circle | None:
    """Give the shortest way from one module to another, both in it."""
    ways: deque[Circle] = deque([(begin,)])
    seen = {begin}
    while ways:
        way = ways.popleft()
        if way[-1] == end:
            return way
        for target in sorted(graph.get(way[-1], {})):
            if target not in seen:
                seen.add(target)
                ways.append((*way, target))
    return None


def edges_on(found: Iterable[Circle]) -> set[str]:
    """Give the imports that circles are made of, as `from -> to`."""
    return {
        f"{source} -> {target}"
        for circle in found
        for source, target in zip(circle, (*circle[1:], circle[0]), strict=True)
    }


def said(graph: Mapping[str, Mapping[str, str]], circle: Circle) -> str:
    """Say a circle: its modules, and the place of each import."""
    steps = zip(circle, (*circle[1:], circle[0]), strict=True)
    lines = [f"    {one} -> {other}: {graph[one][other]}" for one, other in steps]
    return "\n".join([f"  {' -> '.join((*circle, circle[0]))}", *lines])


class Package:
    """A Python package: its modules, and what each imports of the others."""

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, root.name
        self.files = {self._module(path): path for path in sorted(root.rglob("*.py"))}
        self.packages = {name for name, path in self.files.items() if path.name == f"{INIT}.py"} | {
            (self.name,)
        }
        self.imports = {name: list(self._imports(name, path)) for name, path in self.files.items()}

    def _module(self, path: Path) -> ModulePath:
        parts = (self.name, *path.relative_to(self.root).with_suffix("").parts)
        return parts[:-1] if parts[-1] == INIT else parts

    def _imports(self, name: ModulePath, path: Path) -> Iterator[tuple[ModulePath, int]]:
        """Give what a file imports of the package, also within functions, each with its line."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in _shipped_nodes(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._target(tuple(alias.name.split(".")), None, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = tuple(node.module.split(".")) if node.module else ()
                if node.level:
                    ups = node.level - (path.name == f"{INIT}.py")
                    base = (*name[: len(name) - ups], *base)
                for alias in node.names:
                    yield from self._target(base, alias.name, node.lineno)

    def _target(
        self, base: ModulePath, item: str | None, line: int
    ) -> Iterator[tuple[ModulePath, int]]:
        if base[:1] != (self.name,):
            return
        if item is not None and (*base, item) in self.files:
            base = (*base, item)
        elif item is not None and base == (self.name,) and item in self._of_core:
            return
        if base in self.files:
            yield base, line

    @property
    def _of_core(self) -> set[str]:
        """Names of the compiled part that the package itself hands on: using them is no import."""
        tree = ast.parse((self.root / f"{INIT}.py").read_text(encoding="utf-8"))
        return {"_core"} | {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == f"{self.name}._core"
            for alias in node.names
        }

    def graph(self, package: ModulePath) -> Graph:
        """Give which of a package's own modules and packages import which, and itself."""
        depth = len(package)

        def part(name: ModulePath) -> str | None:
            if name[:depth] != package:
                return None
            return name[depth] if len(name) > depth else INIT

        graph: Graph = defaultdict(dict)
        for name, imports in self.imports.items():
            source = part(name)
            for target, line in imports if source is not None else ():
                other = part(target)
                if source is not None and other is not None and other != source:
                    place = f"{self.files[name].relative_to(self.root.parent)}:{line}"
                    graph[source].setdefault(other, place)
        return graph


def _shipped_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Give all nodes but those that stand under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield from (other, *_shipped_nodes(other))
            continue
        yield node
        yield from _shipped_nodes(node)


def crate_graph(crate: Path) -> Graph:
    """Give which first-level modules of a crate name which.

    What `lib.rs` hands on counts as named in the module that it is of.
    """
    texts = sources(crate)
    modules = {module_of(file)[0] for file in texts if module_of(file)}
    handed_on = dict(_handed_on(texts.get("lib.rs", ""), modules))
    graph: Graph = defaultdict(dict)
    for file, text in texts.items():
        source = (module_of(file) or (LIB,))[0]
        named = list(references(file, text))
        if source == LIB:
            named = list(_named_by_lib(text, modules))
        for path, line in named:
            first = path[0] if path else LIB
            target = first if first in modules else handed_on.get(first, LIB)
            if target != source:
                graph[source].setdefault(target, f"{crate.name}/src/{file}:{line}")
    return graph


_USE = re.compile(r"^(pub(?:\([^)]*\))?\s+)?use\s+([^;]*);", re.M)


def _handed_on(text: str, modules: set[str]) -> Iterator[tuple[str, str]]:
    """Give what `lib.rs` hands on, each item with its module."""
    for use in _USE.finditer(shipped(text)):
        tree = re.sub(r"\s+", " ", use[2])
        first = re.match(r"(?:crate::|self::)?(\w+)", tree)
        if use[1] and first and first[1] in modules:
            for item in re.findall(r"(\w+)\s*(?=[,}]|$)", tree):
                yield item, first[1]


def _named_by_lib(text: str, modules: set[str]) -> Iterator[tuple[ModulePath, int]]:
    """Give the modules that code of `lib.rs` itself names: to hand on is no such code."""
    text = shipped(text)
    text = _USE.sub(lambda use: "\n" * use[0].count("\n") if use[1] else use[0], text)
    text = re.sub(r"^\s*(pub(\([^)]*\))?\s+)?mod \w+;", "", text, flags=re.M)
    for found in re.finditer(r"(?<![\w:])(?:crate::|self::)?(\w+)::", text):
        if found[1] in modules:
            yield (found[1],), text.count("\n", 0, found.start()) + 1


def crates() -> list[Path]:
    """Give the folders of all crates."""
    return sorted(path.parents[1] for path in (ROOT / "crates").glob("*/src/lib.rs"))


def packages(root: Path) -> dict[str, Graph]:
    """Give the graph of each package below and including this one, by its name."""
    package = Package(root)
    return {".".join(name): package.graph(name) for name in sorted(package.packages)}


def main() -> None:
    """Print all circles."""
    graphs = packages(ROOT / "python" / "flashwright") | packages(ROOT / "experiments")
    graphs |= {f"crate {crate.name}": crate_graph(crate) for crate in crates()}
    for name, graph in graphs.items():
        found = circles(graph)
        if found:
            sys.stdout.write(f"{name}: {len(found)} circles of {len(edges_on(found))} imports\n")
            sys.stdout.write("".join(f"{said(graph, circle)}\n" for circle in found))


if __name__ == "__main__":
    main()
