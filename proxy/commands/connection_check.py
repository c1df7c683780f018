"""`penstock check --connect`: connects to what a configuration names, as the process would.

For each address: name, connection, TLS, login, the APIs and versions that the process needs. Then, once for
each cluster: the rights of the login, and the addresses that the brokers advertise. Nothing is changed there:
topics are created with validate_only, and other requests only read, or are rejected for an id that does not
exist once the rights were checked (decision 0120). proxy.__main__ calls it with valid configurations.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from forwarding.envelope import AUTHORIZER_NOT_READY
from forwarding.net.broker import Broker
from forwarding.versions import ENVELOPE_ERROR_TAG, TRANSACTIONAL_ID_TAG
from proxy.admin.topics import NO_TOPIC_ID
from proxy.commands.check import Config
from proxy.config import PeerConfig, ProxyConfig, endpoint
from proxy.config.certificates import SOON_S
from proxy.config.listener import ListenerConfig, OAuthBearer
from proxy.metadata.acl import Operation
from proxy.net.audit.delivery import INIT_PRODUCER_ID_VERSIONS
from proxy.net.kafka import own_topic_watch, user_tokens
from proxy.net.kafka.channel import (
    API_VERSIONS_VERSION,
    Channel,
    ChannelError,
    EndpointSettings,
    UnsupportedVersionError,
    first_of,
)
from proxy.net.kafka.own_topics import OwnTopic, audit_topic, live_topic, metadata_topic
from proxy.net.kafka.topic_leaders import CREATE_TOPICS_VERSIONS, METADATA_VERSIONS, PRODUCE_VERSIONS
from proxy.net.logins.bearer_token import TokenError
from proxy.net.metadata import topic_feed
from proxy.net.metadata.quorum import ControllerNode, FetchPosition, NotQuorumLeader, QuorumError
from proxy.net.runtime import reachability
from proxy.net.runtime.clock import now_ms
from proxy.security.protected import election_group
from proxy.session.apis.authorized_operations import NOT_REQUESTED
from proxy.session.gate import VersionRange
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

STEP_MS = 4_000
"""For a connection with its login, and for each response."""
TOTAL_S = 10.0
CLIENT_ID = "penstock-check"

DESCRIBE_CLUSTER_VERSIONS = (0, 0)
RIGHTS_OF_TOPICS_VERSIONS = (8, 12)
ADD_OFFSETS_VERSIONS = (0, 3)
DESCRIBE_TOKENS_VERSIONS = (1, 2)
NO_PRODUCER_ID = (1 << 63) - 1
"""Brokers count producer ids from 0: no producer has this one."""

_BROKER_APIS: Mapping[int, VersionRange] = {
    ApiKey.METADATA: METADATA_VERSIONS,
    ApiKey.PRODUCE: PRODUCE_VERSIONS,
    ApiKey.INIT_PRODUCER_ID: INIT_PRODUCER_ID_VERSIONS,
    ApiKey.CREATE_TOPICS: CREATE_TOPICS_VERSIONS,
    ApiKey.DESCRIBE_CONFIGS: own_topic_watch.DESCRIBE_CONFIGS_VERSIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: own_topic_watch.ALTER_CONFIGS_VERSIONS,
    ApiKey.FETCH: topic_feed.FETCH_VERSIONS,
    ApiKey.LIST_OFFSETS: topic_feed.LIST_OFFSETS_VERSIONS,
}
_TOKEN_APIS: Mapping[int, VersionRange] = {
    ApiKey.CREATE_DELEGATION_TOKEN: user_tokens.CREATE_VERSIONS,
    ApiKey.RENEW_DELEGATION_TOKEN: user_tokens.RENEW_VERSIONS,
    ApiKey.EXPIRE_DELEGATION_TOKEN: user_tokens.EXPIRE_VERSIONS,
}

BROKER, KAFKA_CONTROLLER, PENSTOCK_CONTROLLER = "a broker", "Kafka's controller", "Penstock's controller"
_READ, _WRITE, _DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
_SETTINGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_OF_CLIENTS = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER, Operation.IDEMPOTENT_WRITE)
_OF_CONTROLLER = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)

_AWAY = (
    reachability.REFUSED,
    reachability.UNKNOWN_HOST,
    reachability.UNREACHABLE,
    reachability.TIMED_OUT,
)
"""Reasons of a server that may just be down, or of a machine without a network."""
_ADVICE = {
    reachability.REFUSED: "nothing listens there; start it, or correct the address",
    reachability.UNKNOWN_HOST: "correct the name, or this machine's name server",
    reachability.UNREACHABLE: "this machine has no route to it; look at its network",
    reachability.TIMED_OUT: "look at firewalls, the address and security.protocol",
    reachability.VERSION: "docs/tested-with.md lists the releases that work",
}
"""For the other reasons, the text of the error says what may be wrong."""
_OF_LOGINS = {
    "SASL_AUTHENTICATION_FAILED": "correct the user name and the password, or create the user there",
    "UNSUPPORTED_SASL_MECHANISM": "write a mechanism that is offered",
}
_OF_CERTIFICATES = {
    9: "it is not valid yet: wait, or correct the clock",
    10: "renew it there, or correct the clock",
    18: "write it, or the CA that issued it, into ssl.ca",
    19: "write the root CA into ssl.ca",
    20: "write the CA that issued it into ssl.ca; the other side has to send intermediate ones",
    21: "write the CA that issued it into ssl.ca; the other side has to send intermediate ones",
    62: "connect to a name that it contains, or issue it again for this name",
    64: "connect to a name that it contains, or issue it again for this address",
}
"""By OpenSSL's number of the error."""


