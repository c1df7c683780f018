"""The core of the end-to-end tests in front of brokers of other Kafka releases.

suite     which tests are run for each row of the table, with which tools and which controller
table     the table of docs/tested-with.md: reads the results of a run, and replaces its columns

`make upstreams` runs all releases, `make upstreams KAFKA=3.9.2-zookeeper` one of them.
"""
