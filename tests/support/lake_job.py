"""What the job of two lake tables has written, read by others' clients."""

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog


def tables(pipeline):
    """Each table's rows, and the epochs that its history names."""
    lake = pipeline.environment["LAKE"]
    iceberg = load_catalog("lake", type="sql", uri=f"sqlite:///{lake}/catalog.db").load_table("bank.payments")
    epochs = [s.summary.get("onceflow.epoch") for s in iceberg.snapshots() if s.summary.get("onceflow.rows")]
    yield "bank.payments", iceberg.scan().to_arrow(), list(map(int, epochs))
    delta = DeltaTable(f"{lake}/delta")
    epochs = [v["onceflow.epoch"] for v in reversed(delta.history()) if "onceflow.rows" in v]
    yield "delta", delta.to_pyarrow_table(), list(map(int, epochs))
