"""A request that is decoded, decided, and turned into a plan.

dispatch            a whole frame -> its API's row decides -> the plan
verdicts            a verdict -> the plan that carries it out
fetch_handler       a decoded Fetch -> its plan
forwarding          administrative requests on their way to the controller and back
queries             requests of the proxy's own to the broker
topic_lookup        topic ids without a name: their request waits
rejections          requests that are rejected without a decision
unchecked           requests that need no right
expected_records    a forwarded request -> the records that Kafka's own controller writes for it
supported_versions  the APIs and versions that the proxy supports
termination         sessions that end without a request
"""
