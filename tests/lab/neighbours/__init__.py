"""Tools that run beside a cluster, through Penstock, with the ACLs that docs/tested-with.md lists.

connect          a worker of Kafka Connect, and its REST interface
test_neighbours  MirrorMaker in Connect between two clusters, and a lag exporter
program          a Java program as a user of the cluster
test_streams_app an application of Kafka Streams
test_applications  applications with Spring Kafka and with Flink
registry         a node of a schema registry; test_registry: its topic, and the election of its leader
postgres         a server of PostgreSQL; test_debezium: a connector that reads its changes
test_balance     replicas that an AdminClient moves
"""
