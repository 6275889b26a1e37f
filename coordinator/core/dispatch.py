"""What is said to agents, looked up as it leaves (L5): bundles as they are after the last commit, and control messages."""

from dataclasses import dataclass
from typing import Literal

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.codec import VERSION
from jobyard.contracts.control import Cancel, Confirm, ControlMessage, Drain, Fenced, Resume, Welcome
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.drains import Drains
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.events import AgentJoined, CancelSent, Confirmed, DrainSent, Event, FencedOff, Placed, Resent, Welcomed
from jobyard.coordinator.core.places import Bundle

_SHARE = 8
"""`open` goes along at the latest when the messages since the last one are an eighth of the list: so memory at the agent is bounded (A5, I8)."""


@dataclass(slots=True)
class Outgoing:
    """One message. `where`: the lane's buckets or control topic. `key`: None = none."""

    where: Literal["buckets", "control"]
    partition: int
    key: bytes | None
    body: BundleMessage | ControlMessage


class Dispatch:
    """Makes messages of events. Asked only between a commit and the next tick's hear."""

    def __init__(self, epoch: int, bundles: Bundles, fleet: Fleet, drains: Drains) -> None:
        self._epoch = epoch
        self._bundles = bundles
        self._fleet = fleet
        self._drains = drains
        self._since: dict[int, tuple[str, int]] = {}

    def message(self, event: Event) -> Outgoing | None:
        """The message of an event; None: it has none, or what it was about is closed by now."""
        if isinstance(event, Placed):
            return self._bundle(event.bundle.fence)
        if isinstance(event, Resent):
            return self._bundle(event.fence)
        if isinstance(event, AgentJoined | Welcomed):
            return self._welcome(event.incarnation)
        if isinstance(event, Confirmed):
            agent = self._fleet.current(event.incarnation)
            if agent is None:
                return None
            return _control(Confirm(v=VERSION, epoch=self._epoch, agent=agent.name, incarnation=agent.incarnation, stamp=event.stamp))
        if isinstance(event, FencedOff):
            return _control(Fenced(v=VERSION, epoch=self._epoch, agent=event.name, incarnation=event.incarnation, reason=event.reason))
        if isinstance(event, CancelSent):
            return _control(
                Cancel(
                    v=VERSION,
                    epoch=self._epoch,
                    agent=event.name,
                    incarnation=event.incarnation,
                    fence=event.fence,
                    bucket=event.bucket,
                    job=event.job_id,
                    reason=event.reason,
                )
            )
        if isinstance(event, DrainSent):
            agent = self._fleet.current(event.incarnation)
            if agent is None:
                return None
            if event.drain:
                return _control(Drain(v=VERSION, epoch=self._epoch, agent=agent.name, incarnation=agent.incarnation, stop=event.stop))
            return _control(Resume(v=VERSION, epoch=self._epoch, agent=agent.name, incarnation=agent.incarnation))
        return None

    def _welcome(self, incarnation: str) -> Outgoing | None:
        agent = self._fleet.current(incarnation)
        if agent is None or not agent.buckets:
            return None
        return _control(
            Welcome(
                v=VERSION,
                epoch=self._epoch,
                agent=agent.name,
                incarnation=incarnation,
                stamp=agent.stamp,
                buckets=agent.buckets,
                lost_after_s=agent.lost_after_s,
                draining=self._drains.drained(agent.name),
            )
        )

    def _bundle(self, fence: int) -> Outgoing | None:
        bundle = self._bundles.get(fence)
        if bundle is None:
            return None
        agent = self._fleet.holder(bundle.incarnation)
        if agent is None:
            return None
        if bundle.ended:
            left = [index for index in range(len(bundle.jobs)) if index not in bundle.ended]
            jobs = [bundle.jobs[index] for index in left]
            attempts = [bundle.attempts[index] for index in left]
            used = [bundle.used[index] for index in left]
            careful = [bundle.careful[index] for index in left]
        else:
            jobs, attempts, used, careful = bundle.jobs, bundle.attempts, bundle.used, bundle.careful
        body = BundleMessage(
            v=VERSION,
            epoch=self._epoch,
            fence=fence,
            agent=agent.name,
            incarnation=bundle.incarnation,
            bucket=bundle.bucket,
            jobs=jobs,
            attempts=attempts,
            used=used,
            careful=careful if True in careful else [],
            cancel=[bundle.jobs[index].id for index in sorted(bundle.cancels)],
            open=self._open(bundle),
            as_of=self._bundles.fence,
        )
        return Outgoing("buckets", bundle.bucket, None, body)

    def _open(self, bundle: Bundle) -> list[int] | None:
        """All open fences of this incarnation in the bucket, when it is time to say so."""
        incarnation, since = self._since.get(bundle.bucket, ("", 0))
        if incarnation == bundle.incarnation and (since + 1) * _SHARE < self._bundles.open_count(bundle.bucket):
            self._since[bundle.bucket] = (incarnation, since + 1)
            return None
        self._since[bundle.bucket] = (bundle.incarnation, 0)
        return self._bundles.open_fences(bundle.bucket, bundle.incarnation)


def _control(body: ControlMessage) -> Outgoing:
    return Outgoing("control", 0, None, body)
