"""How much an agent remembers (I8): no more bundles than the last `open` of each bucket listed, and those read since."""

from jobyard.contracts.bundle import BundleMessage
from jobyard.coordinator.simulation.violation import Violation
from jobyard.coordinator.simulation.worker import Worker


class Remembered:
    """`most`: the most bundles that any agent remembered."""

    def __init__(self) -> None:
        self._listed: dict[tuple[int, str], dict[int, int]] = {}
        self.checked = 0
        self.most = 0

    def saw(self, worker: Worker, bundles: list[BundleMessage]) -> None:
        """What a turn has read; the core has heard of all before it."""
        life = worker.core.life
        held = len(worker.core.fences)
        listed = self._listed.setdefault((worker.process, life.id), {})
        allowed = sum(listed.values())
        self.checked += 1
        self.most = max(self.most, held)
        if held > allowed:
            raise Violation("I8", f"agent {worker.name} remembers {held} bundles; {allowed} were listed or read since")
        for bundle in bundles:
            if bundle.incarnation != life.id or bundle.epoch < worker.core.epoch:
                continue
            if bundle.open is not None:
                listed[bundle.bucket] = len({*bundle.open, bundle.fence})
            else:
                listed[bundle.bucket] = listed.get(bundle.bucket, 0) + 1

    def over(self, worker: Worker) -> None:
        """A process is gone."""
        self._listed = {key: listed for key, listed in self._listed.items() if key[0] != worker.process}
