"""One client connection, without a socket: bytes in, effects out (docs/flow.md).

session               the entry: takes the client's bytes apart, and calls the parts
machine               the state, and the only place where it changes: applies plans
state                 why no further request is taken now, as flags; the table of what sets and clears them
plan                  what a part wants done: the steps that the machine applies
effects               what proxy.net carries out
login                 what a session handles itself: ApiVersions, SASL, the proxy's own login at the broker
requests              a decoded request, decided and turned into a plan
responses             the broker's responses on their way to the client
data                  Produce and Fetch: the fast lane, and the decoded requests
throttling            what a client has to wait for, and where its responses say so
apis                  one file for each API or family of APIs, each with its rows; `table` collects them
call                  a decoded request as the API files see it, their verdicts, and `Api`, their row
in_flight             requests in flight, one class for each way in which a response is treated
plain_response        a Produce response that needs no change
client_state          decisions, buckets and counts of one client id at one image
former_clients        the states of earlier client ids, some of whose requests are still in flight
accounting            summaries, counts and errors for audit and metrics
authentication        the SASL state of a connection
gate                  what all sessions of a proxy share
memory                of incomplete requests and unread responses, by owner
frame_sizes           how large requests may be
slices                work that continues in later turns of the event loop
fetch_sessions        the fetch sessions that a connection has opened
share_sessions        the share sessions: what the client named, and what the broker holds
deferred_assignments  assignments of group members whose topics have no name yet
topic_names           topic ids to names
controller_response   the outcome of a request that was sent to the controller
observer              what may watch a session, such as tracing
"""
