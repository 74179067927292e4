"""What a committer says of the marks that its system keeps."""

import pytest

from onceflow.errors import ConfigurationError
from onceflow.sinks import Committer


@pytest.mark.parametrize("name", ["keeps_mark", "read_mark", "write_mark", "has_logs", "forget"])
def test_a_committer_of_before_is_told_where_its_marks_belong(name):
    """Nobody would ask for them any more, and a lost checkpoint would go unnoticed."""
    with pytest.raises(ConfigurationError, match=f"Mine cannot be used: {name} is asked for no more") as caught:
        type("Mine", (Committer,), {name: None})
    assert "onceflow.sinks.Marks" in caught.value.action
