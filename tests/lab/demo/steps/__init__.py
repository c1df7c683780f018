"""The steps of the story, each a function that plays it and tells what was seen.

people     users made with kafka-configs, and removed again
access     a producer that is denied, ACLs made with kafka-acls, a producer and a consumer that are allowed
brokers    clients that find every broker by its own proxy, where there are several
limits     a quota set with kafka-configs that throttles a live session
sessions   one session that re-authenticates, one that does not and is closed
audit      Spark reads the audit trail and the metadata log, reconciles them and reports
"""
