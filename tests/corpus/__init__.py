"""What releases have left behind: checkpoints, savepoints, receipts, staged rows and ledgers, with their systems' data."""
