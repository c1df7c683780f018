"""Bytes <-> messages of the Kafka protocol: all live APIs of Kafka 4.2, all their versions, and metadata
records. Imports nothing of Penstock.

framing           a byte stream -> frames
header            a frame -> its API, version, correlation id and client id
codecs            a body <-> a message, per version
types             the message classes by name
metadata_records  values of the metadata log <-> records
api_keys          Kafka's numbers of APIs, by name
error_codes       Kafka's numbers of errors, by name
errors            WireError, the only error that leaves this package
skim              what a Produce request names, undecoded
skim_fetch        what a Fetch request names, undecoded
work              long work on a message, in slices

Behind these, schemas/*.schema says what the messages are:

catalog           finds a schema
schema            a message's fields and their versions
notation          schemas as text, and back
message           from a schema to message classes
decoder           from a schema to the Python source of its decoder
encoder           from a schema to the Python source of its encoder
source            lines of Python source, each with the field that it is about
layout            how one version of a message lays its fields out
primitives        the functions that this source calls
import_schemas    writes the schemas from Kafka's jars (`make schemas`)
stubs             writes types.pyi for type checkers
"""
