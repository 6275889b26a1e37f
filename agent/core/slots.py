"""How much may run at once: slots (jobs) and capacity (size units)."""


class Slots:
    """What is taken counts until its code has really stopped, whatever incarnation it belongs to.

    `others`, `others_size`: the part that runs from earlier incarnations.
    """

    def __init__(self, slots: int, capacity: float) -> None:
        self.slots = slots
        self.capacity = capacity
        self.jobs = 0
        self.size = 0.0
        self.others = 0
        self.others_size = 0.0
        # sums of fractions such as 0.1 end a little above what was meant
        self._full = capacity * (1 + 1e-9)

    def fits(self, size: float) -> bool:
        """Whether a job of this size may start now. On an empty agent any may, alone if it is larger than the capacity."""
        return self.jobs < self.slots and (self.size + size <= self._full or self.jobs == 0)

    def take(self, size: float) -> None:
        """A job has its slot."""
        self.jobs += 1
        self.size += size

    def give(self, size: float, other: bool = False) -> None:
        """A slot is free again. `other`: of an earlier incarnation."""
        self.jobs -= 1
        self.size = self.size - size if self.jobs else 0.0
        if other:
            self.others -= 1
            self.others_size = self.others_size - size if self.others else 0.0

    def disown(self, size: float) -> None:
        """What was taken now belongs to an earlier incarnation (A12)."""
        self.others += 1
        self.others_size += size
