"""Keeps the values of a plugin's secrets out of whatever leaves it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import cast
from urllib.parse import quote, quote_plus

MASK = "***"
#: A shorter value would mask half of every text; nobody's secret is that short.
SHORTEST = 4
#: Of a secret of many lines, such as a key: a shorter one of them says nothing.
SHORTEST_LINE = 8


class Redactor:
    """Replaces each secret value, also escaped, in base64 and URL encoding, by `***`."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)

    @property
    def longest(self) -> int:
        """Characters of the longest form of any secret."""
        return len(self._forms[0]) if self._forms else 0

    def text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def value(self, value: object) -> object:
        """The same for a value of JSON, through all its texts and keys."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(each) for each in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            told = json.dumps(value)
            return MASK if any(form in told for form in self._forms) else value
        return value

    def json_text(self, text: str) -> str:
        """The same for the text of a JSON document, which stays one whatever the secrets look like."""
        if not any(form in text for form in self._forms):
            return text
        return json.dumps(self.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))

    def payload(self, payload: dict[str, object]) -> dict[str, object]:
        """A progress or log payload."""
        return cast("dict[str, object]", self.value(payload)) if self._forms else payload


def _forms(value: str) -> Iterable[str]:
    raw = value.encode()
    yield value
    # An error tells its first line, and a log one line at a time.
    yield from (line for line in value.splitlines() if len(line.strip()) >= SHORTEST_LINE)
    for ensure_ascii in (True, False):
        quoted = value
        for _ in range(3):  # in JSON, in a text of that JSON, and once more
            quoted = json.dumps(quoted, ensure_ascii=ensure_ascii)[1:-1]
            yield quoted
    # As errors show what they are about: KeyError, for one.
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
    yield repr(raw)[2:-1]
    yield raw.hex()
    yield quote(value)
    yield quote(value, safe="")
    yield quote_plus(value)
    # Base64 of a text that contains the secret differs with the secret's place in its group of three.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
        # Only the letters that are wholly the secret's own.
        whole = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        if len(whole) >= SHORTEST:
            yield whole
            yield whole.replace("+", "-").replace("/", "_")
