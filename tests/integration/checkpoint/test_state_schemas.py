"""What Spark itself does with a moved checkpoint of a state class: it reads the schemas that this one names."""

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import GroupedData

from onceflow.checkpoint import state_schemas
from onceflow.spark.session import PINNED
from onceflow.storage.store import Store
from tests.support import checkpoints
from tests.support.counting import NEEDS_PROTOBUF, Counting

pytestmark = [
    pytest.mark.spark,
    NEEDS_PROTOBUF,
    pytest.mark.skipif(not hasattr(GroupedData, "transformWithState"), reason="this PySpark has it for pandas alone"),
]


def test_a_moved_checkpoint_goes_on_with_its_own_schemas(spark, tmp_path):
    """Spark looks for them where they were written, and finds nothing; brought home it counts on."""
    session = spark.newSession()
    for key, value in PINNED.items():
        session.conf.set(key, value)

    def put(number):
        checkpoints.write(tmp_path / "in" / f"{number}.json", "\n".join(json.dumps({"key": "k"}) for _ in range(10)))

    def run(folder):
        counts = []
        records = session.readStream.schema("key string").json(str(tmp_path / "in"))
        counted = records.groupBy("key").transformWithState(Counting(), "key string, n long", "update", "none")
        writer = counted.writeStream.outputMode("update").option("checkpointLocation", f"file:{folder}")
        query = writer.foreachBatch(lambda batch, _: counts.extend(batch.collect())).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row["n"] for row in counts]

    put(0)
    assert run(tmp_path / "old") == [10]
    (tmp_path / "old").rename(tmp_path / "new")
    put(1)
    with pytest.raises(StreamingQueryException, match="_stateSchema/default/0_"):
        run(tmp_path / "new")
    state_schemas.require_schemas(Store(tmp_path / "new"))
    state_schemas.bring_home(Store(tmp_path / "new"))
    assert run(tmp_path / "new") == [20]
