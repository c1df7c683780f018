"""The assembly of a proxy: which parts there are, what each is given, and in which order they start and end.

process               the parts of a proxy, connected
listeners             the listeners of one proxy: opened, changed, drained
advertised_addresses  the addresses at which clients of a listener reach each broker
logins                users, keys and tokens, and who checks them
candidate             ACLs that decide beside those in effect, and what came of it
gate_setup            from the configuration to what all sessions share; whose limits have changed
control_plane         where a proxy's metadata comes from and where its clients' administrative requests go
guarded_acls          changes of ACLs that break an assertion, with Kafka's own controller
handover              SIGUSR2: a running proxy starts its successor, and hands its clients over
quota_shares          quotas that hold for all proxies together, over a topic
witnessing            proxies that witness each other's audit trail, with Kafka's own controller
"""
