"""Exports records of the trail for a SIEM, in OCSF or ECS.

mapping        a record -> an event of OCSF or ECS; runs on executors, knows no Spark
receiver       events -> POST requests of Splunk, Sentinel, Elastic or others, with retries
export         tables -> events -> files or HTTP
"""
