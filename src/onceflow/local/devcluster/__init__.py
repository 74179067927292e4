"""A real Kafka (KRaft, one or three brokers) in child processes, for tests, the demo and development."""

from onceflow.local.devcluster.cluster import DevCluster, brokers_of, stop_detached
from onceflow.local.devcluster.config import FAST_EXPIRY

__all__ = ["FAST_EXPIRY", "DevCluster", "brokers_of", "stop_detached"]
