"""Receipts that are written anew."""

import hashlib
import json

from hypothesis import strategies as st


def seal(body):
    said = {k: v for k, v in body.items() if k not in ("hash", "signature")}
    return {
        **body,
        "hash": hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest(),
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changes(draw, body):
    """A receipt in which one place is something else, or gone."""
    body = json.loads(json.dumps(body))
    at = body
    while True:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        inner = at[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            at = inner
            continue
        if draw(st.booleans()):
            del at[key]
        else:
            at[key] = draw(JSON)
        return body
