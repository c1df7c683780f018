"""ACLs as decisions have to read them, where part of one is not understood (SPEC S13).

A DENY that may apply applies, an ALLOW that may not apply does not: as proxy.metadata.acl in the proxy. Takes
and returns the intervals of acl_history.
"""

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy import acl_history as H
from spark_audit.policy import networks

# The executors of a cluster need not have this package: the parser is pickled with the plan.
cloudpickle.register_pickle_by_value(networks)  # type: ignore[no-untyped-call]  # not typed there

RESOURCE_TYPES = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
PATTERNS = ("LITERAL", "PREFIXED")
NOT_AN_OPERATION = r"^(UNKNOWN.*|ANY)$"
WILDCARD, WILDCARD_PRINCIPAL = "*", "User:*"
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}"
_GROUP = "^[0-9a-f]{1,4}$"
_ZEROS = 5
"""The first groups of an IPv6 address that has an IPv4 address in it; `ffff` follows."""


NETWORK = "network"
"""What the `address_bits` of the addresses in a network begin with; null if the host is none."""
_METADATA_VERSION, _FIRST_WITH_NETWORKS = "metadata.version", 32


def networks_from(metadata_log: DataFrame) -> int | None:
    """Return the offset from which networks are hosts of ACLs (KIP-1276); None: no ACL has one in effect.

    In Penstock's own log they always are, in Kafka's from a level of metadata.version on.
    """
    host = F.get_json_object(S.BODY, f"$.{S.HOST}")
    has_network = (F.col(S.API_KEY) == S.ACCESS_CONTROL_ENTRY_RECORD) & host.contains("/")
    is_level = _is_metadata_version() & (_level() >= _FIRST_WITH_NETWORKS)
    row = metadata_log.agg(
        F.max(has_network), _is_of_kafka(), F.min(F.when(is_level, F.col(S.LOG_OFFSET)))
    ).first()
    if row is None or not row[0]:
        return None
    return row[2] if row[1] else 0


def accepts_networks(metadata_log: DataFrame) -> bool:
    """Return whether ACLs may have networks as hosts by the end of the log."""
    newest = F.max_by(_level(), F.when(_is_metadata_version(), F.col(S.LOG_OFFSET)))
    [(is_of_kafka, level)] = metadata_log.agg(_is_of_kafka(), newest).collect()
    return not is_of_kafka or (level or 0) >= _FIRST_WITH_NETWORKS


def _is_of_kafka() -> Column:
    """Aggregate whether the log is Kafka's own."""
    return F.max(F.col(S.FROM_SNAPSHOT).isNotNull())


def _is_metadata_version() -> Column:
    is_feature = F.col(S.API_KEY) == S.FEATURE_LEVEL_RECORD
    return is_feature & (F.get_json_object(S.BODY, "$.name") == _METADATA_VERSION)


def _level() -> Column:
    return F.get_json_object(S.BODY, "$.level").cast("int")


def enforced(acls: DataFrame, networks_from: int | None = None) -> DataFrame:
    """Return the ACLs: those that are not understood deny more than they say, or allow nothing.

    `networks_from`: as the function of this name returns it.
    """
    if networks_from is None:
        return _enforced(acls.withColumn(NETWORK, F.lit(None).cast("string")))
    first = F.lit(networks_from)
    with_bits = acls.withColumn(NETWORK, network(F.col(H.ACL_HOST)))
    # What is no network, and a network as long as it is a host that is not understood.
    as_text = with_bits.withColumn(
        H.REMOVED, F.when(F.col(NETWORK).isNull(), F.col(H.REMOVED)).otherwise(F.least(H.REMOVED, first))
    ).withColumn(NETWORK, F.lit(None).cast("string"))
    as_networks = with_bits.where(F.col(NETWORK).isNotNull()).withColumn(H.ADDED, F.greatest(H.ADDED, first))
    both = as_text.unionByName(as_networks).where(F.col(H.ADDED) < F.col(H.REMOVED))
    return _enforced(both)


