"""Flink's parser is asked only where it is asked for: its jars are fetched for it."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave it out, unless ``-m oracle`` speaks of it."""
    if "oracle" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("oracle")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
