"""Figures in the words of Prometheus, by its own client library.

Must not know: where they come from, who asks.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from onceflow.errors import SetupError
from onceflow.metrics.catalogue import BUCKETS, METRICS
from onceflow.metrics.figures import Durations, Labels

Samples = Callable[[], Iterable[tuple[str, Labels, float | Durations]]]


def require_library() -> None:
    """Look whether the library is there.

    Raises:
        SetupError: It is not.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise SetupError(
            "metrics are asked for, and the library that writes them is not installed",
            harmless="always: nothing was started",
            cause="metrics.port is set, and prometheus-client comes with the extra [metrics]",
            action="pip install '.[cli,metrics]' in onceflow's folder, or pip install prometheus-client; or leave "
            "metrics.port away",
        )


def written(samples: Samples) -> tuple[bytes, str]:
    """All figures as Prometheus reads them, and the type of that content."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # noqa: PLC0415 - an extra

    registry = CollectorRegistry()
    registry.register(_Collector(samples))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    """What the library asks; one for each time that somebody asks it.

    Args:
        samples: Gives the series.
    """

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Any]:
        """Nothing beforehand: the names are ours alone in their registry."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Each metric with its series."""
        from prometheus_client.core import (  # noqa: PLC0415 - an extra
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
        families = {
            each.name: kinds[each.kind](each.name, each.doc.replace("`", ""), labels=each.labels) for each in METRICS
        }
        for name, labels, value in self._samples():
            if isinstance(value, Durations):
                bounds = [*map(str, BUCKETS), "+Inf"]
                buckets = list(zip(bounds, accumulate(value.counts), strict=True))
                families[name].add_metric(labels, buckets, sum_value=value.total)
            else:
                families[name].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)
