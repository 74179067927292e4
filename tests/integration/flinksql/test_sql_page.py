"""docs/sql.md is true of topics: who makes them, and that ``onceflow sql --check`` neither makes nor changes anything.

Its script and its lines for topics are run as they stand there, on a broker that would make topics by itself.
"""

import re
import sys
from pathlib import Path

import pytest

from onceflow.cli import main as entry
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster
from onceflow.local.devcluster.records import make_topic
from tests.support.harness import read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
SCRIPT = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture
def generous():
    """A broker that makes a topic for whoever asks for it."""
    with DevCluster(settings={"auto.create.topics.enable": "true"}) as cluster:
        yield cluster.bootstrap_servers


def test_a_check_on_real_topics_tells_what_is_wrong_and_makes_nothing(spark, generous, tmp_path, monkeypatch, capsys):
    """A topic or a column that is not there: exit code 1, by its name and place. The page's own file is good: 0.

    The topics that it reads and writes are made as the page says, and by nothing else; no folder is, either.
    """
    file, folder = tmp_path / "pipeline.sql", tmp_path / "checkpoints"

    def check(script):
        file.write_text(script)
        settings = [f"onceflow.kafka.bootstrap.servers={generous}", f"execution.checkpointing.dir={folder}"]
        flags = [part for each in settings for part in ("-D", each)]
        monkeypatch.setattr(sys, "argv", ["onceflow", "sql", "--check", str(file), *flags])
        with pytest.raises(SystemExit) as end:
            entry.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out + said.err

    with KafkaClient(KafkaCluster(generous)) as client:

        def topics():
            return {name for name in client.admin.list_topics() if not name.startswith("__")}

        code, said = check(SCRIPT)
        assert code == 1
        assert "there is no topic payments" in said
        assert topics() == set()

        for name in ("payments", "alerts"):
            make_topic(generous, name, 4)  # as `onceflow dev topic` does
        assert topics() == {"payments", "alerts"}

        code, said = check(SCRIPT.replace("'topic' = 'alerts'", "'topic' = 'alarms'"))
        assert code == 1
        assert "topic alarms of sink alerts does not exist" in said
        assert "kafka-topics.sh --create" in said

        code, said = check(SCRIPT.replace("SUM(amount)", "SUM(amuont)"))
        assert code == 1
        line = SCRIPT[: SCRIPT.index("SUM(amount)")].count("\n") + 1
        assert re.search(rf"line {line}, column \d+: there is no column amuont", said), said
        assert "did you mean amount?" in said

        code, said = check(SCRIPT)
        assert code == 0, said
        assert "job insert-into_alerts would start; nothing was started, made or changed" in said
        assert topics() == {"payments", "alerts"}
    assert read_topic(KafkaCluster(generous), "alerts") == []
    assert not folder.exists()
