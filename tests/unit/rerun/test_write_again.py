"""Writing again what a system has lost, by a committer that does what it must not: nothing is said to be there."""

import pytest

from onceflow.connectors.contract import Run
from onceflow.errors import PreCommitError, SinkContractError
from onceflow.execution.put_back import Lost, LostEpoch
from onceflow.rerun.lost_epochs import Again
from onceflow.rerun.write_again import _finish
from onceflow.twophase.messages import Reply
from onceflow.twophase.participants import Part, Participant, TaskReport

PART = Part("table", 0, 2, 7)
REPORTS = [TaskReport("table", 0, 0, (PART,), {"some": "thing"})]
RECEIPT = {"epoch": 4, "incarnation": 2, "sinks": {"table": {"rows": 2, "digest": "0000000000000007"}}}
AGAIN = Again(Run("0123456789ab", "onceflow", 9, -1), {"table": Lost((LostEpoch(4, 2, "then"),))}, lambda: None)


class Committer:
    """A user's, that notes what it is asked for."""

    def __init__(self, *, handle="then", parts=(PART,), reply=Reply.COMMITTED):
        self.handle, self.parts, self.reply = handle, parts, reply
        self.asked = []

    def seal(self, reports, run):
        self.asked.append(("seal", run.incarnation, run.epoch, dict(run.handles)))
        return [Participant("table", self.handle, self.parts, {})]

    def check(self, participants, run, age_s):
        return None

    def commit(self, participants):
        self.asked.append("commit")
        if isinstance(self.reply, Reply):
            return {p.id: self.reply for p in participants}
        raise self.reply

    def abort_run(self, run):
        self.asked.append("abort")


def test_an_epoch_is_written_as_of_the_start_that_decided_it():
    """With its handle, so that what is decided behind it follows it."""
    committer = Committer()
    _finish(AGAIN, 4, {"table": committer}, RECEIPT, REPORTS)
    assert committer.asked == [("seal", 2, 4, {"table": "then"}), "commit"]


@pytest.mark.parametrize("wrong", [{"handle": "another"}, {"parts": ()}])
def test_a_committer_that_seals_otherwise_is_refused(wrong):
    """Under a handle of its own the epoch would be lost still, and be written once more."""
    committer = Committer(**wrong)
    with pytest.raises(SinkContractError, match="sink table did not seal"):
        _finish(AGAIN, 4, {"table": committer}, RECEIPT, REPORTS)
    assert committer.asked[1:] == ["abort"]


@pytest.mark.parametrize("reply", [Reply.RETRY, KeyboardInterrupt()])
def test_a_commit_without_an_answer_is_not_taken_away(reply):
    """It may be committed yet, and then the table would name files that are gone."""
    committer = Committer(reply=reply)
    with pytest.raises((PreCommitError, KeyboardInterrupt)):
        _finish(AGAIN, 4, {"table": committer}, RECEIPT, REPORTS)
    assert committer.asked[1:] == ["commit"]
