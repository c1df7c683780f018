"""`penstock demo`: a real Kafka broker, the controller and the proxy on loopback, and a story played on them.

jar_list, ivy, kafka     Apache Kafka's jars, fetched once, checked against a list of hashes
java, process, ports     starting and ending child processes
broker, tools            one KRaft broker; Kafka's own command-line tools
settings, stack          the configuration files, and everything started in order and stopped again
story, steps             what is played, what each step must show

Tests start real processes with the same parts (tests.support).
"""
