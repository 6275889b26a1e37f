"""When agents were disturbed, so that attempts may be lost then, and at no other time."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from promises.guarantees import Evidence

from chaos.plan import LOST_AFTER_S

SLACK_S: Final = 15.0
"""How much later than a disturbance and the time that an agent may be silent it may be noticed that an attempt is lost, on a machine under load."""


@dataclass(frozen=True)
class Disturbance:
    """From when to when an agent (empty: any) was disturbed so that its attempts may be lost."""

    agent: str
    begins: datetime
    ends: datetime


@dataclass
class Disturbances:
    """All of a run."""

    seen: list[Disturbance] = field(default_factory=list[Disturbance])

    def note(self, agent: str, lasts_s: float) -> None:
        """One that begins now. `agent`: empty: of any."""
        now = datetime.now(UTC)
        self.seen.append(Disturbance(agent, now, now + timedelta(seconds=lasts_s)))


@dataclass(frozen=True)
class LostOnlyWhile:
    """An attempt is lost only while its agent is disturbed, or so much later as it takes to notice."""

    disturbances: Collection[Disturbance]

    def broken(self, evidence: Evidence) -> Iterable[str]:
        noticed = timedelta(seconds=LOST_AFTER_S + SLACK_S)
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "lost" and not any(
                    one.agent in (row["agent"], "") and one.begins <= row["finished_at"] <= one.ends + noticed for one in self.disturbances
                ):
                    yield f"attempt {row['attempt']} of job {job} was lost at {row['finished_at']} with agent {row['agent']}, undisturbed then"
