"""`python -m jobyard.coordinator.simulation`: many small worlds full of faults, or one large one; what was checked, and how fast the core was."""

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import replace

from jobyard.contracts.priority import NAMES
from jobyard.coordinator.simulation import plan as plans
from jobyard.coordinator.simulation.checks import Broken
from jobyard.coordinator.simulation.plan import Plan
from jobyard.coordinator.simulation.world import World


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def main(arguments: list[str] | None = None) -> int:
    """1 if an invariant is broken: then the seed is printed, and the smallest plan that was found to break it, too."""
    options = argparse.ArgumentParser(prog="python -m jobyard.coordinator.simulation", description=__doc__)
    options.add_argument("--seed", type=int, default=None, help="the first seed; default: by chance")
    options.add_argument("--seeds", type=int, default=100, help="so many small worlds")
    options.add_argument("--large", action="store_true", help="one large world instead of many small ones")
    options.add_argument("--agents", type=int, default=1_000)
    options.add_argument("--jobs", type=int, default=1_000_000)
    given = options.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    if given.large:
        return _large(seed, given.jobs, given.agents)
    return _many(seed, given.seeds)


def _many(first: int, seeds: int) -> int:
    began = time.perf_counter()
    total: Counter[str] = Counter()
    broken = 0
    for seed in range(first, first + seeds):
        world = World(plans.small(seed))
        try:
            world.run()
        except Broken as error:
            broken += 1
            say(f"seed {seed}: {error}")
            smaller = shrunk(world.plan)
            say(f"  it needs {len(smaller.jobs)} jobs and these faults: {[*smaller.faults]}")
        total += world.checks.count
        total.update(steps=world.steps, faults=world.faults, executions_beside_a_lost_one=world.checks.doubled)
    took = time.perf_counter() - began
    say(
        f"seeds {first} to {first + seeds - 1}: {broken} broken; " + ", ".join(f"{name} {count:,}" for name, count in sorted(total.items()))
    )
    say(f"{took:.1f} s, {total['steps'] / took:,.0f} steps a second")
    return 1 if broken else 0


def _large(seed: int, jobs: int, agents: int) -> int:
    world = World(plans.large(seed, jobs, agents), laws=False)
    began = time.perf_counter()
    try:
        world.run()
    except Broken as error:
        say(f"seed {seed}: {error}")
        return 1
    took = time.perf_counter() - began
    checks = world.checks
    say(
        f"seed {seed}: {jobs:,} jobs on {agents:,} agents, {world.length_s:.1f} s simulated in {took:.1f} s; {world.steps:,} steps, {world.faults} faults"
    )
    say(f"checked: {', '.join(f'{name} {count:,}' for name, count in sorted(checks.count.items()))}")
    each = world.core_s / checks.placed * 1e6
    say(
        f"core: {checks.placed / world.core_s:,.0f} placements a second ({each:.1f} µs each), {checks.placed / checks.bundles:.1f} a bundle"
    )
    for priority, waits in sorted(checks.waits.items()):
        waits.sort()
        median, p99 = waits[len(waits) // 2] * 1000, waits[len(waits) * 99 // 100] * 1000
        say(f"  {NAMES[priority]:<9} waits: median {median:,.1f} ms, p99 {p99:,.1f} ms, most {waits[-1]:,.2f} s")
    busy = sum(node.busy_s for node in world.nodes)
    slots = sum(agent.slots for agent in world.plan.agents)
    say(f"  utilisation {busy / (slots * world.length_s):.0%} of all slots over the whole time")
    return 0


def shrunk(plan: Plan) -> Plan:
    """A smaller plan that breaks, too: without each fault, and without half of the jobs, as long as something is still broken."""
    smaller = plan
    for fault in plan.faults:
        tried = replace(smaller, faults=tuple(one for one in smaller.faults if one is not fault))
        if _breaks(tried):
            smaller = tried
    step = len(smaller.jobs) // 2
    while step:
        for start in range(0, len(smaller.jobs), step):
            tried = replace(smaller, jobs=smaller.jobs[:start] + smaller.jobs[start + step :])
            if len(tried.jobs) < len(smaller.jobs) and _breaks(tried):
                smaller = tried
                break
        else:
            step //= 2
    return smaller


def _breaks(plan: Plan) -> bool:
    try:
        World(plan).run()
    except Broken:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
