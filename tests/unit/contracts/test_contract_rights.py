"""Who may what in Kafka: the table itself, and that it stays as small as it is."""

import shlex

import pytest

from jobyard.contracts.rights import Grant, Process, Right, principal_of, rights_of

EXPECTED: dict[Process, dict[str, set[str]]] = {
    "client": {"ns.default.intake": {"Describe", "Write"}},
    "agent": {
        "ns.default.reports": {"Describe", "Write"},
        "ns.default.control": {"Describe", "Read"},
        "ns.default.buckets": {"Describe", "Read"},
        "ns.assigned": {"Describe"},
    },
    "coordinator": {
        "ns.default.intake": {"Create", "Describe", "DescribeConfigs", "Read", "Delete"},
        "ns.default.reports": {"Create", "Describe", "DescribeConfigs", "Read", "Delete"},
        "ns.default.control": {"Create", "Describe", "DescribeConfigs", "Write"},
        "ns.default.buckets": {"Create", "Describe", "DescribeConfigs", "Write", "Alter"},
        "ns.assigned": {"Describe"},
    },
}


@pytest.mark.parametrize("process", EXPECTED)
def test_a_process_may_what_it_must_and_no_more(process: Process) -> None:
    found = {right.name: set(right.operations) for right in rights_of(process, "ns", "default")}
    assert found == EXPECTED[process]
    assert {right.name for right in rights_of(process, "ns", "default") if right.resource == "group"} <= {"ns.assigned"}


def test_lanes_share_no_topic() -> None:
    for process in EXPECTED:
        of_lanes = [{right.name for right in rights_of(process, "ns", lane) if right.resource == "topic"} for lane in ("one", "two")]
        assert not of_lanes[0] & of_lanes[1]


@pytest.mark.parametrize("lane", ["*", "", "a.b", "A"])
def test_no_name_reaches_further_than_a_lane(lane: str) -> None:
    with pytest.raises(ValueError, match="lane"):
        rights_of("agent", "ns", lane)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("shop", "User:shop"), ("User:shop", "User:shop"), ("User:CN=shop,O=We", "User:CN=shop,O=We"), ("Group:a", "Group:a")],
)
def test_a_principal_without_a_type_is_a_user(given: str, meant: str) -> None:
    assert principal_of(given) == meant


@pytest.mark.parametrize("given", ["", "*", "User:*", "User:", ":shop", " shop", "sh\nop", "User: shop"])
def test_what_is_no_principal_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="principal"):
        principal_of(given)


def test_a_grant_is_a_call_of_kafkas_own_tool() -> None:
    call = Grant("User:CN=a b,O=c", Right("topic", "ns.default.intake", ("Describe", "Write"))).as_call("h:1")
    assert shlex.split(call) == [
        "kafka-acls", "--bootstrap-server", "h:1", "--command-config", "admin.properties", "--add", "--allow-principal", "User:CN=a b,O=c",
        "--operation", "Describe", "--operation", "Write", "--topic", "ns.default.intake",
    ]  # fmt: skip
