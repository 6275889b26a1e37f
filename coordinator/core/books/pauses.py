"""What is paused: the lane, or kinds of it. Paused means: nothing is placed; what is placed goes on, and so does taking in (S15)."""

from jobyard.coordinator.core.questions import Modes


class Pauses:
    """As the Master DB said when it was last asked. `lane`: the whole lane is paused."""

    def __init__(self, modes: Modes) -> None:
        self.lane = modes.paused
        self._kinds = modes.paused_kinds

    def kind(self, kind: str) -> bool:
        """Whether jobs of this kind are paused; the lane may be as well."""
        return kind in self._kinds

    def told(self, modes: Modes) -> bool:
        """The Master DB was asked again; whether anything is paused, or goes on, that was not before: what pauses keeps no agent any more (S7)."""
        changed = (self.lane, self._kinds) != (modes.paused, modes.paused_kinds)
        self.lane, self._kinds = modes.paused, modes.paused_kinds
        return changed

    def picture(self) -> tuple[bool, list[str]]:
        """All, for comparing."""
        return self.lane, sorted(self._kinds)
