"""`penstock demo`: real Kafka, one broker or three, all of Penstock on loopback, and a story played on them.

jar_list, ivy, kafka              Apache Kafka's jars, fetched once, checked against a list of hashes
java, jvm, process, run, ports    starting and ending child processes
class_archive                     Kafka's classes as Java has read them, so that its programs start quickly
broker, tools                     a KRaft broker; Kafka's own command-line tools
settings, users, certificates     the configuration files, for the processes and for their clients
node                              a broker with the proxy in front of it
stack, probe, description         everything started in order, looked at, described in a file, stopped again
stage, steps, story, trail        what is played, and what each step must show
directory, supervision, __main__  the command itself

Tests start real processes with the same parts (tests.support).
"""
