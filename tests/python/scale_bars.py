"""Measures how far sketches and samples are from all: `python tests/python/scale_bars.py FOLDER`.

Of issue 44 bar 4: sketches against exact on a fleet that fits: distinct pages within 2 %, quantiles
within 1 %. Bar 5: sampling at 1/8 and 1/64: write amplification within 3 % and 8 % of the whole.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flashwright import _core, sources
from flashwright.engine.where import Where
from flashwright.fleet.counting import PASSES
from flashwright.fleet.stores import open_fleet
from flashwright.fleet.studying import study
from flashwright.jobs import generic
from flashwright.sources import Reading

FLEET = {"volumes": 60, "requests": "3M", "days": 7, "largest": "8Gi", "seed": 3}
SYNTHETIC = {
    "zipf": "synth:zipf(s=0.99,pages=4Mi,updates=6x)",
    "mixed": "synth:mixed(pages=4Mi,updates=6x)",
}
POLICIES = (("none", "greedy"), ("dac", None), ("sepbit", None), ("hazard", None))
OVER_PROVISIONINGS = (0.1, 0.2, 0.3)
SHARES = (8, 64)
SPREADS = ("read_sizes", "write_sizes", "gaps", "lifetimes", "rewrite_distances")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fleet(folder: Path) -> Path:
    """Make the fleet and its store, unless they are there."""
    store = folder / "store"
    if not (store / "fleet.json").exists():
        trace = str(folder / "fleet.csv.zst")
        generic.run("fleet_synth", {"out": trace, **FLEET})
        generic.run("trace_split", {"sources": [trace], "out": str(store)})
    return store


def sketches(store: Path) -> list[int]:
    """Print how far sketches are from all values; give the volumes of most pages written."""
    run, _ = study(open_fleet(store), 4096, Where(store=str(store.parent / "kept")), exact=True)
    result = run.result
    for kind in ("written_pages", "read_pages"):
        counted = result[f"counted_{kind}"]
        error = result[kind] / counted - 1
        say(f"{kind}: {result[kind]:,} of a merged sketch, {counted:,} counted: {error:+.2%}")
    for kind in SPREADS:
        found = result[kind]
        pairs = zip(found["quantiles"], found["exact_quantiles"], strict=True)
        worst = max(abs(one / other - 1) if other else float(one > 0) for one, other in pairs)
        say(f"{kind}: {found['count']:,} values, worst of ten quantiles off by {worst:.3%}")
    rows = sorted(run.tables["volumes"].to_pylist(), key=lambda row: -row["written_pages"])
    return [row["volume"] for row in rows[:3]]


def whole_and_samples(name: str, source: str) -> None:
    """Print how far the write amplification of samples is from the whole's."""
    whole: dict[tuple[str, float], float] = {}
    for share in (1, *SHARES):
        once = sources.load(source, Reading(sample=share))
        times = max(1, -(-PASSES * once.logical_pages // once.page_writes))
        workload = once.repeated(times)
        errors = []
        for placement, victim in POLICIES:
            for spare in OVER_PROVISIONINGS:
                found = amplification(workload, placement, victim, spare)
                if share == 1:
                    whole[placement, spare] = found
                errors.append((found / whole[placement, spare] - 1, placement, spare))
        if share > 1:
            worst = max(errors, key=lambda one: abs(one[0]))
            greedy = max((one[0] for one in errors if one[1] == "none"), key=abs)
            mean = sum(abs(one[0]) for one in errors) / len(errors)
            say(
                f"{name}, {once.whole_pages:,} pages, 1/{share} (1/{once.one_in} taken): greedy "
                f"{greedy:+.1%} at worst, all policies {mean:.1%} in the mean, {worst[0]:+.1%} at "
                f"worst ({worst[1]} at {worst[2]:.0%})"
            )


def amplification(workload: Any, placement: str, victim: str | None, spare: float) -> float:
    """Simulate, and give the write amplification."""
    found = _core.simulate(workload, placement, victim=victim, over_provisioning=spare)
    return float(found["write_amplification"])


def main() -> None:
    """Measure all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    store = fleet(folder)
    largest = sketches(store)
    for name, spec in SYNTHETIC.items():
        path = folder / f"{name}.parquet"
        if not path.exists():
            _core.write_synthetic(spec.removeprefix(sources.SYNTHETIC), path, None, 4096, 1, None)
        whole_and_samples(name, str(path))
    found = open_fleet(store)
    for volume in largest:
        whole_and_samples(f"volume {volume}", found.folder(volume))


if __name__ == "__main__":
    main()
