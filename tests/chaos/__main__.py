"""Chaos: the workload goes on while processes, services and networks break at random; in the end every guarantee must hold.

    python -m chaos --minutes 10 [--seed N] [--rate JOBS_PER_SECOND]

The seed is printed: it repeats the same faults at the same moments. Exit status 0: nothing was lost, and nothing ran twice but as promised.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from faults.network import Network
from promises.guarantees import check
from worlds.world import World

from chaos.breaker import Breaker
from chaos.disturbances import Disturbances, LostOnlyWhile
from chaos.figures import told
from chaos.lives import Lives
from chaos.load import Load
from chaos.plan import CLIENT, LOST_AFTER_S, plan
from chaos.timetable import Timetable
from jobyard import migrations
from jobyard.embedded.services import Services

COORDINATORS: Final = ("first", "second")
AGENTS: Final = ("anna", "bert", "cleo", "dora")
RECOVERS_WITHIN_S: Final = 300.0
"""Once all faults are over."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=float, default=40.0, help="jobs a second")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    sys.stdout.write(f"seed {seed}\n")
    folder = Path(tempfile.mkdtemp(prefix="jobyard-chaos-"))
    try:
        failed = _run(folder, seed, given.minutes * 60, given.rate)
    except BaseException:
        sys.stdout.write(f"logs are in {folder}; to repeat: make chaos MINUTES={given.minutes:g} SEED={seed}\n")
        raise
    if failed:
        sys.stdout.write(f"logs are in {folder}; to repeat: make chaos MINUTES={given.minutes:g} SEED={seed}\n")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write("every guarantee holds\n")
    return 0


def _run(folder: Path, seed: int, length_s: float, rate: float) -> bool:
    """Whether anything was broken; told on standard output."""
    with (
        Network((*COORDINATORS, CLIENT), AGENTS) as network,
        Services(folder / "services", fast=True, listeners=network.listeners) as services,
    ):
        network.reach_postgres(services.database_url)
        migrations.upgrade(services.database_url)
        around = network.around(services.database_url)
        with World(folder, services.addresses, "chaos", lost_after_s=LOST_AFTER_S, around=around, shows_logs=False) as world:
            return _break(seed, length_s, rate, services, network, world)


def _break(seed: int, length_s: float, rate: float, services: Services, network: Network, world: World) -> bool:
    timetable, disturbances = Timetable(), Disturbances()
    lives = Lives(world, timetable, disturbances, COORDINATORS, AGENTS)
    breaker = Breaker(world, services, network, lives, timetable, disturbances)
    load = Load(world, seed, rate)
    breaker.run(plan(seed, length_s, COORDINATORS, AGENTS), length_s)
    breaker.recover()
    load.stop()
    problems = lives.problems + ([f"submitting failed: {load.error!r}"] if load.error is not None else [])
    try:
        world.until_all_ended(RECOVERS_WITHIN_S)
    except AssertionError as error:
        problems.append(str(error))
    evidence = world.evidence()
    sys.stdout.write(told(evidence, breaker.done, load.again, timetable.now) + "\n")
    try:
        check(evidence, LostOnlyWhile(disturbances.seen))
    except AssertionError as error:
        problems.append(str(error))
    for problem in problems:
        sys.stdout.write(problem + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
