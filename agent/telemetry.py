"""Log lines of what the core decided. A job that went well costs none."""

import logging
from collections.abc import Iterable
from typing import Final

from jobyard.agent.core.actions import Action, Assign, Leave, Note, Say, Stop
from jobyard.contracts.reports import Finished, Released
from jobyard.contracts.states import Outcome
from jobyard.process.seldom import safely

_log: Final = logging.getLogger("jobyard.agent")
_QUIET: Final = frozenset({Outcome.SUCCEEDED, Outcome.SNOOZED})
_LEVELS: Final = {"suspended": logging.WARNING, "fenced": logging.WARNING}


class Telemetry:
    """`agent`: the name that each line carries."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def saw(self, actions: Iterable[Action]) -> None:
        """The actions of one turn."""
        for action in actions:
            if isinstance(action, Say):
                self._said(action)
            elif isinstance(action, Stop):
                job = action.held.job
                self._line(logging.INFO, "job asked to stop", {"job_id": job.id, "kind": job.kind, "why": action.why})
            elif isinstance(action, Note):
                self._line(_LEVELS.get(action.event, logging.INFO), action.event, action.facts)
            elif isinstance(action, Assign):
                self._line(logging.INFO, "buckets", {"partitions": [bucket.partition for bucket in action.buckets]})
            elif isinstance(action, Leave):
                self._line(logging.INFO if action.code == 0 else logging.ERROR, "left", {"code": action.code, "reason": action.reason})

    def _said(self, say: Say) -> None:
        report = say.report
        if isinstance(report, Finished):
            for end in report.ends:
                if end.outcome not in _QUIET:
                    error = end.error
                    facts: dict[str, object] = {"job_id": end.job, "attempt": end.attempt, "outcome": end.outcome.value}
                    if error is not None:
                        facts |= {"error_type": error.type, "error_message": error.message}
                    self._line(logging.WARNING, "attempt ended", facts)
        elif isinstance(report, Released):
            self._line(logging.INFO, "released", {"jobs": len(report.jobs), "fence": report.fence, "reason": report.reason})

    def _line(self, level: int, event: str, facts: dict[str, object]) -> None:
        if _log.isEnabledFor(level):
            told = " ".join(f"{name}={value}" for name, value in facts.items())
            safely(_log, level, f"{event} {told}".rstrip(), {"event": event, "agent": self._agent, "facts": facts})
