"""Java's class archive is made here, by a small job that has Java write its classes down.

Must not know: what is done with the archive; a job only finds it (``local/class_archive.py``).
"""
