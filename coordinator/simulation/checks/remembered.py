"""How much an agent remembers (I8): no more bundles than the last `open` of each bucket listed, those of which it tells nothing, and those read since."""

from jobyard.contracts.bundle import BundleMessage
from jobyard.coordinator.simulation.violation import Violation
from jobyard.coordinator.simulation.worker import Worker


class Remembered:
    """`most`: the most bundles that any agent remembered."""

    def __init__(self) -> None:
        self._listed: dict[tuple[int, str], dict[int, set[int]]] = {}
        self.checked = 0
        self.most = 0

    def saw(self, worker: Worker, bundles: list[BundleMessage]) -> None:
        """What a turn has read; the core has heard of all before it."""
        life = worker.core.life
        held = len(worker.core.fences)
        listed = self._listed.setdefault((worker.process, life.id), {})
        allowed = sum(map(len, listed.values()))
        self.checked += 1
        self.most = max(self.most, held)
        if held > allowed:
            raise Violation("I8", f"agent {worker.name} remembers {held} bundles; {allowed} were listed or read since")
        for bundle in bundles:
            if bundle.incarnation != life.id or bundle.epoch < worker.core.epoch:
                continue
            before = listed.get(bundle.bucket, set[int]())
            if bundle.open is not None:
                before = {*bundle.open} | {fence for fence in before if bundle.as_of is not None and fence > bundle.as_of}
            listed[bundle.bucket] = before | {bundle.fence}

    def over(self, worker: Worker) -> None:
        """A process is gone."""
        self._listed = {key: listed for key, listed in self._listed.items() if key[0] != worker.process}
