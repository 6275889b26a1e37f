"""Who should lead which lane: a fair share for each coordinator that is alive, with as few lanes changing hands as can be. Pure."""

from collections.abc import Mapping

from jobyard.coordinator.seams import Peer, Seen


def shares(seen: Seen) -> Mapping[str, str]:
    """Each lane's coordinator, of those that are alive; a lane is missing if none of them may lead it. All who see the same decide the same.

    Lanes that are led stay, but for what one has two or more too many of, compared with another that may lead it and is settled. Free lanes go to whoever
    has fewest; one that nobody is able to lead, to somebody that is not, who tries again. What an unknown coordinator leads (it has said nothing, or not
    for some time) stays its own: its lease tells when that is over.
    """
    peers = {peer.coordinator: peer for peer in seen.peers}
    led: dict[str, str] = {lane: leader for lane, leader in sorted(seen.lanes.items()) if leader is not None and leader in peers}
    counts = dict.fromkeys(peers, 0)
    for leader in led.values():
        counts[leader] += 1
    plan = dict(led)
    for lane, current in sorted(seen.lanes.items()):
        if current is None:
            able = [one for one in peers.values() if one.may_lead(lane)] or [
                one for one in peers.values() if not one.wanted or lane in one.wanted
            ]
            if able:
                plan[lane] = min(able, key=lambda one: (counts[one.coordinator], one.coordinator)).coordinator
                counts[plan[lane]] += 1
    while (move := _move(plan, led, counts, peers)) is not None:
        lane, to = move
        counts[plan[lane]] -= 1
        counts[to] += 1
        plan[lane] = to
    return plan


def _move(plan: Mapping[str, str], led: Mapping[str, str], counts: Mapping[str, int], peers: Mapping[str, Peer]) -> tuple[str, str] | None:
    """The lane that makes the shares fairest by going to another, and to whom; None: they are as fair as can be."""
    best: tuple[int, str, str] | None = None
    for lane, leader in plan.items():
        for to, peer in peers.items():
            if counts[leader] - counts[to] < 2 or not peer.may_lead(lane) or (lane in led and not peer.settled):
                continue
            found = (counts[to] - counts[leader], lane, to)
            if best is None or found < best:
                best = found
    return None if best is None else (best[1], best[2])
