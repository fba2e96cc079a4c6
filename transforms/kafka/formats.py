"""How messages are written, and what stands for fields that they do not have."""

from __future__ import annotations

FORMATS = ("json", "arrow", "avro")
"""How messages are written."""

CONFLUENT_AVRO, CONFLUENT_PROTOBUF = "confluent-avro", "confluent-protobuf"
REGISTERED = (CONFLUENT_AVRO, CONFLUENT_PROTOBUF)
"""And by a schema that a registry has (`schema_registry`)."""

INPUT_FORMATS = (*FORMATS, *REGISTERED)
"""How a job's input may be written."""

OUTPUT_FORMATS = ("json", "arrow")
"""How a job writes its own."""

MESSAGE_KEY = "message key"
RECORD_TIME = "record timestamp"
"""What stands for columns that the message itself does not have."""
