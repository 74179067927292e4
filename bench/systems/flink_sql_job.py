"""A script of SQL by PyFlink, statement by statement, as its client does.

Must not know: who asks, onceflow. It runs in Flink's own environment.
"""

import json
import re
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

told = json.loads(sys.argv[1])
folder = Path(told["checkpoint"])
folder.mkdir(parents=True, exist_ok=True)
configuration = Configuration()
for name, value in {
    "pipeline.jars": "file://" + told["flink_jar"],
    "parallelism.default": "2",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "execution.checkpointing.dir": folder.as_uri(),
    "io.tmp.dirs": told["scratch"],
    "restart-strategy.type": "none",  # what fails is to be seen
}.items():
    configuration.set_string(name, value)
tables = TableEnvironment.create(
    EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
)
text = re.sub(r"--[^\n]*", "", Path(told["script"]).read_text()).replace("kafka:9092", told["servers"])
body, _, inserts = text.partition("EXECUTE STATEMENT SET BEGIN")
for statement in filter(None, map(str.strip, body.split(";"))):
    setting = re.fullmatch(r"SET '(.*)' = '(.*)'", statement)
    if setting is not None:
        tables.get_config().set(setting[1], setting[2])
    else:
        tables.execute_sql(statement)
together = tables.create_statement_set()
for statement in filter(None, map(str.strip, inserts.partition("END;")[0].split(";"))):
    together.add_insert_sql(statement)
together.execute().wait()
