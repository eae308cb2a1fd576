"""The report of `advise`: how things stand, what to change, what not, what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright._text import size, span
from flashwright.pages.figures import axes, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

ABOVE_THE_FOLD = 5


def page(run: Run) -> Page:
    """Build the report from the result alone."""
    result = run.result
    stands = result["as_things_stand"]
    changes = result["changes"]
    sections = [
        Section(
            "As things stand",
            [Table("What the disk got, and what becomes of it", _PAIR, stands["rows"])],
        ),
        _what_to_change(result, changes),
    ]
    if result["other_drives"]:
        sections.append(_other_drives(result["other_drives"]))
    if result["with_more_risk"]:
        rows = [[*_row(one), one["loss"]["says"]] for one in result["with_more_risk"]]
        columns = (*_CHANGES, ("lost after a crash", "prose"))
        sections.append(
            Section("Only with more risk", [Table("What --risk would allow", columns, rows)])
        )
    sections += [
        Section(
            "What would not help here",
            [Table("Looked at", _PAIR, [[one["what"], one["why"]] for one in _known(result)])],
        ),
        Section(
            "What is not known",
            [
                Table(
                    "Not advised",
                    (("question", "prose"), ("why", "prose"), ("what would tell", "prose")),
                    [[one["what"], one["why"], one["how"]] for one in result["not_known"]],
                )
            ],
        ),
        Section(
            "Good to know",
            [Table("Answers without a change", (("", "prose"),), _told(result["told"]))],
        ),
        Section(
            "What it rests on",
            [Table("And what would make it surer", (("", "prose"),), _lines(result["rests_on"]))],
        ),
    ]
    return Page(
        kind="advice",
        title=f"Advice on {result['source']}",
        headline=result["headline"],
        facts=_facts(stands),
        sections=[one for one in sections if _has_rows(one)],
        provenance=result["provenance"],
    )


_PAIR = (("", "left"), ("", "prose"))
_CHANGES = (("change", "prose"), ("gain", "prose"), ("cost", "prose"))


def _has_rows(section: Section) -> bool:
    return any(not isinstance(block, Table) or block.rows for block in section.blocks)


def _known(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = result["would_not_help"]
    return found


def _lines(lines: Sequence[str]) -> list[list[str]]:
    return [[line] for line in lines]


def _told(told: Sequence[Mapping[str, str]]) -> list[list[str]]:
    return [[one["says"]] for one in told]


def _facts(stands: Mapping[str, Any]) -> list[Fact]:
    facts = [
        Fact("the disk got", size(stands["written_bytes"]), f"in {span(stands['seconds'])}"),
        Fact("flash bytes for each", f"{stands['write_amplification']:.3g}", "simulated"),
    ]
    commits = stands["recorded_commits"]
    if commits is not None:
        facts.append(Fact("99 % of commits", span(commits["p99_seconds"]), "waited less for it"))
    years = stands["life_years"]
    if years is not None:
        said = "> 200" if years["value"] > 200 else f"{years['value']:.2g}"
        facts.append(Fact("years of life", said, stands["rate"]))
    return facts


def _row(one: Mapping[str, Any]) -> list[str]:
    more = f" ({one['beside']})" if one["beside"] else ""
    return [f"{one['what']}. {one['why']}", f"{one['gain_said']}{more}", one["cost"]]


def _what_to_change(result: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> Section:
    if not changes:
        said = "Nothing that was tried gains 3 % or more for this goal."
        return Section("What to change", [Table(said, (("", "prose"),), [[said]])])
    listed = [*changes[:ABOVE_THE_FOLD]]
    if result["combination"] is not None:
        listed.append(result["combination"])
    how = [
        [one["what"], "; ".join(one["do"]), "; ".join(one["undo"]), one["loss"]["says"]]
        for one in changes
    ]
    blocks: list[Figure | Table] = [
        _gains(listed, result["goal"]),
        Table("In order of gain", _CHANGES, [_row(one) for one in listed]),
        Table(
            "How, and how to undo it",
            (
                ("change", "prose"),
                ("do", "prose"),
                ("undo", "prose"),
                ("lost after a crash", "prose"),
            ),
            how,
        ),
    ]
    if changes[ABOVE_THE_FOLD:]:
        rows = [_row(one) for one in changes[ABOVE_THE_FOLD:]]
        blocks.append(Table("Gains less", _CHANGES, rows, folded=True))
    return Section("What to change", blocks, intro="Each by itself, simulated on this load.")


def _gains(listed: Sequence[Mapping[str, Any]], goal: str) -> Figure:
    names = ["all together" if one["action"] == "combination" else one["name"] for one in listed][
        ::-1
    ]
    gains = [one["gain"] for one in listed][::-1]
    values = [100 * gain["value"] for gain in gains]

    def error(end: str) -> list[float]:
        return [
            0.0 if gain[end] is None else abs(100 * (gain[end] - gain["value"])) for gain in gains
        ]

    bars = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": names,
        "marker": {"color": "@c0"},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": error("high"),
            "arrayminus": error("low"),
        },
    }
    layout = axes(title(f"gain, % ({goal})"), title("", automargin=True))
    return Figure(
        "gains",
        "What each change gains",
        "Bars are gains for the goal; the whiskers are 95 % intervals of the simulation.",
        [bars],
        layout,
        height_px=120 + 44 * len(names),
    )


def _other_drives(others: Sequence[Mapping[str, Any]]) -> Section:
    rows = []
    for one in others:
        years = one["life_years"]
        commits = one["figures"]["commits"]
        rows.append(
            [
                one["what"],
                one["gain_said"],
                "not known" if years is None else f"{min(years['value'], 999):.3g}",
                "–" if commits is None else span(commits["p99_seconds"]),  # noqa: RUF001
            ]
        )
    columns = (("drive", "left"), ("gain", "prose"), ("years", "right"), ("commit p99", "right"))
    return Section("Other drives", [Table("The same load on drives of other kinds", columns, rows)])
