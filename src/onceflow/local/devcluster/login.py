"""A listener with TLS and a password for a dev cluster: certificate and secrets as files, and what clients are told.

Must not know: brokers, processes that live, clients. Everything lies in one folder that only its owner may enter; a
secret is in files of mode 0600 and on no command line.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from onceflow.errors import SetupError
from onceflow.local.devcluster.config import HOST, escaped
from onceflow.local.jars import java_executable

LISTENER = "LOGIN"
USER = "onceflow"


class Mechanism(StrEnum):
    """How the user logs in. The listener takes each of them, by the same password."""

    PLAIN = "PLAIN"
    SCRAM_256 = "SCRAM-SHA-256"
    SCRAM_512 = "SCRAM-SHA-512"


SCRAM = (Mechanism.SCRAM_256, Mechanism.SCRAM_512)

_SECURITY = "org.apache.kafka.common.security"
_PLAIN, _SCRAM = f"{_SECURITY}.plain.PlainLoginModule required", f"{_SECURITY}.scram.ScramLoginModule required"


@dataclass(frozen=True)
class Login:
    """The login of one dev cluster.

    Attributes:
        folder: Where its files lie.
    """

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that clients trust, as PEM."""
        return self.folder / "ca.pem"

    @property
    def password(self) -> Path:
        """The file with the user's password."""
        return self.folder / "password"

    @property
    def client_properties(self) -> Path:
        """What Kafka's console tools take by ``--command-config``."""
        return self.folder / "client.properties"

    @property
    def _keys(self) -> Path:
        return self.folder / "broker.p12"

    @property
    def mechanism(self) -> Mechanism:
        """The one that clients are told to use."""
        said = self.client_properties.read_text().splitlines()
        return next(each for each in Mechanism if f"sasl.mechanism={each}" in said)

    def make(self, mechanism: Mechanism | None = None) -> None:
        """Make the files, those that are not there.

        Args:
            mechanism: What clients are told to use from now on; None for what they were told, at first PLAIN.

        Raises:
            SetupError: Java has no keytool, or it refused.
        """
        if not self.client_properties.exists():  # the last one
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True, mode=0o700)
            _write(self.password, secrets.token_urlsafe(24))
            self._make_certificate()
            self._tell_clients(mechanism or Mechanism.PLAIN)
        elif mechanism is not None:
            self._tell_clients(mechanism)

    def _tell_clients(self, mechanism: Mechanism) -> None:
        module, secret = _SCRAM if mechanism in SCRAM else _PLAIN, self.password.read_text()
        said = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} username="{USER}" password="{secret}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        _write(self.client_properties, "".join(f"{key}={escaped(value)}\n" for key, value in said.items()))

    def settings(self) -> dict[str, str]:
        """The broker's settings; they hold the secret."""
        secret = self.password.read_text()
        prefix = f"listener.name.{LISTENER.lower()}"
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._keys),
            "ssl.keystore.password": secret,
            f"{prefix}.sasl.enabled.mechanisms": ",".join(Mechanism),
            f"{prefix}.plain.sasl.jaas.config": f'{_PLAIN} user_{USER}="{secret}";',
        } | {f"{prefix}.{each.lower()}.sasl.jaas.config": f"{_SCRAM};" for each in SCRAM}

    def python(self, servers: str) -> list[str]:
        """The lines of Python that connect to it."""
        return [
            "kafka = onceflow.KafkaCluster(",
            f'    "{servers}",',
            '    security_protocol="SASL_SSL",',
            f'    sasl_mechanism="{self.mechanism}",',
            f'    username="{USER}",',
            f'    password={{"file": {str(self.password)!r}}},',
            f"    ssl_ca={str(self.authority)!r},",
            ")",
        ]

    def console(self, servers: str) -> str:
        """The line of one of Kafka's console tools that connects to it."""
        properties = shlex.quote(str(self.client_properties))
        return f"kafka-topics.sh --bootstrap-server {servers} --command-config {properties} --list"

    def described(self, servers: str) -> Mapping[str, str]:
        """Where it is and where its files are, for programs; no secret."""
        return {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism.value,
            "username": USER,
            "password_file": str(self.password),
            "ssl_ca": str(self.authority),
            "client_properties": str(self.client_properties),
        }

    def _make_certificate(self) -> None:
        """One certificate that signs itself: it is the broker's, and the authority that clients trust."""
        of = ["-alias", "broker", "-keystore", str(self._keys), "-storepass:file", str(self.password)]
        kind = ["-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"]
        names = ["-dname", "CN=onceflow dev", "-ext", f"SAN=ip:{HOST},dns:localhost", "-ext", "bc=ca:true"]
        _keytool(["-genkeypair", *of, *kind, *names])
        self._keys.chmod(0o600)
        _keytool(["-exportcert", "-rfc", *of, "-file", str(self.authority)])


def _keytool(arguments: list[str]) -> None:
    java = Path(java_executable())
    beside = Path(shutil.which(java) or java).resolve().with_name("keytool")
    try:
        told = subprocess.run(
            [str(beside), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
    except OSError as error:
        raise _failed(str(beside), str(error)) from error
    if told.returncode != 0:
        raise _failed(str(beside), f"{told.stdout}{told.stderr}".strip())


def _failed(tool: str, said: str) -> SetupError:
    return SetupError(
        f"Java's keytool could not make a certificate: {said}",
        cause=f"{tool} is missing, or does not know an option",
        action="use a complete Java 17 or 21 runtime",
    )


def _write(path: Path, text: str) -> None:
    """Write a file that nobody else can read, at no moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
