"""What releases have left behind: checkpoints, savepoints, receipts, staged rows, ledgers, with their systems' data."""
