"""The audit trail and the metadata log as the checks read them. Reads no storage.

processes              the settings that each process has recorded
audit_records          which sequences of each boot are present, and each record once
metadata_log           which log a row is of, missing offsets, aborted transactions
claims                 the metadata offsets that a controller claims to have written
"""
