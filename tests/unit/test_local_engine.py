"""The local engine asks Kafka again where a broker begins, ends or hands over."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

from kerneltrack.errors import KerneltrackError
from pipelines.local.engine import again

Errors = confluent_kafka.KafkaError


def failing_first(*codes: int) -> Callable[[], str]:
    """Return what fails with these errors, one a call, and then answers."""
    left = list(codes)

    def ask() -> str:
        if left:
            raise confluent_kafka.KafkaException(Errors(left.pop(0)))
        return "an answer"

    return ask


def test_what_passes_is_asked_for_again() -> None:
    ask = failing_first(Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS)
    assert again(ask, "the group's offsets") == "an answer"


def test_what_does_not_pass_ends_the_job() -> None:
    with pytest.raises(KerneltrackError, match="the group's offsets: Broker: Group author"):
        again(failing_first(Errors.GROUP_AUTHORIZATION_FAILED), "the group's offsets")


def test_another_process_with_the_same_job_is_named() -> None:
    with pytest.raises(KerneltrackError, match="another process runs this job now"):
        again(failing_first(Errors.PRODUCER_FENCED), "the offsets")
