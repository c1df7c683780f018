"""Encodes and decodes the Kafka protocol: all live APIs of Kafka 4.4 in all versions, and metadata records.

header            splits a byte stream into frames; request and response headers
codecs            decodes and encodes the body of a message, in each version
types             the message classes by name
metadata_records  decodes and encodes values of the metadata log
api_keys          Kafka's API keys by name
error_codes       Kafka's error codes by name
errors            WireError, the only exception that leaves this package
skim              reads Produce and Fetch requests without decoding them
work              long work on a message, in slices
protocols         names what comes in place of a Kafka frame: TLS, HTTP, SSH, PROXY headers
batches           requests that are too large, decoded in batches

The codecs are generated. schemas/*.schema define the messages (`make schemas` writes them and types.pyi):

notation          the notation of these files
catalog           finds the schema of a message
schema            message schemas: structs of fields, and their layout in one version
message           makes message classes from schemas
decoder           generates the source of decoding functions
encoder           generates the source of encoding functions
source            generated source, and the message field of each line
primitives        the run-time functions of generated codecs

This package imports no other package of the project.
"""
