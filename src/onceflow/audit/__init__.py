"""The auditor: a proof from outside that what consumers can see is what was decided.

Must not know: anything of onceflow. No file here imports one of another room (a house test holds it): it reads files,
topics and tables by their formats alone, as docs/audit.md has them, so that no fault of ours can hide itself.
"""
