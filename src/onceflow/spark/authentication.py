"""Whether anybody else may fetch a job's tasks, or put others in their place: ``spark.authenticate`` of a session.

Must not know: which sinks and sources there are, what a secret is for.

Spark's driver and its block manager listen on a port each. Without the setting they answer whoever reaches them (on
127.0.0.1 each user of the machine), and what they take from there the driver and the Python workers deserialize.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from onceflow.errors import RefusedSettingError
from onceflow.masking import is_secret

ALLOWING = "spark.onceflow.unauthenticated"
"""A setting of a session that goes without ``spark.authenticate`` on purpose: ``allow``."""


def secret_options(options: Mapping[str, str]) -> list[str]:
    """Which options of a source hold a secret: tasks carry all of them.

    Args:
        options: As they stand in Spark's plan.
    """
    return sorted(name for name in options if is_secret(name))


def authenticates(settings: Mapping[str, str]) -> bool:
    """Whether a session lets nobody else fetch its tasks.

    Args:
        settings: Of the session, ``spark.*``.
    """
    return settings.get("spark.authenticate", "false").lower() == "true"


def require_authenticated(settings: Mapping[str, str], carriers: Sequence[str]) -> str | None:
    """Refuse a session that would hand out a job's tasks to strangers.

    Args:
        settings: Of the session, ``spark.*``.
        carriers: What puts a secret into tasks, in words without the secret.

    Returns:
        What to warn of, or None.

    Raises:
        RefusedSettingError: Its tasks carry a secret, or its driver is reached from other machines.
    """
    if authenticates(settings):
        return None
    master = settings.get("spark.master", "")
    here = _is_here(master)
    anybody = "any user of this machine" if here else "whoever reaches their ports"
    what = f"spark.authenticate is false: {anybody} can fetch this session's tasks, and give it others to run"
    if settings.get(ALLOWING, "").lower() == "allow":
        return f"{what}; {ALLOWING}=allow, so it goes on"
    if here and not carriers:
        return f'{what}. Add .config("spark.authenticate", "true") where it is made'
    raise RefusedSettingError(
        f"a session without spark.authenticate is refused on {master}: {anybody} could fetch its tasks, and give it "
        "others to run",
        harmless="always: nothing was started or changed",
        cause="; ".join(
            ["spark.authenticate is false, Spark's default", *(f"tasks carry {each}" for each in carriers)]
        ),
        action='add .config("spark.authenticate", "true") where the session is made: in local mode, on Kubernetes and '
        "on YARN Spark makes the secret itself, for a standalone cluster docs/clusters.md says where it stands. Or, "
        f'where nobody else is on the machine or in its network, .config("{ALLOWING}", "allow")',
        master=master,
    )


def _is_here(master: str) -> bool:
    """Whether all that takes part is on this machine, and listens here alone."""
    if master == "local" or master.startswith(("local[", "local-cluster[")):
        return True
    hosts = [urlsplit(f"//{each}").hostname or "" for each in master.removeprefix("spark://").split(",")]
    return master.startswith("spark://") and all(map(_is_loopback, hosts))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
