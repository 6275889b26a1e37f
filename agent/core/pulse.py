"""What is said each second: hello until welcome has come, then heartbeats (A6, A10). At most one is on its way at a time."""

from jobyard.agent.core.held import Held
from jobyard.agent.core.incarnation import Life
from jobyard.agent.core.slots import Slots
from jobyard.contracts.reports import Heartbeat, Hello
from jobyard.contracts.rules import Rules


class Pulse:
    """Decides when the next one is due, and what the broker's acknowledgement of it means for the lease."""

    def __init__(self, kinds: dict[str, int], host: str, slots: Slots, rules: Rules) -> None:
        self._kinds = kinds
        self._host = host
        self._slots = slots
        self._rules = rules
        self._last = float("-inf")
        self._inventory_at = float("inf")
        self._on_its_way: tuple[str, float] | None = None
        self._unheard = 0

    def begin(self) -> None:
        """A new incarnation: hello is due now, whatever is on its way from the old one."""
        self._last = float("-inf")
        self._inventory_at = float("inf")
        self._on_its_way = None

    def welcomed(self, now: float) -> None:
        """Heartbeats from here on, the first at once; the first inventory after its interval."""
        self._last = float("-inf")
        self._inventory_at = now + self._rules.inventory_s

    def hasten(self) -> None:
        """What it says has changed: the next one is due now, whatever is on its way."""
        self._last = float("-inf")
        self._on_its_way = None

    def unheard(self, life: Life, now: float) -> bool:
        """Whether as many heartbeats as `lost_after` holds were said without a lease and without an answer. Then nobody leads, or it is not read: a
        consumer that stalls is silent. Counted, not timed: a clock that jumps is no silence."""
        if life.lease.holds(now):
            self._unheard = 0
            return False
        if self._unheard * self._rules.heartbeat_s < (life.lost_after_s or self._rules.lost_after_s):
            return False
        self._unheard = 0
        return True

    def due(self, now: float) -> bool:
        """Whether the next one is to be said."""
        return self._on_its_way is None and self._last + self._rules.heartbeat_s <= now

    def inventory_due(self, now: float) -> bool:
        """Whether the next heartbeat is to carry what is held."""
        return now >= self._inventory_at

    def hello(self, life: Life, now: float) -> Hello:
        """Say hello."""
        life.introduced = True
        self._sent(life, now)
        return Hello(stamp=now, kinds=self._kinds, capacity=self._slots.capacity, slots=self._slots.slots, host=self._host)

    def heartbeat(self, life: Life, now: float, epoch: int, suspended: bool, draining: bool, held: list[Held] | None) -> Heartbeat:
        """Say that this agent lives. `held`: for the inventory, or None."""
        self._sent(life, now)
        inventory = None
        if held is not None:
            self._inventory_at = now + self._rules.inventory_s
            since = now - self._rules.held_after_s
            inventory = [(one.fence, one.job.id) for one in held if one.unfinished and one.first_arrived < since]
        return Heartbeat(
            stamp=now,
            epoch=epoch,
            suspended=suspended,
            draining=draining,
            capacity=self._slots.capacity,
            slots=self._slots.slots,
            others=(self._slots.others, max(0.0, self._slots.others_size)),
            held=inventory,
        )

    def _sent(self, life: Life, now: float) -> None:
        self._unheard += 1
        self._last = now
        self._on_its_way = (life.id, now)

    def acknowledged(self, life: Life, said: Hello | Heartbeat, incarnation: str, now: float) -> None:
        """The broker has it. A heartbeat prolongs the lease, but only an unbroken one (A6)."""
        if self._on_its_way == (incarnation, said.stamp):
            self._on_its_way = None
        if isinstance(said, Heartbeat) and incarnation == life.id and life.lease.holds(now):
            life.lease.grant(said.stamp, life.lost_after_s, self._rules.lease_margin_s)

    def next_due(self) -> float | None:
        """When the next one is to be said; None: when the one on its way has arrived."""
        return None if self._on_its_way else self._last + self._rules.heartbeat_s
