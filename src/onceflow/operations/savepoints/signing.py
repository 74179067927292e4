"""A savepoint's signature: who has the job's key has made it.

Must not know: where savepoints are, where the key lies. The manifest names each file by its SHA-256, so a signature
over the manifest is one over all of the savepoint.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

from onceflow.errors import ConfigurationError
from onceflow.operations.savepoints.manifest import Manifest
from onceflow.storage.files import Where


def signed(manifest: Manifest, key: bytes | None) -> Manifest:
    """A manifest with its signature; as it is where there is no key."""
    return manifest if key is None else replace(manifest, signature=_signature(manifest, key))


def is_signed(manifest: Manifest, key: bytes) -> bool:
    """Whether it was signed with this key, and not changed since."""
    return hmac.compare_digest(_signature(manifest, key).encode(), manifest.signature.encode())


def require_signed(path: Where, manifest: Manifest, key: bytes | None) -> None:
    """Refuse a savepoint that was not signed with the key; without a key there is nothing to ask.

    Raises:
        ConfigurationError: With what to do.
    """
    if key is None or is_signed(manifest, key):
        return
    what = "is signed with another key, or was changed" if manifest.signature else "is not signed"
    raise ConfigurationError(
        f"the savepoint {path} {what}",
        harmless="never, where others can write to its folder: its offsets and its state are taken as they are, and "
        "could skip rows in silence",
        cause="ONCEFLOW_AUDIT_KEY_FILE is set: each savepoint that is made under it is signed with that key",
        action="take one that is signed; or, if you know who has made it and where it lay, leave the variable away for "
        "this one command",
        file=str(path),
    )


def _signature(manifest: Manifest, key: bytes) -> str:
    return hmac.new(key, b"onceflow savepoint " + replace(manifest, signature="").dumps(), hashlib.sha256).hexdigest()
