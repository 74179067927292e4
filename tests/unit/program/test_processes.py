"""Who else may write to a file or a folder: its user, its group, a list of access."""

import grp
import os
import pwd
import struct

import pytest

from onceflow.processes import open_to_others, others_may_write

GROUP = 54_321


class Users:
    """A machine's users and groups, in the place of those of the machine that the tests run on."""

    def __init__(self, patch):
        self.users = {"shop": (os.geteuid(), GROUP), "eve": (54_322, 54_322)}
        self.groups = {GROUP: ("shop", []), 54_322: ("eve", [])}
        patch.setattr(pwd, "getpwall", lambda: [self._user(name) for name in self.users])
        patch.setattr(pwd, "getpwuid", self._of)
        patch.setattr(grp, "getgrgid", self._group)

    def _user(self, name):
        uid, gid = self.users[name]
        return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))

    def _of(self, uid):
        return next(user for user in pwd.getpwall() if user.pw_uid == uid) if self._has(uid) else self._unknown(uid)

    def _has(self, uid):
        return any(uid == each for each, _ in self.users.values())

    def _group(self, gid):
        if gid not in self.groups:
            self._unknown(gid)
        name, members = self.groups[gid]
        return grp.struct_group((name, "x", gid, members))

    @staticmethod
    def _unknown(number):
        raise KeyError(number)


@pytest.fixture
def users(monkeypatch):
    return Users(monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of this user and of a group that no system has, with the mode that umask 002 leaves."""
    made = tmp_path / "work"
    made.mkdir()
    made.chmod(0o775)
    about = list(made.stat())
    about[5] = GROUP
    monkeypatch.setattr(type(made), "stat", lambda self, **_: os.stat_result(about))  # only root gives files away
    return made


def test_what_the_group_of_one_user_may_write_others_may_not(users, folder):
    """Ubuntu, Debian and Fedora give each user such a group, and many of them umask 002."""
    assert not others_may_write(folder)


def test_the_group_may_name_its_user_as_a_member(users, folder):
    users.groups[GROUP] = ("shop", ["shop"])
    assert not others_may_write(folder)


def test_what_a_group_with_another_member_may_write_others_may(users, folder):
    users.groups[GROUP] = ("shop", ["shop", "eve"])
    assert others_may_write(folder)


def test_who_has_a_group_as_his_first_is_in_it_though_it_does_not_list_him(users, folder):
    users.users["eve"] = 54_322, GROUP
    assert others_may_write(folder)


def test_a_group_of_another_name_may_have_members_that_nobody_lists(users, folder):
    """A directory of users, as LDAP, tells those that it is asked for, and often no list of all."""
    users.groups[GROUP] = ("domain users", [])
    assert others_may_write(folder)


def test_what_a_group_that_is_not_known_may_write_others_may(users, folder):
    del users.groups[GROUP]
    assert others_may_write(folder)


def test_a_user_that_is_not_known_has_no_group_of_his_own(users, folder):
    """As the users of containers, who may all have the same group."""
    del users.users["shop"]
    assert others_may_write(folder)


def test_a_group_that_may_not_write_is_not_asked_for(users, folder, monkeypatch):
    users.groups.clear()
    about = list(folder.stat())
    about[0] &= ~0o020
    monkeypatch.setattr(type(folder), "stat", lambda self, **_: os.stat_result(about))
    assert not others_may_write(folder)


def test_a_list_of_access_names_others_where_the_group_has_none(users, folder):
    """Its mask stands in the mode in the place of what the group may."""
    nobody = 2**32 - 1
    entries = [(0x01, 7, nobody), (0x02, 7, 54_322), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    form = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(folder, "system.posix_acl_access", form)
    except OSError:
        pytest.skip("this file system has no lists of access")
    assert others_may_write(folder)


@pytest.mark.parametrize(
    ("above", "folder", "by"),
    [(0o755, 0o755, None), (0o1777, 0o700, None), (0o777, 0o700, "above"), (0o755, 0o777, "it")],
)
def test_others_change_a_folder_by_its_mode_or_by_laying_another_in_its_place(tmp_path, above, folder, by):
    made = tmp_path / "above" / "it"
    made.mkdir(parents=True)
    made.chmod(folder)
    made.parent.chmod(above)
    found = open_to_others(made)
    assert (found.name if found else None) == by


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_folder_that_another_user_has_made_is_his(tmp_path):
    """As in /tmp, under a name that he knows a job will have."""
    tmp_path.chmod(0o1777)
    assert open_to_others(tmp_path / "checkpoint") is None
    (tmp_path / "checkpoint").mkdir(mode=0o755)
    assert open_to_others(tmp_path / "checkpoint") is None
    os.chown(tmp_path / "checkpoint", 65_534, 65_534)
    assert open_to_others(tmp_path / "checkpoint") == tmp_path / "checkpoint"
