"""A leadership's inbox that never makes its caller wait: who takes comes at the right time, who puts asks first whether there is room."""

from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.inbox import Inbox

_ENDLESS = 10**12


class Mailbox(Inbox):
    """`most`: the weight from which on the real one makes the reader wait."""

    def __init__(self, most: int) -> None:
        super().__init__(_ENDLESS)
        self._full = most

    def take(self, most: int, wait_s: float, *, messages: int | None = None) -> tuple[Batch, bool]:
        return super().take(most, 0.0, messages=messages)

    @property
    def room(self) -> int:
        """How many messages more may be put, about."""
        return 500 if self._weight < self._full else 0

    @property
    def stirring(self) -> bool:
        """Whether something in it wakes a tick."""
        return self._urgent or self._woken or self._failure is not None
