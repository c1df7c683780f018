"""Real Kafka brokers, and real processes of Penstock before them, on loopback.

jar_list, ivy, kafka              Apache Kafka's jars, downloaded once and checked against a list of hashes
java, jvm, process, run, ports    starting and ending child processes
held_sockets                      listening sockets that stay open while a process restarts
at_once                           several calls, each in its own thread
class_archive                     an archive of Kafka's loaded classes, with which its programs start quickly
broker, tools                     a KRaft broker; Kafka's own command-line tools
settings, users, certificates     the configuration files of the processes and of their clients
node                              a broker with the proxy in front of it
stack, probe                      starts everything in order, reads its HTTP pages, stops it
"""