def _enforced(acls: DataFrame) -> DataFrame:
    allows = F.col(S.PERMISSION_TYPE) == "ALLOW"
    is_type, is_pattern = F.col(S.RESOURCE_TYPE).isin(*RESOURCE_TYPES), F.col(S.PATTERN_TYPE).isin(*PATTERNS)
    is_principal = F.col(H.ACL_PRINCIPAL).contains(":")
    is_end = F.coalesce(F.col(S.UNTIL_MS) >= 0, F.lit(True))
    every_type = F.array(*map(F.lit, RESOURCE_TYPES))
    types = F.when(allows | is_type, F.array(F.col(S.RESOURCE_TYPE))).otherwise(every_type)
    wider = {
        S.PATTERN_TYPE: F.when(is_pattern, F.col(S.PATTERN_TYPE)).otherwise("LITERAL"),
        H.PATTERN_NAME: F.when(allows | is_pattern, F.col(H.PATTERN_NAME)).otherwise(WILDCARD),
        H.ACL_PRINCIPAL: F.when(allows | is_principal, F.col(H.ACL_PRINCIPAL)).otherwise(WILDCARD_PRINCIPAL),
        H.ACL_HOST: F.when(allows | F.col(NETWORK).isNotNull(), F.col(H.ACL_HOST)).otherwise(
            denied_host(F.col(H.ACL_HOST))
        ),
        # No question has the operation UNKNOWN.
        H.ACL_OPERATION: F.when(allows & ~(is_type & is_pattern & is_principal & is_end), "UNKNOWN")
        .when(~allows & F.col(H.ACL_OPERATION).rlike(NOT_AN_OPERATION), "ALL")
        .otherwise(F.col(H.ACL_OPERATION)),
        S.PERMISSION_TYPE: F.when(allows, "ALLOW").otherwise("DENY"),
        # A DENY does not end.
        S.UNTIL_MS: F.when(allows, F.col(S.UNTIL_MS)),
    }
    return acls.withColumns(wider).withColumn(S.RESOURCE_TYPE, F.explode(types))


def denied_host(host: Column) -> Column:
    """Return the address that a DENY is for, in Kafka's form; `*` if it is none."""
    is_known = (host == WILDCARD) | host.rlike(f"^{_IPV4}$")
    return F.when(is_known, host).otherwise(F.coalesce(_ipv6(host), F.lit(WILDCARD)))


def address_bits(address: Column) -> Column:
    """Return the bits of an address in Kafka's form, without its zone, after `4:` or `6:`."""
    octets, groups = F.split(address, r"\."), F.split(address, ":")
    ipv4 = F.array_join(F.transform(octets, lambda octet: F.lpad(F.conv(octet, 10, 2), 8, "0")), "")
    ipv6 = F.array_join(F.transform(groups, lambda group: F.lpad(F.conv(group, 16, 2), 16, "0")), "")
    return F.when(address.contains(":"), F.concat(F.lit("6:"), ipv6)).otherwise(F.concat(F.lit("4:"), ipv4))


def network(host: Column) -> Column:
    """Return `network_bits`."""
    # A function of Python: the optimizer would write an expression of this size into all that depend on it.
    return F.udf(networks.network_bits, "string", useArrow=False)(host)


def _ipv6(host: Column) -> Column:
    """Return an IPv6 address in Kafka's form, with eight groups or as IPv4; null if it is none."""
    text = F.lower(F.substring_index(host, "%", 1))
    # The last 32 bits may be written as IPv4.
    end = F.regexp_extract(text, rf":({_IPV4})$", 1)
    octets = F.transform(F.split(end, r"\."), lambda octet: octet.try_cast("int"))
    begin = F.substring(text, F.lit(1), F.length(text) - F.length(end))
    text = F.when(end == "", text).otherwise(F.concat(begin, _pair(octets, 0), F.lit(":"), _pair(octets, 2)))
    halves = F.split(text, "::")
    left, right = _groups(halves[0]), _groups(F.try_element_at(halves, F.lit(2)))
    zeros = F.lit(8) - F.size(left) - F.size(right)
    filled = F.concat(left, F.array_repeat(F.lit("0"), F.greatest(zeros, F.lit(0))), right)
    groups = F.when(F.size(halves) == 1, left).when((F.size(halves) == 2) & (zeros > 0), filled)
    short = F.transform(groups, lambda group: F.regexp_replace(group, "^0+(?=.)", ""))
    is_address = (F.size(groups) == 8) & F.forall(groups, lambda group: group.rlike(_GROUP))
    ipv4 = F.concat_ws(
        ".",
        *(
            part.cast("string")
            for index in (_ZEROS + 1, _ZEROS + 2)
            for part in (F.shiftright(_number(short[index]), 8), _number(short[index]).bitwiseAND(255))
        ),
    )
    mapped = F.array_join(F.slice(short, 1, _ZEROS + 1), ":") == ":".join(["0"] * _ZEROS + ["ffff"])
    return F.when(is_address, F.when(mapped, ipv4).otherwise(F.array_join(short, ":")))


def _pair(octets: Column, first: int) -> Column:
    return F.lower(F.hex(octets[first] * 256 + octets[first + 1]))


def _number(group: Column) -> Column:
    return F.conv(group, 16, 10).cast("int")


def _groups(text: Column) -> Column:
    return F.when(F.coalesce(text, F.lit("")) == "", F.array().cast("array<string>")).otherwise(
        F.split(text, ":")
    )
