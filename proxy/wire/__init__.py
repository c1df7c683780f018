"""Encodes and decodes the Kafka protocol: all live APIs of Kafka 4.2 in all versions, and metadata records.

framing a byte stream -> frames header request and response headers codecs a body <-> a message, for each
version types the message classes by name metadata_records values of the metadata log <-> records api_keys
Kafka's API keys by name error_codes Kafka's error codes by name errors WireError, the only exception that
leaves this package skim skim_fetch the heads of Produce and Fetch requests, without decoding work long work
on a message, in slices

The codecs are generated. schemas/*.schema define the messages in a notation of this project (notation), which
import_schemas writes from Kafka's jars, together with types.pyi for type checkers (stubs). catalog finds a
schema, message makes its classes, decoder and encoder write the Python source of its codecs (schema, layout,
source), which runs on primitives. This package imports no other package of the project.
"""
