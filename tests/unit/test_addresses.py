"""Which node a proxy stands in front of, and where clients of a listener reach each."""

import pytest

from proxy.app.advertised_addresses import bypassing, nodes_at, of_listener, own_node_id, unreachable

pytestmark = pytest.mark.spec("O1")

NODES = {1: ("broker-1", 9092), 2: ("broker-2", 9092), 3: ("broker-3", 9092)}
HERE = {"SASL": ("proxy-1", 19092), "TLS": ("proxy-1", 19093)}
SECOND = {"SASL": ("proxy-2", 19092), "TLS": ("proxy-2", 19093)}
THIRD = {"SASL": ("proxy-3", 19092), "TLS": ("proxy-3", 19093)}
ELSEWHERE = ("localhost", 9092)


def test_the_node_that_advertises_the_address_we_reach_it_by_is_ours() -> None:
    assert own_node_id(NODES, ("broker-2", 9092), {}, HERE) == 2


def test_the_node_that_clients_are_said_to_reach_where_we_are_is_ours() -> None:
    assert own_node_id(NODES, ELSEWHERE, {1: HERE, 2: SECOND}, HERE) == 1


def test_the_only_node_that_no_other_proxy_stands_before_is_ours() -> None:
    assert own_node_id(NODES, ELSEWHERE, {2: SECOND, 3: THIRD}, HERE) == 1


def test_a_node_that_was_added_is_not_taken_for_ours() -> None:
    nodes = NODES | {4: ("broker-4", 9092)}

    assert own_node_id(nodes, ELSEWHERE, {1: HERE, 2: SECOND, 3: THIRD}, HERE) == 1
    assert own_node_id(nodes, ELSEWHERE, {2: SECOND, 3: THIRD}, HERE) is None


def test_nothing_is_guessed_where_two_nodes_could_be_ours() -> None:
    assert own_node_id(NODES, ELSEWHERE, {}, HERE) is None
    assert own_node_id({1: ELSEWHERE, 2: ELSEWHERE}, ELSEWHERE, {}, HERE) is None
    assert own_node_id(NODES, ELSEWHERE, {1: HERE, 2: HERE}, HERE) is None


def test_clients_are_told_of_our_listener_and_the_other_proxies_listeners_of_the_same_name() -> None:
    addresses = of_listener("TLS", ("proxy-1", 19093), 1, {2: SECOND})

    assert addresses == {1: ("proxy-1", 19093), 2: ("proxy-2", 19093)}
    assert unreachable(NODES, addresses) == (3,)
    assert nodes_at(("proxy-1", 19093), addresses) == frozenset([1])
    assert nodes_at(("proxy-1", 19092), addresses) is None


def test_an_address_may_be_that_of_several_nodes() -> None:
    addresses = of_listener("SASL", HERE["SASL"], None, {1: HERE, 2: HERE, 3: THIRD})

    assert nodes_at(HERE["SASL"], addresses) == frozenset([1, 2])


def test_a_node_is_told_by_the_other_proxies_even_while_ours_is_not_known() -> None:
    assert of_listener("SASL", ("proxy-1", 19092), None, {2: SECOND}) == {2: ("proxy-2", 19092)}


def test_a_broker_that_advertises_itself_where_it_should_advertise_its_proxy_is_found() -> None:
    assert bypassing(NODES, ("broker-2", 9092)) == (2,)
    assert bypassing(NODES, ELSEWHERE) == ()
