"""One quota for all proxies of a cluster (SPEC Q13): each proxy uses a share of the limit.

member         one proxy process: `Member` is the interface to the caller
holdings       the shares that a member has in one shard, their lease, and what it reports
coordinator    decides on the shares of one shard, among the members that it hears
membership     which members are live, and which of them coordinates a shard
share_rate     the rate of a bucket whose limit is a share: a token bucket
messages       what members write to each other, as bytes
timing         the times and limits of the protocol
"""
