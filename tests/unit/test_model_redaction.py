"""What a record must not keep is taken out of it, wherever it stands and however it is written."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.model.redaction import KEPT, Redaction

PLAIN = Redaction()
CARD = "4111 1111 1111 1111"

SECRETS = {
    "a bearer token": "Authorization: Bearer abcdef0123456789abcdef",
    "a key of a model's API": "use sk-proj-abcdefghij0123456789ABCDEFGHIJ please",
    "a token of a forge": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "a chat token": "xoxb-123456789012-abcdefghijkl",
    "a cloud's key": "AKIAIOSFODNN7EXAMPLE",
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "a private key that is cut off": "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA",
    "a password in an address": "postgres://ann:hunter22@db.example.com/x",
    "a parameter of an address": "https://x.example/?api_key=abcdef123&x=1",
    "JSON within a text": '{"password": "hunter22"}',
    "a card's number": CARD,
    "a card's number with its date": f"{CARD} 12 27",
    "an e-mail address": "写信给 ann.lee+x@mail.example.com 吧",
    "an address in Chinese": "用户@例子.公司",
}
BETRAYED = (
    "abcdef0123456789abcdef", "sk-proj", "ghp_0123", "xoxb-1", "AKIAIO", "eyJhbG", "MIIEow", "hunter22",
    "abcdef123", "4111", "ann.lee", "用户",
)  # fmt: skip


@pytest.mark.promise("REC-1")
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS.keys())
def test_a_value_that_betrays_something_is_taken_out_of_texts_and_of_json(text: str) -> None:
    document = json.dumps({"note": [text, {"deep": text}]}, ensure_ascii=False)
    escaped = json.dumps({"note": text})
    for seen in (PLAIN.text(text), PLAIN.excerpt(document).text, PLAIN.excerpt(escaped).text):
        assert not [each for each in BETRAYED if each in seen], seen
        assert "[redacted" in seen
    assert json.loads(PLAIN.excerpt(document).text)["note"][1]["deep"] == PLAIN.text(text)
    assert PLAIN.excerpt(document).redacted


@pytest.mark.promise("REC-1")
@pytest.mark.parametrize(
    "key",
    ["password", "PassWord", "db_password", "apiKey", "API-Key", "access_token", "Authorization", "密码",
     "client_secret", "Set-Cookie", "token"],
)  # fmt: skip
@pytest.mark.parametrize(
    "value", ["v4lue", "", 17, 1.5, True, None, ["v4lue", {"a": "v4lue"}], {"a": ["v4lue"]}, {}, []]
)
def test_the_value_of_a_hidden_key_goes_whatever_it_is(key: str, value: object) -> None:
    document = {"before": 1, key: value, "after": {"x": [1, 2]}}
    seen = PLAIN.excerpt(json.dumps(document, ensure_ascii=False))
    assert json.loads(seen.text) == {**document, key: "[redacted]"}
    escaped = "".join(f"\\u{ord(each):04x}" for each in key)
    seen = PLAIN.excerpt(f'{{"{escaped}": {json.dumps(value)}}}')
    assert list(json.loads(seen.text).values()) == ["[redacted]"]


@pytest.mark.promise("REC-1")
def test_the_operators_globs_are_hidden_too() -> None:
    redaction = Redaction(["*.internal*", "patient?name", "x[ab]"])
    document = {"a.internal.b": 1, "patient_name": "Ann", "patient-name": "Ann", "xa": 2, "xc": 3}
    seen = json.loads(redaction.excerpt(json.dumps(document)).text)
    assert [value for value in seen.values() if value != "[redacted]"] == [3]
    assert Redaction(["*"]).excerpt('{"a": {"b": 1}}').text == '{"a":"[redacted]"}'


@pytest.mark.promise("REC-1")
def test_known_secrets_are_masked_before_anything_else_even_across_the_cut() -> None:
    secret = "s" * 1500
    redaction = Redaction(mask=lambda text: text.replace(secret, "***"), longest=len(secret))
    text = json.dumps("x" * (KEPT - 10) + secret + "y" * 5000)
    seen = redaction.excerpt(text)
    assert "ss" not in seen.text
    assert seen.cut
    assert seen.redacted


def test_addresses_may_stay_for_who_decides_by_them() -> None:
    text = json.dumps({"to": "ann@x.example", "password": "x", "note": "Bearer abcdef0123456789abcdef"})
    seen = json.loads(Redaction(mail=False).excerpt(text).text)
    assert seen == {"to": "ann@x.example", "password": "[redacted]", "note": "Bearer [redacted token]"}


def test_what_betrays_nothing_stays_letter_by_letter() -> None:
    for value in (
        {
            "order_id": "A-17",
            "count": 3,
            "文本": "你好",
            "tokens": 12,
            "keyboard": "qwerty",
            "time": 1764531600000,
        },
        {"id": "0193a5f2-7c1e-7000-8000-3f2a1b4c5d6e", "path": "/a/b", "url": "https://x.example/a?b=c"},
        ["4111 1111 1111 1112", 5000000000000001, "1.2.3", "@ann", "a@b", "passage", "secretary general"],
    ):
        text = json.dumps(value, ensure_ascii=False)
        seen = PLAIN.excerpt(text)
        assert seen.text == text
        assert seen.whole


def test_a_side_is_cut_at_2_kib_of_bytes_and_says_so() -> None:
    seen = PLAIN.excerpt(json.dumps("文" * 5000, ensure_ascii=False))
    assert len(seen.text.encode()) in range(KEPT - 3, KEPT + 1)
    assert seen.cut
    assert not seen.redacted
    assert PLAIN.excerpt('"' + "a" * (KEPT - 2) + '"').whole
    assert PLAIN.excerpt('"\ud800"').text.encode() == b'"?"'


@pytest.mark.promise("REC-1")
def test_a_hidden_value_that_the_cut_goes_through_is_hidden() -> None:
    for value in ('"' + "v" * 9000, "[" + "1," * 5000, '{"a": {"b": "' + "v" * 9000):
        seen = PLAIN.excerpt('{"password": ' + value)
        assert seen.text == '{"password":"[redacted]"'
        assert seen.cut


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["password", "to\nken"]), inner)
    ),
    max_leaves=20,
)


@given(JSON, st.booleans())
@settings(max_examples=200)
def test_json_stays_json_and_a_second_time_changes_nothing(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    seen = PLAIN.excerpt(text, 1_000_000)
    if seen.cut:
        return
    json.loads(seen.text.encode())
    assert PLAIN.excerpt(seen.text, 1_000_000).text == seen.text


@given(st.text(alphabet='"\\{}[],: ax@.4-pasword\n', max_size=400))
@settings(max_examples=200)
def test_anything_at_all_can_be_read(text: str) -> None:
    assert len(PLAIN.excerpt(text).text.encode()) <= KEPT


@pytest.mark.parametrize(
    "unit", ["a", "a@", "4", "4 ", "eyJa.", '\\"', '"a":', "[", "token=", "://a:", "-----BEGIN "]
)
def test_no_text_takes_longer_than_its_length(unit: str) -> None:
    text = unit * (3000 // len(unit))
    began = time.perf_counter()
    PLAIN.excerpt(text)
    PLAIN.excerpt(json.dumps(text))
    assert time.perf_counter() - began < 0.1
