"""From outside of a running job: what an operator sees and does."""
