"""Which quota governs: every set of configured levels, and the samples of KIP-55."""

from itertools import product

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.precedence import Governing, governing
from tests.support.metadata_log import quotas_image

KEY = "producer_byte_rate"
OTHER_KEY = "consumer_byte_rate"

# KIP-55's order with user + default client-id, as Kafka has it: the first that is set wins.
LEVELS = [
    (QuotaEntity(user="user", client_id="client"), "user:client"),
    (QuotaEntity(user="user", client_id=DEFAULT), "user:client"),
    (QuotaEntity(user="user"), "user:"),
    (QuotaEntity(user=DEFAULT, client_id="client"), "user:client"),
    (QuotaEntity(user=DEFAULT, client_id=DEFAULT), "user:client"),
    (QuotaEntity(user=DEFAULT), "user:"),
    (QuotaEntity(client_id="client"), ":client"),
    (QuotaEntity(client_id=DEFAULT), ":client"),
]
STATIC_DEFAULT = 99.0

# Entities that look alike and must never govern this client.
STRANGERS = {
    QuotaEntity(user="other", client_id="client"): {KEY: 1.5},
    QuotaEntity(user="user", client_id="other"): {KEY: 1.5},
    QuotaEntity(user="other"): {KEY: 1.5},
    QuotaEntity(user="client"): {KEY: 1.5},
    QuotaEntity(client_id="user"): {KEY: 1.5},
    QuotaEntity(user="<default>"): {KEY: 1.5},
    QuotaEntity(client_id="<default>"): {KEY: 1.5},
    QuotaEntity(ip="client"): {KEY: 1.5},
    QuotaEntity(ip=DEFAULT): {KEY: 1.5},
}


# Who asks, and by which of the levels they can be governed at all.
CLIENTS = {
    ("user", "client"): range(8),
    ("user", "unknown"): (1, 2, 4, 5, 7),
    ("stranger", "client"): (3, 4, 5, 6, 7),
    ("stranger", "unknown"): (4, 5, 7),
}
EVERY_KEY = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


@pytest.mark.spec("Q1", "Q2", "Q3", "Q4")
@pytest.mark.parametrize("key", EVERY_KEY)
@pytest.mark.parametrize("static_default", [None, STATIC_DEFAULT])
@pytest.mark.parametrize(("user", "client_id"), CLIENTS)
def test_of_every_set_of_configured_levels_the_most_specific_one_governs_whoever_it_is_for(
    user: str, client_id: str, static_default: float | None, key: str
) -> None:
    others = {other: 1.5 for other in EVERY_KEY if other != key}
    for configured in product((False, True), repeat=len(LEVELS)):
        # A level that is not set for this key limits all others: that shadows nothing.
        of_levels = {
            entity: others | ({key: 10.0 + i} if configured[i] else {})
            for i, (entity, _) in enumerate(LEVELS)
        }
        strangers = {entity: {key: 1.5} for entity in STRANGERS}

        found = governing(quotas_image({**strangers, **of_levels}), user, client_id, key, static_default)

        first = next((i for i in CLIENTS[user, client_id] if configured[i]), None)
        if first is not None:
            entity, shared_by = LEVELS[first]
            quota_id = shared_by.replace("user", user).replace("client", client_id)
            assert found is not None
            assert (found.limit, found.entity, found.quota_id) == (10.0 + first, entity, quota_id)
        elif static_default is not None:
            assert found == Governing(STATIC_DEFAULT, None, "", client_id)
        else:
            assert found is None


@pytest.mark.spec("Q3")
@pytest.mark.parametrize("specific", range(len(LEVELS) - 1))
def test_an_entity_that_limits_another_key_shadows_nothing(specific: int) -> None:
    quotas = quotas_image({LEVELS[specific][0]: {OTHER_KEY: 1.0}, LEVELS[-1][0]: {KEY: 2.0}})

    found = governing(quotas, "user", "client", KEY)

    assert found is not None
    assert (found.limit, found.entity) == (2.0, LEVELS[-1][0])


# The sample configuration of KIP-55.
SAMPLE = quotas_image(
    {
        QuotaEntity(user=DEFAULT): {KEY: 10000.0, OTHER_KEY: 20000.0},
        QuotaEntity(user="user1"): {KEY: 1024.0, OTHER_KEY: 2048.0},
        QuotaEntity(user="user2"): {KEY: 4096.0, OTHER_KEY: 8192.0},
        QuotaEntity(user="user2", client_id="clientA"): {KEY: 10.0, OTHER_KEY: 30.0},
        QuotaEntity(user="user2", client_id="clientB"): {KEY: 20.0, OTHER_KEY: 40.0},
        QuotaEntity(client_id="clientA"): {KEY: 100.0, OTHER_KEY: 200.0},
    }
)
WITHOUT_USER_DEFAULT = quotas_image(
    {entity: dict(keys) for entity, keys in SAMPLE.limits.items() if entity != QuotaEntity(user=DEFAULT)}
)