@dataclass(slots=True)
class Connected:
    """The results, one line each."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Topic:
    """An own topic of the process, with the rights on it without which it does not work."""

    key: str
    own: OwnTopic
    rights: tuple[Operation, ...]
    is_created: bool = True
    """Whether this process creates it, and watches its settings."""

    @property
    def all_rights(self) -> tuple[Operation, ...]:
        return (Operation.CREATE, *self.rights, *_SETTINGS) if self.is_created else self.rights


def check_connections(configs: Iterable[tuple[Path, Config]]) -> Connected:
    """Connect to the endpoints of all these files at the same time, for TOTAL_S at most."""
    # The C library waits for a silent name server for 10 s or more, in a thread that cannot be cancelled.
    os.environ.setdefault("RES_OPTIONS", "timeout:2 attempts:1")

    found = Connected()

    async def run() -> None:
        await asyncio.gather(*(_FileCheck(path, config, found).run() for path, config in configs))

    asyncio.run(run())
    return found


class _FileCheck:
    """The check of one file."""

    def __init__(self, path: Path, config: Config, found: Connected) -> None:
        self._found = found
        self._path = path
        self._config = config
        self._ends_s = asyncio.get_running_loop().time() + TOTAL_S
        self._away: list[tuple[str, str]] = []
        """Place and text of the servers that were not reached."""
        self._clusters: dict[str, str] = {}
        """Place of a broker -> the id of its cluster."""
        self._reached: list[str] = []
        """The keys of the servers that were reached."""

    async def run(self) -> None:
        config = self._config
        parts: list[Awaitable[None]] = [self._keys(*each) for each in _listeners(config)]
        if isinstance(config, ProxyConfig):
            parts += [*self._of_upstream(config), self._controllers(config)]
        else:
            addresses = config.broker.bootstrap
            parts.append(
                self._brokers("broker > bootstrap", config.broker, addresses, self._query_as_controller)
            )
            parts.append(self._token("broker", config.broker))
        await asyncio.gather(*parts)
        self._report_away()
        if len(set(self._clusters.values())) > 1:
            text = ", ".join(f"{place} is of {cluster}" for place, cluster in self._clusters.items())
            self._problem("bootstrap", f"brokers of different clusters; name those of one cluster: {text}")

    def _of_upstream(self, config: ProxyConfig) -> Iterator[Awaitable[None]]:
        upstream = config.upstream
        yield self._token("upstream", upstream)
        yield self._token("controller", config.controller)
        if upstream.internal_bootstrap is None:
            key, addresses = "upstream > bootstrap", upstream.own_bootstrap
            yield self._brokers(key, upstream, addresses, self._query_as_proxy, self._query_for_clients)
            return
        key, addresses = "upstream > internal.bootstrap", upstream.internal_bootstrap
        if upstream.bootstrap is None:
            yield self._brokers(key, upstream, addresses, self._query_as_proxy, self._query_the_node)
            return
        yield self._brokers("upstream > bootstrap", upstream, upstream.bootstrap, self._query_for_clients)
        yield self._brokers(key, upstream, addresses, self._query_as_proxy)

    # The steps at one address.

    async def _brokers(
        self,
        key: str,
        peer: PeerConfig,
        addresses: Sequence[str],
        *questions: Callable[[str, Channel], Awaitable[None]],
    ) -> None:
        """Connect to all addresses of a cluster; query the first one that is reached about rights."""
        settings = _bounded(peer, addresses)
        is_queried = False

        async def query(place: str, channel: Channel) -> None:
            nonlocal is_queried
            if not self._is(place, channel, BROKER) or not self._has_apis(place, channel):
                return
            response = await _metadata(channel)
            self._clusters[place] = response.cluster_id or ""
            if is_queried:
                return
            is_queried = True
            for question in questions:
                await question(place, channel)
            if self._query_as_proxy in questions or self._query_as_controller in questions:
                known = {*addresses, channel.endpoint.address}
                nodes = [(node.host, node.port) for node in response.brokers]
                await self._advertised(key, settings, [at for at in nodes if f"{at[0]}:{at[1]}" not in known])

        await asyncio.gather(*(self._at(key, at, query) for at in _each(settings)))

    async def _advertised(
        self, key: str, settings: EndpointSettings, nodes: Sequence[tuple[str, int]]
    ) -> None:
        """Connect to the addresses that brokers advertise, which own connections use."""

        async def query(place: str, channel: Channel) -> None:
            self._is(place, channel, BROKER)

        name = f"{key}: advertised by the brokers:"
        await asyncio.gather(*(self._at(name, settings.at(*node), query, required=True) for node in nodes))

    async def _controllers(self, config: ProxyConfig) -> None:
        peer = config.controller
        query = self._query_quorum if peer.mode == "kraft" else self._query_controller
        settings = _bounded(peer, peer.endpoints)
        await asyncio.gather(*(self._at("controller > endpoints", at, query) for at in _each(settings)))

    async def _at(
        self,
        key: str,
        at: EndpointSettings,
        query: Callable[[str, Channel], Awaitable[None]],
        *,
        required: bool = False,
    ) -> None:
        """Connect and log in to one address, and query. `required`: it has to be up."""
        place, is_open = f"{key} {at.address}", False
        try:
            async with asyncio.timeout_at(self._ends_s), await Channel.open(at) as channel:
                is_open = True
                self._reached.append(key)
                self._ok(place, ", ".join(_described(channel)))
                ends_s = _expiry_s(channel)
                left_s = SOON_S if ends_s is None else ends_s - now_ms() / 1000
                if left_s < SOON_S:
                    self._warning(
                        place, f"its certificate expires in {int(left_s // 86_400)} days; renew it there"
                    )
                await query(place, channel)
        except TimeoutError:
            self._problem(place, f"not finished after {TOTAL_S:.0f} s; look at the network and at its load")
        except LookupError:
            self._problem(place, "a response lacks what was requested; is this a server of Kafka?")
        except ChannelError as error:
            text = _explained(error, at)
            if error.reason in _AWAY and not (required or is_open):
                self._away.append((place, text))
            else:
                self._problem(place, text)

    def _report_away(self) -> None:
        """One that is down of several is a warning: the others are used. The first broker is not replaced."""
        first = ""
        if isinstance(self._config, ProxyConfig) and self._config.upstream.bootstrap is not None:
            first = f"upstream > bootstrap {self._config.upstream.bootstrap[0]}"
        for place, text in self._away:
            key = place.rpartition(" ")[0]
            if key in self._reached and place != first:
                self._found.warnings.append(f"{self._path}: {place}: {text}; the other addresses are used")
            else:
                self._problem(place, text)
        if self._away and not self._reached:
            self._problem(
                "--connect",
                "no server was reached from here; if this machine has no network, check without it",
            )

    # The questions.

    async def _query_as_proxy(self, place: str, channel: Channel) -> None:
        config = self._config
        assert isinstance(config, ProxyConfig)
        topics = [_Topic("audit > topic", audit_topic(config.audit.topic), (_DESCRIBE, _WRITE))]
        if config.quota.scopes.any_cluster:
            quota = config.quota
            shares = live_topic(quota.quota_cluster_topic, quota.quota_cluster_partitions)
            topics.append(_Topic("quota.cluster.topic", shares, (_DESCRIBE, _READ, _WRITE)))
        if config.controller.mode == "kraft":
            witnesses = live_topic(config.audit.witnesses_topic)
            topics.append(_Topic("audit > witnesses.topic", witnesses, (_DESCRIBE, _READ, _WRITE)))
        else:
            log = metadata_topic(config.metadata.topic)
            topics.append(_Topic("metadata > topic", log, (_DESCRIBE, _READ), is_created=False))
        await self._query_topics(channel, config.upstream, topics)

    async def _query_the_node(self, place: str, channel: Channel) -> None:
        """Find the broker by its node id, as the proxy would, and connect to it."""
        config = self._config
        assert isinstance(config, ProxyConfig)
        nodes = {node.node_id: f"{node.host}:{node.port}" for node in (await _metadata(channel)).brokers}
        node_id = config.upstream.node_id
        if node_id not in nodes:
            text = f"no broker has node.id {node_id}; the cluster has {sorted(nodes)}"
            self._problem(place, f"{text}; correct it, or start that broker")
            return
        key = f"upstream > node.id {node_id} at"
        await self._brokers(key, config.upstream, (nodes[node_id],), self._query_for_clients)

    async def _query_for_clients(self, place: str, channel: Channel) -> None:
        config = self._config
        assert isinstance(config, ProxyConfig)
        if config.upstream.identity == "proxy":
            await self._query_cluster(place, channel, config.upstream, _OF_CLIENTS, "requests of clients")
            return
        response = await channel.send(
            types.DescribeDelegationTokenRequest(owners=[]), DESCRIBE_TOKENS_VERSIONS
        )
        if response.error_code != ErrorCode.NONE:
            self._problem(
                place,
                f"identity: user needs delegation tokens: {ErrorCode.name_of(response.error_code)}; set"
                " delegation.token.secret.key at the brokers, and log in there by SASL",
            )

    async def _query_as_controller(self, place: str, channel: Channel) -> None:
        config = self._config
        assert not isinstance(config, ProxyConfig)
        topics = [
            _Topic("metadata > topic", metadata_topic(config.metadata.topic), (_DESCRIBE, _READ, _WRITE)),
            _Topic("audit > topic", audit_topic(config.audit.topic), (_DESCRIBE, _WRITE)),
        ]
        await self._query_topics(channel, config.broker, topics)
        await self._query_cluster(place, channel, config.broker, _OF_CONTROLLER, "administrative requests")
        await self._query_claim(channel, config.broker, config.metadata.transactional_id)

    async def _query_topics(self, channel: Channel, peer: PeerConfig, topics: Sequence[_Topic]) -> None:
        wanted = types.MetadataRequest.MetadataRequestTopic
        response = await channel.send(
            types.MetadataRequest(
                topics=[wanted(name=each.own.name, topic_id=NO_TOPIC_ID) for each in topics],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            ),
            RIGHTS_OF_TOPICS_VERSIONS,
        )
        found = {topic.name: topic for topic in response.topics}
        for topic in topics:
            name, described = topic.own.name, found[topic.own.name]
            place = f"{topic.key} {name}"
            if described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await self._query_creation(place, channel, peer, topic)
            elif described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # Without DESCRIBE it is not known which of them it has.
                self._problem(place, _grant(peer, topic.all_rights, f"--topic {name}"))
            elif described.error_code != ErrorCode.NONE:
                self._problem(place, f"{ErrorCode.name_of(described.error_code)}; look at the brokers' logs")
            else:
                self._rights_of_topic(place, peer, topic, described.topic_authorized_operations)

    def _rights_of_topic(self, place: str, peer: PeerConfig, topic: _Topic, operations: int) -> None:
        resource = f"--topic {topic.own.name}"
        if operations == NOT_REQUESTED:
            self._warning(place, "the topic exists, but the broker does not report rights on it")
            return
        missing = _missing(operations, topic.rights)
        if missing:
            self._problem(place, _grant(peer, missing, resource))
            return
        self._ok(place, f"exists, with the rights {_names(topic.rights)}")
        settings = _missing(operations, _SETTINGS) if topic.is_created else ()
        if settings:
            self._warning(place, f"its settings cannot be watched: {_grant(peer, settings, resource)}")

    async def _query_creation(self, place: str, channel: Channel, peer: PeerConfig, topic: _Topic) -> None:
        if not topic.is_created:
            self._warning(place, "does not exist yet; a controller creates it when it starts")
            return
        is_log = topic.own == metadata_topic(topic.own.name)
        request = topic.own.creation(1 if is_log else -1, topic.own.settings)
        request.timeout_ms = STEP_MS
        broker = Broker(channel.endpoint)
        try:
            result = first_of((await broker.dry_run(request)).topics)
        finally:
            await broker.close()
        if result.error_code == ErrorCode.NONE:
            self._ok(place, "does not exist yet, and may be created")
        elif result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            grant = _grant(peer, topic.all_rights, f"--topic {topic.own.name}")
            self._problem(place, f"does not exist yet: {grant}")
        else:
            why = result.error_message or "no reason"
            name = ErrorCode.name_of(result.error_code)
            self._problem(
                place, f"does not exist, and cannot be created: {name}: {why}; create it at the brokers"
            )

    async def _query_cluster(
        self, place: str, channel: Channel, peer: PeerConfig, wanted: Sequence[Operation], what: str
    ) -> None:
        if ApiKey.DESCRIBE_CLUSTER not in channel.api_versions:
            return
        response = await channel.send(
            types.DescribeClusterRequest(include_cluster_authorized_operations=True),
            DESCRIBE_CLUSTER_VERSIONS,
        )
        operations = response.cluster_authorized_operations
        if operations == NOT_REQUESTED:
            return
        missing = _missing(operations, wanted)
        if not missing:
            self._ok(place, f"rights {_names(wanted)} on the cluster")
        elif _DESCRIBE in missing:
            # Brokers report the others only with DESCRIBE.
            grant = _grant(peer, (_DESCRIBE,), "--cluster")
            self._warning(place, f"rights on the cluster cannot be checked: {grant}")
        else:
            grant = _grant(peer, missing, "--cluster")
            self._warning(place, f"{what} that need them fail: {grant}, or make it a super user")

    async def _query_claim(self, channel: Channel, peer: PeerConfig, transactional_id: str) -> None:
        """Check the rights to write the log and to be elected, with a producer id that no producer has."""
        group = election_group(transactional_id)
        response = await channel.send(
            types.AddOffsetsToTxnRequest(
                transactional_id=transactional_id,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=0,
                group_id=group,
            ),
            ADD_OFFSETS_VERSIONS,
        )
        place = f"metadata > transactional.id {transactional_id}"
        if response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self._problem(place, _grant(peer, (_DESCRIBE, _WRITE), f"--transactional-id {transactional_id}"))
        elif response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._problem(place, _grant(peer, (_DESCRIBE, _READ), f"--group {group}"))
        else:
            self._ok(place, f"rights WRITE on it, and READ on group {group}")

    async def _query_controller(self, place: str, channel: Channel) -> None:
        if not self._is(place, channel, PENSTOCK_CONTROLLER):
            return
        request = types.ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1")
        request.unknown_tags = {ENVELOPE_ERROR_TAG: b""}
        response = await channel.request(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, request)
        raw = (response.unknown_tags or {}).get(ENVELOPE_ERROR_TAG)
        error_code = None if raw is None else int.from_bytes(raw, "big", signed=True)
        assert isinstance(self._config, ProxyConfig)
        if error_code is None:
            self._warning(
                place, "this controller is older than this command, and does not report rights; upgrade it"
            )
        elif error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            who = _who(self._config.controller)
            self._problem(
                place, f"{who} may not forward; add it to super.users there, or grant CLUSTER_ACTION"
            )
        elif error_code == AUTHORIZER_NOT_READY:
            self._warning(place, "it has not loaded the metadata log yet, so rights are not known; try again")
        else:
            self._ok(place, "on standby, may forward" if error_code else "active, may forward")

    async def _query_quorum(self, place: str, channel: Channel) -> None:
        if not self._is(place, channel, KAFKA_CONTROLLER):
            return
        assert isinstance(self._config, ProxyConfig)
        try:
            # Of an epoch that is over: the rights are checked, and no record is sent.
            await ControllerNode(channel).fetch(FetchPosition(0, 0, 0), wait=False)
        except NotQuorumLeader as error:
            self._ok(place, f"may follow the log and forward; the leader is node {error.leadership.node_id}")
        except QuorumError as error:
            grant = _grant(self._config.controller, (Operation.CLUSTER_ACTION,), "--cluster")
            self._problem(place, f"{error}: {grant}")
        else:
            self._ok(place, "may follow the log and forward")

    # Identity providers.

    async def _token(self, key: str, peer: PeerConfig) -> None:
        if peer.sasl is None or not peer.sasl.uses_a_token:
            return
        tokens = peer.sasl.sasl_login().tokens
        place = f"{key} > sasl > oauthbearer.token.endpoint.url {peer.sasl.oauthbearer_token_endpoint_url}"
        try:
            async with asyncio.timeout_at(self._ends_s):
                assert tokens is not None
                await tokens.token()
        except TimeoutError:
            self._problem(place, f"no token after {TOTAL_S:.0f} s; look at the network")
        except TokenError as error:
            self._problem(place, f"no token: {error}; correct the URL, its ca, the client id or the secret")
        else:
            self._ok(place, "has issued a token")

    async def _keys(self, location: str, listener: ListenerConfig) -> None:
        if "OAUTHBEARER" not in listener.sasl_enabled_mechanisms:
            return
        for at, provider in listener.providers.items():
            if provider.sasl_oauthbearer_jwks_endpoint_url is not None:
                keys = " > ".join((location, *map(str, at), provider.key("jwks_endpoint_url")))
                await self._keys_of(keys, provider)

    async def _keys_of(self, key: str, provider: OAuthBearer) -> None:
        from proxy.net.logins.http_client import HttpClient, HttpError
        from proxy.net.logins.oauthbearer import requested_keys
        from proxy.security.jwk_set import JwkSetError

        settings = provider.provider_settings().jwks
        if settings.path is not None:
            return  # A file, which is checked without --connect.
        place = f"{key} {settings.url}"
        try:
            async with asyncio.timeout_at(self._ends_s):
                keys = await requested_keys(HttpClient(settings.ca, int(TOTAL_S * 1000)), settings.url)
        except TimeoutError:
            self._problem(place, f"no keys after {TOTAL_S:.0f} s; look at the network")
        except (HttpError, JwkSetError) as error:
            self._problem(place, f"no keys: {error}; correct the URL or its ca")
        else:
            self._ok(place, f"has {len(keys.key_descriptions)} usable keys")

    # What is known from the connection alone.

    def _is(self, place: str, channel: Channel, wanted: str) -> bool:
        found = _kind_of(channel)
        if found == wanted:
            return True
        advice = f"write the address of {wanted}"
        if found == KAFKA_CONTROLLER and wanted == PENSTOCK_CONTROLLER:
            advice += ", or mode: kraft"
        if found == PENSTOCK_CONTROLLER and wanted == KAFKA_CONTROLLER:
            advice += ", or mode: penstock"
        self._problem(
            place, f"this is {found or 'neither a broker nor a controller'}, not {wanted}; {advice}"
        )
        return False

    def _has_apis(self, place: str, channel: Channel) -> bool:
        lacking = []
        for api_key, versions in self._needed_apis().items():
            try:
                channel.version(api_key, versions)
            except UnsupportedVersionError as error:
                lacking.append(str(error).removeprefix(f"{channel.endpoint.address}: "))
        if lacking:
            self._problem(place, f"{'; '.join(lacking)}; {_ADVICE[reachability.VERSION]}")
        return not lacking

    def _needed_apis(self) -> Mapping[int, VersionRange]:
        config = self._config
        as_users = isinstance(config, ProxyConfig) and config.upstream.identity == "user"
        return {**_BROKER_APIS, **(_TOKEN_APIS if as_users else {})}

    def _ok(self, place: str, text: str) -> None:
        self._found.lines.append(f"{self._path}: {place}: ok: {text}")

    def _warning(self, place: str, text: str) -> None:
        self._found.warnings.append(f"{self._path}: {place}: {text}")

    def _problem(self, place: str, text: str) -> None:
        self._found.problems.append(f"{self._path}: {place}: {text}")


def _listeners(config: Config) -> Iterator[tuple[str, ListenerConfig]]:
    if not isinstance(config, ProxyConfig):
        yield "listener", config.listener
        return
    for place, listener in enumerate(config.listeners):
        yield f"listeners[{place}]", listener


def _bounded(peer: PeerConfig, addresses: Sequence[str]) -> EndpointSettings:
    settings = endpoint(peer, tuple(addresses), CLIENT_ID)
    return replace(settings, request_timeout_ms=min(STEP_MS, settings.request_timeout_ms))


def _each(settings: EndpointSettings) -> Iterator[EndpointSettings]:
    return (settings.at(*at) for at in ((settings.host, settings.port), *settings.others))


async def _metadata(channel: Channel) -> types.MetadataResponse:
    """Request the brokers of the cluster, and no topics."""
    request = types.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return await channel.send(request, METADATA_VERSIONS)


def _kind_of(channel: Channel) -> str | None:
    if TRANSACTIONAL_ID_TAG in channel.api_versions_tags:
        return PENSTOCK_CONTROLLER
    if ApiKey.PRODUCE in channel.api_versions:
        return BROKER
    return KAFKA_CONTROLLER if ApiKey.ENVELOPE in channel.api_versions else None


def _described(channel: Channel) -> Iterator[str]:
    yield "connected"
    if channel.tls is not None:
        yield str(channel.tls.version())
    ends_s = _expiry_s(channel)
    if ends_s is not None:
        yield f"certificate until {datetime.fromtimestamp(ends_s, UTC):%Y-%m-%d}"
    sasl = channel.endpoint.sasl
    yield (
        "without a login" if sasl is None else f"logged in with {sasl.mechanism} as {sasl.username}".rstrip()
    )


def _expiry_s(channel: Channel) -> float | None:
    certificate = None if channel.tls is None else channel.tls.getpeercert()
    return ssl.cert_time_to_seconds(str(certificate["notAfter"])) if certificate else None


def _explained(error: ChannelError, at: EndpointSettings) -> str:
    """What is wrong, and what to do."""
    text, advice = str(error).removeprefix(f"{at.address}: "), _ADVICE.get(error.reason)
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"its certificate is rejected: {cause.verify_message.rstrip('.')}"
        advice = _OF_CERTIFICATES.get(cause.verify_code, "correct it, or ssl.ca")
    elif error.reason == reachability.LOGIN:
        advice = next((each for name, each in _OF_LOGINS.items() if name in text), None)
    return text if advice is None else f"{text}; {advice}"


def _missing(operations: int, wanted: Sequence[Operation]) -> tuple[Operation, ...]:
    """The rights that a bit field of authorized operations (KIP-430) lacks."""
    return tuple(operation for operation in wanted if not operations >> operation & 1)


def _grant(peer: PeerConfig, rights: Sequence[Operation], resource: str) -> str:
    who, words = _who(peer), [f"--operation {right.name.title().replace('_', '')}" for right in rights]
    command = f"kafka-acls --add --allow-principal {who} {' '.join(words)} {resource}"
    return f"{who} lacks {_names(rights)}; run there: {command}"


def _names(rights: Sequence[Operation]) -> str:
    return ", ".join(right.name for right in rights)


def _who(peer: PeerConfig) -> str:
    """The principal at the other side; its name is known only there if a certificate or a token has it."""
    if peer.sasl is None and (peer.ssl is None or peer.ssl.certificate is None):
        return "User:ANONYMOUS"
    name = "" if peer.sasl is None else peer.sasl.sasl_login().username
    return f"User:{name}" if name else "User:NAME"
