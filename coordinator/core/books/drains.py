"""Which agents are to be drained, by name: a drain outlives an incarnation that is lost, and the leader that was told of it."""

from jobyard.coordinator.core.questions import Modes


class Drains:
    """As the Master DB said when it was last asked, less those that have said goodbye since."""

    def __init__(self, modes: Modes) -> None:
        self._names = dict(modes.drained)

    def drained(self, name: str) -> bool:
        """Whether the agent of this name gets nothing new."""
        return name in self._names

    def stops(self, name: str) -> bool:
        """Whether it is to end when it holds nothing any more."""
        return self._names.get(name, False)

    def told(self, modes: Modes) -> list[str]:
        """The Master DB was asked again; the names for which anything has changed."""
        before, self._names = self._names, dict(modes.drained)
        return sorted(name for name in before.keys() | self._names.keys() if before.get(name) != self._names.get(name))

    def ended(self, name: str) -> bool:
        """It has left in order, so its drain is over; whether there was one."""
        return self._names.pop(name, None) is not None

    def picture(self) -> dict[str, bool]:
        """All, for comparing."""
        return dict(sorted(self._names.items()))
