"""Every number that the protocol and the scheduling go by: its default, its unit, its reason. Settings may change them; nobody else does."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The numbers of one lane's leader. Times in seconds, sizes in bytes."""

    lease_s: float = 4.0
    """The leader's lease on the database's clock. Renewed by each tick, and at least every `renew_s`."""
    takeover_s: float = 15.0
    """The first lease of a leadership, until its opening tick renews it: loading a large lane takes longer than a tick. Only a leader that dies inside its
    take-over leaves the lane without one for that long."""
    trust_s: float = 3.0
    """How long a leader trusts a renewal, from before it was sent: shorter than the lease, so that a slow commit cannot stretch it."""
    renew_s: float = 1.0
    """A lease is renewed at least this often, also when nothing is to be written."""
    elect_s: float = 0.5
    """How often the others look at a lease: a dead leader's lane is led again within 5 s."""
    alive_s: float = 2.5
    """How long a coordinator's word that it is alive holds, on the database's clock; it says so every `elect_s`. Shorter than what is left of a dead
    leader's lease: a lane that is free is not left to one that is dead."""
    settled_s: float = 2.0
    """Lanes are handed over to a coordinator that has been alive for this long: one that starts and dies again moves nothing."""
    unable_s: float = 30.0
    """A lane that a coordinator could not lead is left to others for this long, if there are others."""
    unreachable_after_s: float = 5.0
    """An agent unheard of for this long gets nothing new."""
    lost_after_s: float = 15.0
    """An agent unheard of for this long is lost, and its jobs wait again (L10)."""
    agents_max: int = 2_000
    """Agents of a lane at a time. Each has five partitions: ten thousand are what one Kafka carries well."""
    agents_s: float = 2.0
    """New incarnations that a lane takes in each second, once twice as many as its most agents have come: each has a row until the retention's age."""
    epochs_ahead: int = 1_000_000_000
    """How far above the Master DB's epoch one that an agent names may lie to be believed (T1): a lane that was led anew each second since a backup thirty
    years ago. Epochs end somewhere, so one report must not use them up."""
    restored_every_s: float = 60.0
    """A leader believes at most this often that the Master DB was restored (T1): it costs all agents their jobs, and whoever may report can claim it."""
    lease_margin_s: float = 1.0
    """An agent's lease ends this much before it may be declared lost (A6)."""
    heartbeat_s: float = 1.0
    """How often an agent says that it is there."""
    inventory_s: float = 10.0
    """How often a heartbeat carries what is held; what it lacks is sent again if it was sent longer ago than this (L12)."""
    held_after_s: float = 5.0
    """Only jobs held for longer are in the inventory."""
    cancel_again_s: float = 5.0
    """A cancel without an answer is sent again after this long (L13)."""
    started_after_s: float = 0.5
    """A job that is still running after this long is reported as started; shorter ones cost no row."""
    release_after_s: float = 2.0
    """An agent gives back what it has not started after this long (S9)."""
    window_s: float = 0.5
    """Work beyond its free slots that an agent may hold, at its own rate (S8). At most a quarter of `release_after_s`."""
    bundle_s: float = 0.02
    """A bundle holds what its agent starts within this time (S11)."""
    bundle_max: int = 300
    """Jobs of one bundle, at most."""
    aging_s: float = 60.0
    """A job that has waited this long is aged: it has a share of the placements, and travels in the agent's critical bucket (S3)."""
    aged_every: int = 10
    """Of so many placements one goes to the longest-waiting aged job: a tenth keeps urgent work fast, and makes the wait of the least urgent bounded."""
    reserve_after_s: float = 30.0
    """How long smaller jobs may pass a large one before an agent is kept for it (S7). 0: at once, strict order."""
    reserved_share: float = 0.1
    """Of the agents that know a kind this share may be reserved at a time, at least one: more costs the small jobs and gains the large ones nothing."""
    learn: int = 1000
    """A kind's mean duration follows about this many of its last ends (S16)."""
    trust_ends: int = 20
    """A kind's mean duration is known after this many ends (S16)."""
    learned_every_s: float = 5.0
    """How often means that have changed are written: what a new leader has not learned is at most this old."""
    interruptions_max: int = 10
    """Interruptions of one job that use up no attempt; further ones do."""
    id_max_age_s: float = 7 * 86_400.0
    id_ahead_s: float = 3_600.0
    """How old, and how far in the future, the time in an id may be (L19)."""
    max_args_bytes: int = 1_048_576
    max_result_bytes: int = 1_048_576
    """The most that arguments, and a result, may take as JSON."""
    batch_bytes: int = 1_048_576
    """Bundles and batches of reports are cut at this size."""
    tick_most: int = 5_000
    """Jobs and reports that one tick takes in, at most."""
    tick_bytes: int = 33_554_432
    """Bytes of messages that one tick takes in, at most (but one message), and of arguments of the due jobs that it reads (but one of each priority and
    kind): its transaction must end well within a statement's time-out."""
    tick_wait_s: float = 0.01
    """Awake, a leader waits at most this long for something to do (L25)."""
    sleep_after_s: float = 1.0
    """Without work for this long, a leader sleeps: it is woken by a notice, and looks every `poll_s` as a backstop."""
    poll_s: float = 1.0
    settle_poll_s: float = 0.05
    """While transactions are open that were so when it went to sleep, a sleeping leader looks this often (L25)."""
    read_ahead: int = 10_000
    """Due jobs of one priority and kind that are kept in memory, at most; the rest waits in the Master DB."""
    read_ahead_bytes: int = 67_108_864
    """Arguments of all waiting jobs of a lane in memory, at most; but one job of each priority and kind always fits. A tenth of it is kept free
    for each more urgent priority: so many large jobs of a low priority never keep urgent ones out."""
    held_again_s: float = 1.0
    """How often jobs in held_intake are tried again (L2)."""
    topics_every_s: float = 5.0
    """How often Kafka is asked for the ids of the topics (L17), and committed records are deleted (L20)."""
    quarantine_rows: int = 500
    """Messages of one topic that cannot be understood, or are forged, that get a row of `quarantine` each, at once; one more each `quarantine_row_every_s`.
    The rest is counted: a flood must not fill the disk."""
    quarantine_row_every_s: float = 10.0
    quarantine_tell_s: float = 10.0
    """What was only counted is told by one row after this long."""
    quarantine_bytes: int = 33_554_432
    """Bytes of bodies that are kept at once, and how many more each second; beyond that only their beginnings are."""
    quarantine_bytes_s: float = 500.0
    inventory_cancels: int = 1_000
    """Cancels that one inventory leads to, at most; what else it should not hold is named by the next one again (L12)."""
    intake_lock_timeout_s: float = 0.3
    """How long the copy of new jobs waits for an id that an open transaction holds (L2)."""

    def __post_init__(self) -> None:
        if not self.trust_s < self.lease_s:
            raise ValueError(f"trust_s={self.trust_s} must be shorter than lease_s={self.lease_s}")
        if not self.unreachable_after_s < self.lost_after_s:
            raise ValueError(f"unreachable_after_s={self.unreachable_after_s} must be shorter than lost_after_s={self.lost_after_s}")
        if not self.lost_after_s > 2 * self.lease_margin_s:
            raise ValueError(f"lost_after_s={self.lost_after_s} must be longer than twice lease_margin_s={self.lease_margin_s}")
        if self.read_ahead < 1 or self.read_ahead_bytes < 1 or self.tick_bytes < 1:
            raise ValueError(
                f"read_ahead={self.read_ahead}, read_ahead_bytes={self.read_ahead_bytes} and tick_bytes={self.tick_bytes} must be above 0"
            )
        if self.agents_max < 1:
            raise ValueError(f"agents_max={self.agents_max} must be at least 1")
        if not self.aging_s > 0:
            raise ValueError(f"aging_s={self.aging_s} must be above 0")
        if self.aged_every < 2:
            raise ValueError(f"aged_every={self.aged_every} must be at least 2: with 1, age alone would rule")
        if not self.reserve_after_s >= 0:
            raise ValueError(f"reserve_after_s={self.reserve_after_s} must be 0 (at once) or more")
        if not 0 < self.reserved_share <= 1:
            raise ValueError(f"reserved_share={self.reserved_share} must be above 0, and 1 at most")
        if self.window_s > self.release_after_s / 4:
            raise ValueError(f"window_s={self.window_s} must be at most a quarter of release_after_s={self.release_after_s}")


RULES = Rules()
