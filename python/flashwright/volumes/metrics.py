"""Metrics of a running volume, from its file, and their growth between two looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError, RunError

from . import control

OPS = ("read", "write", "flush", "trim")
_LINE = re.compile(r"flashwright_(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
Labels = tuple[tuple[str, str], ...]
Values = Mapping[tuple[str, Labels], float]


@dataclass(frozen=True)
class Sample:
    """The metrics of one volume at one moment."""

    uuid: str
    values: Values

    def get(self, name: str, **labels: str) -> float | None:
        """Give a metric, named without `flashwright_`; None if it is not there."""
        return self.values.get((name, tuple(sorted(labels.items()))))

    def number(self, name: str, **labels: str) -> float:
        """Give a metric; 0 if it is not there."""
        return self.get(name, **labels) or 0.0

    def of(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Give all of one name, with their labels."""
        for (other, labels), value in self.values.items():
            if other == name:
                yield dict(labels), value

    @property
    def seconds(self) -> float:
        """Seconds that the volume has been open, by its own clock."""
        return self.number("volume_open_seconds")


def read(path: Path, lives: Callable[[], bool] = lambda: False) -> Sample:
    """Read a file that `--metrics` keeps, or ask the server on this socket.

    A server that lives is waited for, up to a minute: it may be opening its volume.

    Raises InputError if it is not there, or not such a file, or nobody answers.
    """
    if path.is_socket() or lives():
        try:
            return parse(control.ask(path, "metrics", lives), str(path))
        except RunError as error:
            raise InputError(str(error)) from error
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"{path}: the metrics cannot be read: {why}") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Sample:
    """Read the text of such a file, by the name of `name` in errors.

    Raises InputError if it is none.
    """
    values: dict[tuple[str, Labels], float] = {}
    volumes = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        found = _LINE.match(line)
        metric, given, value = found.groups() if found else ("", "", "")
        labels = dict(_LABEL.findall(given))
        try:
            volumes.add(labels.pop("volume"))
            values[metric, tuple(sorted(labels.items()))] = float(value)
        except (ValueError, KeyError):
            raise InputError(
                f"{name}, line {number}: it is none of a volume's metrics; right would be a file "
                "that `--metrics` keeps"
            ) from None
    if len(volumes) != 1:
        raise InputError(
            f"{name}: it has the metrics of {len(volumes)} volumes; right would be a file that "
            "`--metrics` keeps, which has those of one"
        )
    return Sample(volumes.pop(), values)


@dataclass(frozen=True)
class Between:
    """Activity of a volume between two looks, or since it was opened, if there was none before."""

    now: Sample
    before: Sample | None = None

    @property
    def seconds(self) -> float:
        """Time between both, by the volume's clock."""
        return self.now.seconds - (self.before.seconds if self.before else 0.0)

    def grown(self, name: str, **labels: str) -> float:
        """Tell by how much a counter has grown."""
        before = self.before.number(name, **labels) if self.before else 0.0
        return self.now.number(name, **labels) - before

    def rate(self, name: str, **labels: str) -> float:
        """Tell by how much a counter has grown in a second."""
        return self.grown(name, **labels) / self.seconds if self.seconds > 0 else 0.0

    def mean_us(self, name: str, op: str) -> float | None:
        """Give the mean of a histogram of seconds, in microseconds; None if it had nothing."""
        count = self.grown(f"{name}_count", op=op)
        return self.grown(f"{name}_sum", op=op) / count * 1e6 if count else None

    def below_us(self, name: str, op: str, share: float) -> float | None:
        """Give the bound in microseconds that a share of a histogram is below; None if none is.

        Buckets double, so it is up to twice the true percentile.
        """
        limits = sorted(
            (float(labels["le"]), labels["le"])
            for labels, _ in self.now.of(f"{name}_bucket")
            if labels["op"] == op
        )
        wanted = share * self.grown(f"{name}_count", op=op)
        if wanted == 0:
            return None
        for limit, label in limits:
            if self.grown(f"{name}_bucket", op=op, le=label) >= wanted:
                return limit * 1e6
        return None

    def layers_amplification(self) -> float | None:
        """Bytes written to the device for each that users wrote; None if they wrote none."""
        asked = self.grown("volume_request_bytes_total", op="write")
        return self.grown("volume_device_bytes_total", op="write") / asked if asked else None

    def flash_amplification(self) -> float | None:
        """Bytes programmed for each that the device was sent; None if nobody can tell."""
        page_bytes = self.now.get("flash_page_bytes")
        sent = self.grown("volume_device_bytes_total", op="write")
        if page_bytes is None or sent == 0:
            return None
        return self.grown("flash_page_programs_total") * page_bytes / sent

    def dies_busy(self) -> list[float]:
        """Give the share of the time in which each die worked; none if nobody can tell."""
        if self.seconds <= 0:
            return []
        name = "flash_die_busy_seconds_total"
        dies = sorted(int(labels["die"]) for labels, _ in self.now.of(name))
        return [min(self.rate(name, die=str(die)), 1.0) for die in dies]
