"""A broker that talks SASL/PLAIN over TLS, and what its clients must know."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.cluster.settings import HOST, is_free
from tests.e2e.clusters import FIRST_PORT, PORTS_EACH, PROCESSES

USER = "kerneltrack"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
OPENSSL_DAYS = "2"


@dataclass(frozen=True)
class Secure:
    """Where certificates and secrets of a broker lie.

    Attributes:
        folder: Of the certificates, and of the files that alone hold the password.
        port: The first of three: plain, for the probe of `cluster up`; controller's; encrypted.
        password: What it wants to hear.
    """

    folder: Path
    port: int
    password: str

    @property
    def brokers(self) -> str:
        return f"{HOST}:{self.port + 2}"

    def secret(self, name: str, password: str) -> Path:
        """Write a file with the password for both kinds of clients."""
        path = self.folder / name
        jaas = f'{LOGIN} username="{USER}" password="{password}";'
        path.write_text(f"user={USER}\npassword={password}\njaas={jaas}\n")
        path.chmod(0o600)
        return path

    def broker_flags(self) -> Iterable[str]:
        """Flags of `kerneltrack cluster up`."""
        plain, controller = f"{HOST}:{self.port}", f"{HOST}:{self.port + 1}"
        secret = self.folder / "broker"
        secret.write_text(f'jaas={LOGIN} user_{USER}="{self.password}";\n')
        listeners = f"PLAINTEXT://{plain},SASL_SSL://{self.brokers}"
        settings = {
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "config.providers": "file",
            "config.providers.file.class": PROVIDER,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"${{file:{secret}:jaas}}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
        }
        yield from ("--port", f"kafka={self.port}", "--port", f"kafka-controller={self.port + 1}")
        for name, value in settings.items():
            yield from ("--kafka", f"{name}={value}")

    def client_flags(self, secret: Path) -> list[str]:
        """Flags of all commands that reach the broker."""
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.username": f"${{file:{secret}:user}}",
            "sasl.password": f"${{file:{secret}:password}}",
        }
        flags = ["--brokers", self.brokers]
        return flags + [f"--client={name}={value}" for name, value in settings.items()]

    def consumer_flags(self, secret: Path) -> list[str]:
        """Flags of `kerneltrack stream`, for Java's consumer."""
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "sasl.jaas.config": f"${{file:{secret}:jaas}}",
        }
        return [f"--consumer={name}={value}" for name, value in settings.items()]


def free_ports(count: int) -> int:
    """Return the first of so many free ports in a row, behind those of this process's clusters."""
    first = FIRST_PORT + os.getpid() % PROCESSES * PORTS_EACH + PORTS_EACH // 2
    while not all(is_free(first + more) for more in range(count)):
        first += count
    return first


def make_certificates(folder: Path) -> None:
    """Make an authority of our own, and the broker's key and certificate, with openssl."""
    folder.mkdir()
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", OPENSSL_DAYS)
    authority = ("-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    broker = ("-keyout", "broker.key", "-out", "broker.crt", "-subj", "/CN=broker")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName=IP:{HOST}")
    leaf = ("-addext", "basicConstraints=critical,CA:FALSE")
    for command in ((*new, *authority), (*new, *broker, *signed, *leaf)):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    whole = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(whole)
