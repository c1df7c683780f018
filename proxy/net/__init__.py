"""Everything that waits: sockets, topics, disks, the clock. No rule of Kafka's is decided here.

listener, connection, side, buffers  clients: accept, read, carry out effects, back-pressure, drain
turns                                whose work goes on in the next turn of the loop
acceptor, tls_acceptor, client_hello, admission, slot  who may connect
inherited_sockets                    listening sockets that systemd holds
edge, held                           what a connection needs of the process; what waits for its record
logins, verification, fair_queue     checks of logins, in turns
login_timeouts, incomplete_logins    logins that do not come to an end
descriptors                          the limit of open files
upstream, user_tokens, broker_watch  the broker: a connection for each client; what it speaks
topic_lookups                        names of topic ids that requests contain, asked of the broker
channel, reply_protocol              a client connection of our own to a Kafka endpoint
metadata_feed, partition, transactions  the metadata topic into a Loader
quorum_feed, quorum, quorum_log, quorum_leader, quorum_metrics  Kafka's own metadata log into a Loader
offset_waiters                       who waits until an offset is in force
audit_log, spool, audit_sink         audit events onto disk and into the audit topic
audit_producer                       batches to the leader, idempotent
audit_page, audit_metrics            how the trail fares
producer_end                         nothing of a Kafka producer is left behind
audit_room, audit_writer, disk_thread, audit_shipping  what these stand on
spool_files, spool_lock, spool_loss  what the spool stands on
collector                            the garbage collector, and what it is spared
telemetry, login_metrics             metrics
request_metrics, process_metrics, loop_lag, certificate_series  latency and errors; the process itself
spans, traced_session, otlp, traces  trace spans: what they are, those of sessions, where they go, or none
http, http_stream, http_access, http_port  the HTTP port, and who may see what there
readiness, cause                     what /readyz says
reach, backoff                       a peer that is away: its log lines, and when it is tried again
log_lines, log_queue, log_sampling   log lines, which never hold anybody up
log_settings, event_lines            what they look like, and those of audit events
quota_page, quota_series, exposition, pieces  /quotas, the metrics of quotas; both made in pieces
shown_clients                        which client ids have series of their own
loop_time                            what the loop spends on one client
watched_file, in_turn                files that are read again when they change; parts that are replaced
authorizer_upkeep                    an authorizer's files, and what sessions remember of its decisions
jwks, bearer_token, http_client      an identity provider: its keys, and tokens for our own logins
oauthbearer, kerberos                how a listener checks tokens, and tickets
credentials, plain_users             what logins are checked against
revocation                           credentials taken back
tls, clock                           certificates, time
"""
