"""What reading a value raises that somebody else has made, or that is spoiled: one list, so that no reader forgets one.

Must not know: any value's form.
"""

from __future__ import annotations

OTHER_FORM = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""An infinite number for a whole one; a list for an object; what is missing; what is nested too deeply to be read; a
value of another type; no JSON, no UTF-8, or no number."""
