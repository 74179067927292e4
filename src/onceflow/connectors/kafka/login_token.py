"""The login by OAuth's client credentials, for kafka-python; the other two clients have that grant built in.

Must not know: what the token is for.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

from onceflow.connectors.kafka.login_refused import AGAIN
from onceflow.errors import KafkaRightsError
from onceflow.options.given import plain
from onceflow.twophase.forms import OTHER_FORM

if TYPE_CHECKING:
    from onceflow.connectors.kafka.cluster import KafkaCluster

_TOKEN_TIMEOUT_S = 10.0


class ClientCredentials:
    """A token provider for kafka-python; the other two clients have this grant (RFC 6749, 4.4) built in."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._endpoint = cluster.oauth_token_endpoint or ""
        login = f"{cluster.oauth_client_id}:{plain(cluster.oauth_client_secret)}"
        self._authorization = "Basic " + base64.b64encode(login.encode()).decode("ascii")
        form = {"grant_type": "client_credentials"}
        if cluster.oauth_scope is not None:
            form["scope"] = cluster.oauth_scope
        self._form = urllib.parse.urlencode(form).encode("ascii")
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """A token with at least a fifth of its life before it."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime_s = self._fetch()
                self._renew_at = time.monotonic() + 0.8 * lifetime_s
            return self._token

    def extensions(self) -> dict[str, str]:
        """None; kafka-python asks."""
        return {}

    def _fetch(self) -> tuple[str, float]:
        request = urllib.request.Request(  # noqa: S310 - KafkaCluster lets only http and https through
            self._endpoint, self._form, {"Authorization": self._authorization, "Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as response:  # noqa: S310
                reply = json.load(response)
            return str(reply["access_token"]), float(reply.get("expires_in", 60))
        except (OSError, http.client.HTTPException, *OTHER_FORM) as error:
            status = f" {error.code}" if isinstance(error, urllib.error.HTTPError) else ""
            raise KafkaRightsError(
                f"the token endpoint gave no access token ({type(error).__name__}{status})",
                harmless="for the data: what is decided is finished by the next start that has a token",
                cause=f"oauth_token_endpoint={self._endpoint}",
                action=f"check the endpoint, and that the client id and secret are known to it; {AGAIN}",
                endpoint=self._endpoint,
            ) from None
