"""Which executor runs what: coroutines on the loop, plain functions in threads; with middleware around them, all begin on the loop."""

from collections.abc import Mapping, Sequence

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.agent.executors.attempt import Surroundings, unfit
from jobyard.agent.executors.executor import Executor
from jobyard.agent.executors.tasks import Tasks
from jobyard.agent.executors.threads import Threads
from jobyard.api.handler import HandlerSpec


class Dispatch:
    """All executors of one agent as one."""

    def __init__(self, specs: Mapping[str, HandlerSpec], around: Surroundings, slots: int) -> None:
        self._specs = specs
        self._around = around
        self._threads = Threads(specs, around, slots)
        self.tasks = Tasks(specs, around, self._threads.call)
        self._of: dict[str, Executor] = {
            kind: self.tasks if spec.is_async or around.middlewares else self._threads for kind, spec in specs.items()
        }

    def start(self, held: Sequence[Held]) -> None:
        """Each to its own; what no handler here can run ends as failed."""
        batches: dict[Executor, list[Held]] = {}
        for one in held:
            spec = self._specs.get(one.job.kind)
            if spec is None or spec.version < one.job.version:
                self._around.facts.ended([(one, unfit(one, spec, self._around.clock.wall()))])
                continue
            executor = self._of[one.job.kind]
            batch = batches.get(executor)
            if batch is None:
                batches[executor] = [one]
            else:
                batch.append(one)
        for executor, batch in batches.items():
            executor.start(batch)

    def stop(self, held: Held, why: Why) -> None:
        """Told to the one that runs it."""
        executor = self._of.get(held.job.kind)
        if executor is not None:
            executor.stop(held, why)

    def close(self) -> None:
        """Ends all."""
        self._threads.close()
        self.tasks.close()
