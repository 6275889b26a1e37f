"""`python -m jobyard.coordinator.simulation`: a lane at its full size; with --seeds many small worlds full of faults; with --seed or --case one of those."""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import msgspec

from jobyard.contracts.priority import NAMES
from jobyard.contracts.rules import RULES
from jobyard.coordinator.simulation import kept, load, stress
from jobyard.coordinator.simulation.case import Case
from jobyard.coordinator.simulation.load import Figures, Load
from jobyard.coordinator.simulation.series import Series
from jobyard.coordinator.simulation.shrinking import shrunk
from jobyard.coordinator.simulation.stress import Outcome

_GARBAGE = (50_000, 50, 100)
"""A simulation makes hardly any cycles."""


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 if every invariant held."""
    gc.set_threshold(*_GARBAGE)
    chosen = _parser().parse_args(arguments)
    if chosen.case:
        return _one(Case.parsed(chosen.case), chosen.keep)
    if chosen.seeds:
        return _many(range(chosen.seed, chosen.seed + chosen.seeds), chosen.steps, chosen.keep)
    if chosen.seed:
        return _one(Case.drawn(chosen.seed), chosen.keep)
    return _load(Load(agents=chosen.agents, jobs=chosen.jobs, deaths=chosen.deaths, leaders=chosen.leaders), chosen.series)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jobyard.coordinator.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="one small world full of faults; with --seeds: the first of them")
    parser.add_argument("--seeds", type=int, default=0, help="so many small worlds, one after the other")
    parser.add_argument("--steps", type=int, default=0, help="with --seeds: end after so many steps in all")
    parser.add_argument("--case", default="", help="one case as it was printed")
    parser.add_argument("--keep", type=Path, help="a file that gets the cases that break something, made small")
    parser.add_argument("--agents", type=int, default=1_000, help="of the lane at its full size")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--deaths", type=int, default=10, help="agents that die; as many join later")
    parser.add_argument("--leaders", type=int, default=1, help="coordinators that die")
    parser.add_argument("--series", type=Path, help="a file that gets what waited and ran, second by second, as JSON")
    return parser


def _one(case: Case, keep: Path | None) -> int:
    outcome = stress.run(case)
    _say(f"{case.text}\n{outcome.steps:,} steps, {outcome.seconds:.1f} simulated seconds, trace {outcome.trace:08x}")
    for at, what in outcome.log:
        _say(f"{at:9.3f} s  {what}")
    return _judge(outcome, keep)


def _many(seeds: range, most: int, keep: Path | None) -> int:
    began = perf_counter()
    steps = checks = starts = twice = takeovers = worlds = broken = 0
    faults: Counter[str] = Counter()
    seconds = 0.0
    with suppress(KeyboardInterrupt):  # what was done until then is told
        for seed in seeds:
            outcome = stress.run(Case.drawn(seed))
            worlds += 1
            steps += outcome.steps
            checks += outcome.checks
            starts += outcome.starts
            twice += outcome.twice
            takeovers += outcome.takeovers
            seconds += outcome.seconds
            faults += outcome.faults
            broken += bool(_judge(outcome, keep, quietly=True))
            if worlds % 500 == 0:
                _say(f"{worlds} worlds, {steps:,} steps, {broken} broken, {perf_counter() - began:.0f} s")
            if most and steps >= most:
                break
    took = perf_counter() - began
    _say(f"worlds               {worlds:,} (seeds from {seeds[0]} on), {seconds:,.0f} simulated seconds")
    _say(f"steps                {steps:,} in {took:.0f} s ({took / max(steps, 1) * 1e6:.0f} µs each)")
    _say(f"invariants checked   {checks:,} times, and all jobs of a world every 2,000 steps")
    _say(f"handlers called      {starts:,}, of these {twice} over an earlier execution that was given up (promise 4)")
    _say(f"take-overs           {takeovers:,}")
    _say(f"faults               {sum(faults.values()):,}")
    for kind, count in sorted(faults.items()):
        _say(f"  {kind:<28}{count:>9,}")
    _say(f"broken               {broken}")
    return 1 if broken else 0


def _judge(outcome: Outcome, keep: Path | None, *, quietly: bool = False) -> int:
    if outcome.rule is None:
        if not quietly:
            _say(f"all invariants held: {outcome.checks:,} checks")
        return 0
    case = outcome.case
    _say(f"BROKEN {outcome.rule}: {outcome.what}")
    _say(f"  again: python -m jobyard.coordinator.simulation --case '{case.text}'")
    smaller = shrunk(case, outcome.planned, lambda other: stress.run(other).rule == outcome.rule)
    again = stress.run(smaller)
    _say(f"  small: python -m jobyard.coordinator.simulation --case '{smaller.text}'   ({again.steps} steps)")
    _say(f"         {again.rule}: {again.what}")
    if keep is not None and kept.keep(keep, smaller, outcome.rule, again.what):
        _say(f"  kept in {keep}")
    return 1


def _load(wanted: Load, file: Path | None) -> int:
    series = Series(f"{wanted.agents:,} agents, {wanted.jobs:,} jobs", 1.0) if file is not None else None
    figures = load.run(wanted, RULES, series, _say)
    if file is not None and series is not None:
        file.write_bytes(msgspec.json.encode(series.story))
    _tell(figures)
    return 1 if figures.broken else 0


def _tell(figures: Figures) -> None:
    wanted, parts = figures.load, figures.parts_s
    _say(f"{wanted.agents:,} agents with {wanted.slots} slots, {wanted.jobs:,} jobs at {wanted.rate:,.0f} a second")
    _say(
        f"steps                {figures.steps:,} in {figures.took_s:.0f} s, {figures.virtual_s:.1f} simulated seconds, {figures.ticks:,} ticks"
    )
    _say(f"faults               {', '.join(f'{count} × {kind}' for kind, count in sorted(figures.faults.items()))}")
    _say(f"invariants checked   {figures.checks:,} times")
    _say(
        f"placed               {figures.placed:,} jobs in {figures.bundles:,} bundles, {figures.alone:,} of one job, "
        f"the largest of {figures.most}; {figures.starts:,} handlers called"
    )
    _say(f"  by rule            {', '.join(f'{rule} {count:,}' for rule, count in sorted(figures.rules.items()))}")
    _say(
        f"core                 {figures.per_second:,.0f} placements a second of processor time "
        f"({parts['hear']:.1f} s hearing, {parts['decide']:.1f} s deciding)"
    )
    _say(f"utilisation          {figures.utilisation:.1%} of the slots of agents that run all kinds, while jobs came")
    _say("wait, due to placed  median      99 %")
    for priority, name in enumerate(NAMES):
        half, most = figures.waits.of(priority, 0.5), figures.waits.of(priority, 0.99)
        if half is not None and most is not None:
            _say(f"  {name:<18}{half:>7.3f} s {most:>8.3f} s")
    _say(f"broken               {figures.broken or 'nothing'}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
