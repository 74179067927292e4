"""Stores of one's own that break the contract, each in its way."""

BREAKS = {
    "a_row_written_again_is_there_once": "insert into pairs values (?, ?, ?, ?)",
    "a_late_row_replaces_nothing": "insert or replace into pairs values (?, ?, ?, ?)",
    "of_two_at_once_the_newer_stays": "insert or replace into pairs select ?, ?, ?, ?",
    "a_newer_row_replaces_the_one_of_its_key": "insert or ignore into pairs values (?, ?, ?, ?)",
}
"""Ways to put a pair, each with a check that must notice it."""
