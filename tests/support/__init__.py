"""What tests stand on: fakes that decode real bytes, real Kafka, real Penstock processes."""
