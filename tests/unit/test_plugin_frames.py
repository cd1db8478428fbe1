import struct

import pytest

from hermesd.plugin.frames import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    FrameDecoder,
    FrameFault,
    encode_frame,
)


def test_a_body_passes_through_untouched():
    body = '{"大":12345678901234567890,"b": 1.0}'.encode()
    frames = FrameDecoder().feed(encode_frame({"t": "call", "id": 1}, body))
    assert frames == [({"t": "call", "id": 1}, body)]


def test_a_frame_that_comes_byte_by_byte_is_given_once_whole():
    decoder = FrameDecoder()
    data = encode_frame({"t": "x"}, b"body") + encode_frame({"t": "y"})
    frames = [frame for index in range(len(data)) for frame in decoder.feed(data[index : index + 1])]
    assert frames == [({"t": "x"}, b"body"), ({"t": "y"}, b"")]
    assert decoder.pending == 0


def test_frames_that_come_together_are_given_together():
    data = b"".join(encode_frame({"t": "n", "id": n}) for n in range(5)) + b"\0\0"
    decoder = FrameDecoder()
    assert [head["id"] for head, _ in decoder.feed(data)] == [0, 1, 2, 3, 4]
    assert decoder.pending == 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack("!II", MAX_HEAD_BYTES + 1, 0), "was announced"),
        (struct.pack("!II", 2, MAX_BODY_BYTES + 1), "was announced"),
        (b"Traceback (most recent call last)", "was announced"),
        (struct.pack("!II", 4, 0) + b"oops", "no JSON"),
        (struct.pack("!II", 2, 0) + b"[]", "says its kind"),
        (struct.pack("!II", 2, 0) + b"{}", "says its kind"),
        (struct.pack("!II", 7, 0) + b'{"t":1}', "says its kind"),
        (struct.pack("!II", 100_000, 0) + b"[" * 100_000, "no JSON"),
        (struct.pack("!II", 2, 0) + b"\xff\xfe", "no JSON"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_reason(data, reason):
    with pytest.raises(FrameFault, match=reason):
        FrameDecoder().feed(data)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent():
    with pytest.raises(FrameFault, match="11 bytes; at most 10 are allowed"):
        encode_frame({"t": "x"}, b"x" * 11, max_body=10)
    assert encode_frame({"t": "x"}, b"x" * 10, max_body=10)


@pytest.mark.parametrize(
    "head", [{"t": "x", "v": object()}, {"t": "x", "v": float("nan")}, {"t": "x" * MAX_HEAD_BYTES}]
)
def test_a_head_that_cannot_be_told_is_refused_before_it_is_sent(head):
    with pytest.raises(FrameFault):
        encode_frame(head)


def test_a_lone_surrogate_in_a_head_does_not_break_the_stream():
    ((head, _body),) = FrameDecoder().feed(encode_frame({"t": "log", "message": "a\ud800b"}))
    assert head["message"] == "a\ud800b"
