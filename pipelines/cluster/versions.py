"""The versions of Flink, Kafka and Beam's runner, which stand in poms/pom.xml."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

POMS = Path(__file__).parent / "poms"
NAMES = {"flink": "flink.version", "kafka": "kafka.version", "beam runner": "beam.version"}
SPACE = "{http://maven.apache.org/POM/4.0.0}"


def versions() -> dict[str, str]:
    """Return the version of each product."""
    properties = ElementTree.parse(POMS / "pom.xml").getroot().find(f"{SPACE}properties")
    stated = {} if properties is None else {item.tag: item.text or "" for item in properties}
    return {name: stated[SPACE + key] for name, key in NAMES.items()}
