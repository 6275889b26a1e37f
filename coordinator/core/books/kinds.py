"""What the leader knows of kinds: the defaults of their jobs, as last synced."""

from collections.abc import Mapping

from jobyard.contracts.job import Kind


class Kinds:
    """Kinds by name. One that is not here is looked up in the Master DB before its job is resolved."""

    def __init__(self, known: Mapping[str, Kind]) -> None:
        self._known = dict(known)

    def get(self, name: str) -> Kind | None:
        """The kind's defaults; None: not met yet."""
        return self._known.get(name)

    def met(self, kinds: Mapping[str, Kind]) -> None:
        """These were looked up: new ones, or all after a sync."""
        self._known.update(kinds)

    def picture(self) -> dict[str, Kind]:
        """All, for comparing."""
        return dict(sorted(self._known.items()))