@pytest.mark.spec("Q2", "Q4")
@pytest.mark.parametrize(
    ("user", "client_id", "produce", "fetch", "quota_id"),
    [
        ("user1", "clientA", 1024.0, 2048.0, "user1:"),
        ("user1", "clientC", 1024.0, 2048.0, "user1:"),
        ("user2", "clientA", 10.0, 30.0, "user2:clientA"),
        ("user2", "clientB", 20.0, 40.0, "user2:clientB"),
        ("user2", "clientC", 4096.0, 8192.0, "user2:"),
        ("user3", "clientA", 10000.0, 20000.0, "user3:"),
    ],
)
def test_the_samples_of_the_kip(
    user: str, client_id: str, produce: float, fetch: float, quota_id: str
) -> None:
    found = [governing(SAMPLE, user, client_id, key) for key in (KEY, OTHER_KEY)]

    assert [(g.limit, g.quota_id) for g in found if g] == [(produce, quota_id), (fetch, quota_id)]


@pytest.mark.spec("Q2", "Q4")
def test_without_a_default_user_quota_the_client_id_counts_over_all_users() -> None:
    of_client_a = governing(WITHOUT_USER_DEFAULT, "user3", "clientA", KEY, 5000.0)
    of_client_b = governing(WITHOUT_USER_DEFAULT, "user3", "clientB", KEY, 5000.0)

    assert of_client_a == Governing(100.0, QuotaEntity(client_id="clientA"), "", "clientA")
    assert of_client_b == Governing(5000.0, None, "", "clientB")
    assert of_client_b.quota_id == ":clientB"


@pytest.mark.spec("Q5")
def test_limits_are_looked_up_by_the_raw_name_and_shown_by_the_sanitised_one() -> None:
    name = "CN=a b,O=*"
    quotas = quotas_image({QuotaEntity(user=name, client_id="a:b c"): {KEY: 1.0}})

    found = governing(quotas, name, "a:b c", KEY)

    assert found is not None
    assert found.quota_id == "CN%3Da%20b%2CO%3D%2A:a:b c"


@pytest.mark.spec("Q5")
def test_a_session_without_authentication_is_governed_as_anonymous() -> None:
    quotas = quotas_image({QuotaEntity(user="ANONYMOUS"): {KEY: 7.0}})

    found = governing(quotas, None, "client", KEY)

    assert found is not None
    assert (found.limit, found.quota_id) == (7.0, "ANONYMOUS:")


@pytest.mark.spec("Q2")
@pytest.mark.parametrize("client_id", [None, ""])
@pytest.mark.parametrize(
    ("entity", "governs"),
    [
        (QuotaEntity(user="user", client_id=DEFAULT), False),
        (QuotaEntity(user=DEFAULT, client_id=DEFAULT), False),
        (QuotaEntity(client_id=DEFAULT), False),
        (QuotaEntity(user=DEFAULT), True),
        (QuotaEntity(user="user"), True),
    ],
)
def test_a_client_without_a_client_id_has_only_the_quotas_of_users_as_in_kafka(
    client_id: str | None, entity: QuotaEntity, governs: bool
) -> None:
    found = governing(quotas_image({entity: {KEY: 3.0}}), "user", client_id, KEY)

    assert found == (Governing(3.0, entity, "user", "") if governs else None)
    assert governing(quotas_image({}), "user", client_id, KEY, 7.0) == Governing(7.0, None, "", "")


@pytest.mark.spec("Q2", "Q5")
@pytest.mark.parametrize("client_id", ["client", "", None])
def test_a_user_without_a_name_has_the_quotas_of_its_client_id_only(client_id: str | None) -> None:
    of_users = {entity: {KEY: 1.0} for entity, _ in LEVELS if entity.user is not None}
    of_clients = {QuotaEntity(client_id="client"): {KEY: 2.0}, QuotaEntity(client_id=DEFAULT): {KEY: 3.0}}

    assert governing(quotas_image(of_users), "", client_id, KEY) is None
    found = governing(quotas_image(of_users | of_clients), "", client_id, KEY)
    expected = Governing(2.0, QuotaEntity(client_id="client"), "", "client") if client_id else None
    assert found == expected
    only_default = quotas_image(of_users | {QuotaEntity(client_id=DEFAULT): {KEY: 3.0}})
    found = governing(only_default, "", client_id, KEY)
    assert found == (Governing(3.0, QuotaEntity(client_id=DEFAULT), "", "client") if client_id else None)
