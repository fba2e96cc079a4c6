"""Settings that say where their values lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltrack.errors import ConfigError, DataError
from transforms.kafka.secrets import check_no_secret, resolve


def test_values_come_from_files_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secrets"
    path.write_text("user = me\npassword=a=b\n")
    monkeypatch.setenv("KERNELTRACK_TEST", "from outside")
    given = {
        "sasl.username": f"${{file:{path}:user}}",
        "sasl.password": f"${{file:{path}:password}}",
        "both": f"<${{env:KERNELTRACK_TEST}}> <${{file:{path}:user}}>",
        "plain": "$HOME ${other:x}",
        "number": 3,
    }
    assert resolve(given) == {
        "sasl.username": "me",
        "sasl.password": "a=b",
        "both": "<from outside> <me>",
        "plain": "$HOME ${other:x}",
        "number": 3,
    }


def test_what_is_not_there_is_said_without_values(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text("password=hidden\n")
    with pytest.raises(DataError, match="no line user=") as caught:
        resolve({"a": f"${{file:{path}:user}}"})
    assert "hidden" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read: FileNotFoundError"):
        resolve({"a": f"${{file:{tmp_path}/none:user}}"})
    with pytest.raises(DataError, match="no such variable"):
        resolve({"a": "${env:KERNELTRACK_NO_SUCH}"})


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.keystore.password", "sasl.jaas.config", "ssl.key.pem"]
)
def test_secrets_written_out_are_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ConfigError, match="--client") as caught:
        check_no_secret("--client", name, "hunter2")
    assert "hunter2" not in str(caught.value)
    check_no_secret("--client", name, "${file:/run/secrets:it}")
    check_no_secret("--client", "security.protocol", "SASL_SSL")
