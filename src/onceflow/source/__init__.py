"""Sources: where a record enters the job."""
