"""One client connection, without a socket: bytes in, effects out (docs/dev/flow.md).

session         the entry: one method for everything that comes in
machine         the owner of the state: applies plans
state           why no further request is taken now, as flags; the table of events, which is executed
plan            what a part wants done: the steps that the machine applies
effects         what proxy.net carries out; the outcome of a request that was sent to the controller
requests        a request: what the session handles itself, or decides and turns into a plan
intake          the client's bytes: requests that pass as they come, and those that have to be decoded
responses       the broker's bytes: responses on their way to the client
data            Produce and Fetch: the fast lane, and the decoded requests
throttling      what a client has to wait for, and where its responses say so
apis            one file for each API or family of APIs, each with its rows; `table` collects them
call            a decoded request as the API files see it, their verdicts, and `Api`, their row
in_flight       requests in flight, one class for each way in which a response is treated
client_state    decisions, buckets and counts of one client id at one image; the API versions that it has used
former_clients  the states of earlier client ids, some of whose requests are still in flight
remembered      fetch sessions, share sessions and deferred assignments of a connection
member_hosts    the clients' addresses of group members, which the broker does not see
accounting      summaries, counts and errors for audit and metrics
authentication  the SASL state of a connection
gate            what all sessions of a proxy share; topic ids to names
memory          of incomplete requests and unread responses, by owner; how large requests may be
"""
