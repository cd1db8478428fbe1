"""No form of a secret leaves a plugin, and what leaves is still what it was: text, value, JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.runtimes.redact import MASK, Redactor

# Without the mask's own character: a secret of stars cannot be told from its mask.
SECRETS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*"), min_size=4, max_size=20)
AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def forms(secret: str) -> list[str]:
    raw = secret.encode()
    return [
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        base64.b64encode(raw).decode().rstrip("="),
    ]


@given(SECRETS, AROUND, AROUND)
@settings(max_examples=300, deadline=None)
def test_no_form_of_a_secret_survives_in_a_text(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    for form in forms(secret):
        told = redactor.text(before + form + after)
        assert form not in told.replace(MASK, "\0")


@given(SECRETS, st.binary(max_size=7), st.binary(max_size=7))
@settings(max_examples=300, deadline=None)
def test_a_secret_within_something_in_base64_is_found(secret: str, before: bytes, after: bytes) -> None:
    whole = before + secret.encode() + after
    redactor = Redactor([secret])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        told = redactor.text(encode(whole).decode())
        assert MASK in told
        kept = max((len(each) for each in told.split(MASK)), default=0)
        assert kept <= len(encode(before + after)) + 8


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | AROUND,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AROUND, inner, max_size=3),
    max_leaves=8,
)


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in (key, *texts(inner))]
    if isinstance(value, list):
        return [each for inner in value for each in texts(inner)]
    return [json.dumps(value)]


def plant(value: object, secret: str) -> object:
    if isinstance(value, dict):
        return {f"{key}{secret}": plant(inner, secret) for key, inner in value.items()}
    if isinstance(value, list):
        return [plant(inner, secret) for inner in value]
    return f"{value}{secret}" if isinstance(value, str) else value


@pytest.mark.promise("CORE-13")
@given(VALUES, SECRETS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_json_document_stays_one_and_holds_no_secret(value: object, secret: str, escaped: bool) -> None:
    text = json.dumps(plant(value, secret), ensure_ascii=escaped)
    told = json.loads(Redactor([secret]).json_text(text))
    for each in texts(told):
        if each not in ("true", "false", "null"):
            assert secret not in each.replace(MASK, "\0")


@pytest.mark.parametrize("secret", ["1234", "null", "true", '":"a', '"},{"', "e+30", '\\"\\"'])
@pytest.mark.parametrize("value", [{"n": 512345, "a": None, "b": True, "c": 1e30}, [{"x": "a"}, {"y": '""'}]])
def test_a_secret_that_looks_like_json_breaks_no_result(secret: str, value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    told = json.loads(Redactor([secret]).json_text(text))
    assert all(secret not in each or each in ("null", "true") for each in texts(told))


def test_numbers_keep_their_digits_and_keys_their_order() -> None:
    text = '{"z":123456789012345678901234567890,"a":["hunter2!"],"m":0.1}'
    told = Redactor(["hunter2!"]).json_text(text)
    assert told == '{"z":123456789012345678901234567890,"a":["***"],"m":0.1}'


def test_a_text_without_secrets_is_the_same_object() -> None:
    text = "nothing to hide"
    assert Redactor(["hunter2!"]).text(text) is text
    assert Redactor(["hunter2!"]).json_text(text) is text


def test_the_longer_secret_goes_first() -> None:
    assert Redactor(["hunter", "hunter2222"]).text("hunter2222") == MASK


def test_a_value_too_short_to_be_a_secret_masks_nothing() -> None:
    assert Redactor(["a", ""]).text("banana") == "banana"


@pytest.mark.parametrize(
    "show", [repr, ascii, lambda text: repr(text.encode()), lambda text: repr(KeyError(text))]
)
def test_what_errors_show_of_a_secret_is_masked(show: Callable[[str], str]) -> None:
    secret = 'a\'key\\of "many"\nkinds\té\x01'
    told = Redactor([secret]).text(f"failed: {show(secret)}")
    assert MASK in told
    assert "many" not in told


def test_a_line_of_a_secret_key_is_masked_where_one_line_is_told() -> None:
    secret = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0B\n-----END KEY-----\n"
    for line in ("-----BEGIN KEY-----", "MIIEvQIBADANBgkq", "hkiG9w0B"):
        assert Redactor([secret]).text(f"cannot read {line}") == f"cannot read {MASK}"


def test_a_secret_in_json_in_json_is_masked() -> None:
    secret = 'a "word"\n'
    told = json.dumps({"body": json.dumps({"token": json.dumps(secret)})})
    assert "word" not in Redactor([secret]).json_text(told)
