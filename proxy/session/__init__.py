"""One client connection, without a socket: bytes in, effects out.

session         the entry: takes the client's bytes apart, gives each request its verdict
effects         all that a session can ask for
greeting        what it answers itself: ApiVersions, SASL, what must not come now
authentication  the SASL state of a connection
ending          sessions that end without a request
call            a decoded request as the API files see it, the verdicts they may give, and `Api`, their row
withheld        assignments in groups that are not told yet
denials         of one request, as audit events
apis            one file per API or family of APIs, each with its rows; `table` collects them
produce_path    produce requests that stream; streamed: how the last of them began; produce: all others
fetch_path      fetch requests; fetch: their sessions and what is denied; known_fetch: those not decoded
share_sessions  of a ShareFetch: what the client named and what the broker was told
forwarding      admin requests that the controller has; changes: what they change in Kafka's own log
replies         the broker's answers on their way to the client; held_replies: those that are decoded
pipeline        what is in flight, in the order of the requests
client_state    decisions, buckets and counts of one client id at one image; summaries: as audit events
former_clients  those left behind of whose requests some are not answered yet
request         a frame that is all there: decoded, decided, carried out
slices          work that is continued in later turns of the loop
memory          of incomplete requests and unread responses, by owner; frames: how large requests may be
refused         requests that cannot be served; not_ready: none can
unasked         requests that ask for no right; outcome: what an answer comes to, for the audit
asking          questions of our own to the broker; upstream_login: our session there, renewed
topic_lookup    topic ids without a name yet: their request waits; topic_names: the names that are known
verdicts        a verdict carried out
gate            what all sessions of a proxy share; request_counts: what a listener counts
"""
