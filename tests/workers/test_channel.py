"""Replies are read whatever was written: the reply that was asked for, or an error of one of three kinds."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegbox.workers.channel import BrokenReply, Reply, encode_reply, read_reply

TOKEN = bytes(range(16))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def read(written: bytes, *, most: int = 1 << 14) -> Reply:
    """Return the result of reading bytes from a pipe that is then closed."""
    reader, writer = os.pipe()
    try:
        os.write(writer, written)
        os.close(writer)
        return read_reply(reader, TOKEN, most=most)
    finally:
        os.close(reader)


@given(JSON | st.binary(max_size=1000))
def test_data_and_bytes_come_as_they_were(value: Any) -> None:
    reply = Reply(value, raised=False)
    assert read(encode_reply(TOKEN, reply)) == reply


def test_an_error_comes_as_two_texts() -> None:
    reply = Reply(["ValueError: seven", "line 7"], raised=True)
    assert read(encode_reply(TOKEN, reply)) == reply


@given(st.binary(max_size=200))
def test_noise_is_no_reply(noise: bytes) -> None:
    with pytest.raises((BrokenReply, EOFError)):
        read(noise)


@given(st.binary(max_size=100), st.sampled_from([b"d", b"r", b"x"]))
def test_any_body_after_the_right_token_is_data_or_broken(body: bytes, kind: bytes) -> None:
    written = encode_reply(TOKEN, Reply(body, raised=False)).replace(TOKEN + b"b", TOKEN + kind)
    try:
        reply = read(written)
    except BrokenReply:
        return
    assert reply == Reply(json.loads(body), raised=kind == b"r")


@pytest.mark.parametrize("body", [b"[" * 10_000, b"1" * 9_000, b"NaN", b"Infinity", b"\xff", b""])
def test_what_json_readers_stumble_over_is_broken(body: bytes) -> None:
    with pytest.raises(BrokenReply, match="no JSON"):
        read(encode_reply(TOKEN, Reply(body, raised=False)).replace(TOKEN + b"b", TOKEN + b"d"))


@pytest.mark.parametrize("value", [{}, 7, ["one"], ["one", 2], "text"])
def test_an_error_in_another_form_is_broken(value: Any) -> None:
    with pytest.raises(BrokenReply, match="two texts"):
        read(encode_reply(TOKEN, Reply(value, raised=True)))


def test_a_length_that_is_not_allowed_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BrokenReply, match="1,001"):
        read(encode_reply(TOKEN, Reply(bytes(1001), raised=False))[:30], most=1000)


def test_a_reply_cut_short_is_the_end() -> None:
    whole = encode_reply(TOKEN, Reply({"costs": [1.0]}, raised=False))
    for length in range(len(whole)):
        with pytest.raises(EOFError):
            read(whole[:length])
