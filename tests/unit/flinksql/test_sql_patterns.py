"""Groups of regular expressions: which take part in each match is told rightly, or not at all."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.flinksql.patterns import takes_part


@pytest.mark.parametrize(
    ("pattern", "number", "always"),
    [
        ("(&|^)channel_id=([^&]*)", 2, True),
        ("(&|^)channel_id=([^&]*)", 1, True),
        ("(a)|(b)", 1, False),
        ("((a)|b)(c)", 1, True),
        ("((a)|b)(c)", 2, False),
        ("((a)|b)(c)", 3, True),
        ("(x)?(y)", 1, False),
        ("(x)?(y)", 2, True),
        ("(?:(a)b)*(c)", 1, False),
        ("(?:(a)b){0,3}(c)", 1, False),
        ("(?:(a)b)+(c)", 1, True),
        ("(?!(a))(b)", 1, False),
        ("(?=(a))(.)", 1, True),
        ("(?<name>a)|b", 1, False),
        ("(?i)(a)", 1, True),
        (r"([a|?(]+)\)?", 1, True),
        (r"(a\|b)\(?", 1, True),
        (r"\Q(a)|\E(b)", 1, False),
        ("([a[b]])", 1, False),
        ("(a", 1, False),
        ("(a)(b)?", None, False),
        ("(a)(b)", None, True),
    ],
)
def test_a_group_that_each_match_has(pattern, number, always):
    """What is optional, beside a |, denied or not understood may be absent; anything else is there."""
    assert takes_part(pattern, number) is always


_ATOMS = st.sampled_from(["a", "b", "[ab|?]", r"\(", "."])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(st.sampled_from(["(", "(?:", "(?=", "(?!"]), inner).map(lambda each: f"{each[0]}{each[1]})"),
        st.tuples(st.sampled_from(["(", "(?:"]), inner, st.sampled_from(["?", "*", "+", "{0,2}", "{1}"])).map(
            lambda each: f"{each[0]}{each[1]}){each[2]}"
        ),
    ),
    max_leaves=6,
)


@given(_PATTERNS, st.text("ab(|?", max_size=6))
def test_no_match_leaves_out_a_group_that_is_said_to_take_part(pattern, text):
    """Over patterns of all these forms, and texts that they are found in."""
    compiled = re.compile(pattern)
    found = compiled.search(text)
    for number in range(1, compiled.groups + 1):
        if found is not None and takes_part(pattern, number):
            assert found.group(number) is not None
