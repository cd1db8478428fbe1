"""The frame codec against anything."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.plugin.frames import FrameDecoder, FrameFault, encode_frame

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
heads = st.dictionaries(st.text(max_size=8), json_values, max_size=4).map(lambda head: {**head, "t": "kind"})


@settings(deadline=None)
@given(st.lists(st.tuples(heads, st.binary(max_size=200)), max_size=6), st.lists(st.integers(1, 97)))
def test_what_goes_in_comes_out_however_it_is_cut(frames, cuts):
    data = b"".join(encode_frame(head, body) for head, body in frames)
    decoder = FrameDecoder()
    seen = []
    for cut in cuts:
        seen += decoder.feed(data[:cut])
        data = data[cut:]
    seen += decoder.feed(data)
    assert seen == frames
    assert decoder.pending == 0


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_garbage_is_refused_or_awaited_and_never_kept_beyond_bounds(chunks):
    decoder = FrameDecoder(max_body=500)
    with contextlib.suppress(FrameFault):
        for chunk in chunks:
            for head, body in decoder.feed(chunk):
                assert isinstance(head["t"], str)
                assert len(body) <= 500


@settings(deadline=None)
@given(heads, st.binary(max_size=50), st.data())
def test_a_flipped_byte_is_never_worse_than_a_fault(head, body, data):
    frame = bytearray(encode_frame(head, body))
    index = data.draw(st.integers(0, len(frame) - 1))
    frame[index] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(FrameFault):
        FrameDecoder(max_body=100).feed(bytes(frame))
