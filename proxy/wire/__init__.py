"""Bytes <-> messages of the Kafka protocol: all live APIs of Kafka 4.2, all their versions, and metadata
records.

    framing            a byte stream -> frames                     header      a frame -> who asks for what
    codecs             a body <-> a message, per version           types       the message classes by name
    metadata_records   values of the metadata log <-> records      api_keys, error_codes   Kafka's numbers
    by name errors             WireError, the only error that leaves here
    skim, skim_fetch   what Produce and Fetch ask for, undecoded
    work               long work on a message, in slices

Behind them: schemas/*.schema says what the messages are, in a notation of our own (notation) which
import_schemas writes from Kafka's jars, with types.pyi for type checkers (stubs). catalog finds a schema,
message makes classes of it, decoder and encoder write the Python source of its codecs (source, layout), which
runs on primitives. Imports nothing of ours from outside.
"""
