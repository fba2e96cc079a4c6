"""Settings whose values are named by where they lie: read on the machine that uses them.

So passwords are on no command line, in no submitted job and in none of its checkpoints. The form
is that of Kafka's own config providers, which read the Java consumer's settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError, DataError

_REFERENCE = re.compile(r"\$\{(file):([^:}]+):([^}]+)\}|\$\{(env):([^}]+)\}")
_SECRET = re.compile(r"password|secret|jaas|user\.info|\.key$|\.pem$|token", re.IGNORECASE)

PROVIDERS = {
    "config.providers": "file,env",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
"""What makes Kafka's Java clients read `${file:PATH:KEY}` and `${env:NAME}`."""


def check_no_secret(flag: str, name: str, value: str) -> None:
    """Refuse a secret that is written out.

    Raises:
        ConfigError: naming the setting, and not its value.
    """
    if _SECRET.search(name) and not _REFERENCE.search(value):
        allowed = "${file:PATH:KEY} or ${env:NAME}: secrets are read where they are used"
        raise ConfigError(f"{flag} {name}", "...", allowed)


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `${file:PATH:KEY}` (a line KEY=VALUE of a file) and `${env:NAME}` by their values.

    Raises:
        DataError: if a file, key or variable is not there.

    Example:
        >>> resolve({"acks": "all", "retries": 3})
        {'acks': 'all', 'retries': 3}
    """
    return {
        name: _REFERENCE.sub(_value, value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def _value(found: re.Match[str]) -> str:
    if found[4]:
        if found[5] not in os.environ:
            raise DataError(f"${{env:{found[5]}}}", "no such variable in the environment")
        return os.environ[found[5]]
    path, key = found[2], found[3]
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {type(error).__name__}") from error
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and name.strip() == key:
            return value.strip()
    raise DataError(path, f"no line {key}=...")
