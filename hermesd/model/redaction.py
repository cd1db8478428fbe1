"""What must not stand in a record is taken out before the record is written.

By key (`password`, `*token*`, what the operator adds) and by value: tokens, keys, card numbers, e-mail
addresses, secrets of the configuration. JSON is read as a stream of texts, numbers and marks rather than
parsed: a record keeps the first 2 KiB of a side, and what was cut there is no JSON any more.

No pattern repeats without a bound or a separator that it cannot match, so that none takes more than
linear time, whatever a caller sends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate

#: Bytes of one side that a record keeps.
KEPT = 2048
#: Characters that are read beyond them, so that a secret which begins in the kept part is seen whole.
BEYOND = 1024
MASK = "[redacted]"

#: Keys whose values are never written, whatever they are. Case, `-` and `_` make no difference.
DEFAULT_KEYS = (
    "*password*", "*passwd*", "*passphrase*", "pwd", "*secret*", "*token", "token_*", "*api_key*",
    "*access_key*", "*private_key*", "*encryption_key*", "*signing_key*", "authorization", "*cookie",
    "*credential*", "*card_number*", "cvv", "cvc", "ssn", "密码", "口令", "密钥", "令牌",
)  # fmt: skip

_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})(?P<colon>\s*+:)?|(?P<number>-?\d[\d.eE+-]*+)|(?P<mark>[{{}}\[\],])", re.S
)
_SEPARATORS = re.compile(r"[-_\s.]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _redacted(kind: str) -> str:
    return f"[redacted {kind}]"


_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.S)
_JWT = re.compile(r"\beyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+)?")
_SCHEME = re.compile(r"\b(bearer|basic|digest)(\s{1,8})[\w.~+/=-]{12,}+", re.I)
_KNOWN = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}+"  # model APIs, payment
    r"|\bgh[pousr]_\w{20,}+|\bgithub_pat_\w{20,}+|\bglpat-[\w-]{16,}+"
    r"|\bxox[abeoprs]-[\w-]{10,}+|\bxapp-[\w-]{10,}+"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}+|\bya29\.[\w-]{16,}+"
    r"|\b(?:npm_|hf_|pypi-|dop_v1_|shpat_|lin_api_|ntn_|dapi)\w[\w-]{16,}+|\bSG\.[\w-]{16,}+\.[\w-]{16,}+"
)
_USERINFO = re.compile(r"(://[^/\s:@\"]{0,128}:)[^/\s@\"]{1,256}@")
_ASSIGNED = re.compile(
    r"((?:password|passwd|passphrase|pwd|secret|token|api[-_]?key|access[-_]?key|authorization)"
    r"[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4})(?!\[redacted)([^\s\"'\\,;&}]{3,})",
    re.I,
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[\w-]{2,24}")
#: By the first digit.
_CARD_LENGTHS = {"2": (16,), "3": (14, 15, 16), "4": (13, 16, 19), "5": (16,), "6": (16, 17, 18, 19)}
_CARD = re.compile(r"(?<![\w.])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w])")

#: What betrays itself by its form, and what stands in its place.
_VALUES: tuple[tuple[re.Pattern[str], str], ...] = (
    (_KEY_BLOCK, _redacted("private key")),
    (_JWT, _redacted("token")),
    (_SCHEME, rf"\1\2{_redacted('token')}"),
    (_KNOWN, _redacted("token")),
    (_USERINFO, rf"\1{MASK}@"),
    (_ASSIGNED, rf"\1{MASK}"),
    (_MAIL, _redacted("e-mail")),
)
# Seen from afar: a text that none of these finds anything in is left as it is, which most texts are.
#: The words of `_ASSIGNED` and `_KEY_BLOCK`, in lower case.
_WORDS = ("pass", "pwd", "secret", "token", "key", "authoriz")
#: What every match of `_JWT`, `_SCHEME`, `_KNOWN`, `_USERINFO` and `_MAIL` holds, in lower case.
_MARKS = (
    "@", "eyj", "bearer", "basic", "digest", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_", "ghu_",
    "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "akia", "asia", "aiza", "ya29.", "npm_", "hf_",
    "pypi-", "dop_v1_", "shpat_", "lin_api_", "ntn_", "dapi", "sg.",
)  # fmt: skip
#: What every card number begins with.
_DIGITS = re.compile(r"[2-6][0-9]{3}[0-9 -]{9}")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a JSON text as a record may keep it.

    `redacted`: something was taken out; `cut`: it goes on; either way it cannot stand for the whole.
    """

    text: str
    redacted: bool = False
    cut: bool = False

    @property
    def whole(self) -> bool:
        return not (self.redacted or self.cut)


class Redaction:
    """Takes out what `keys` (globs, beside DEFAULT_KEYS) and the patterns of values name.

    `mask` is applied first: it takes out values that are known, such as the configuration's secrets, of
    which the longest has `longest` characters. `mail` False: e-mail addresses stay, for who decides by them.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        mask: Callable[[str], str] = lambda text: text,
        longest: int = 0,
        *,
        mail: bool = True,
    ) -> None:
        globs = [_SEPARATORS.sub("_", each.casefold()) for each in (*DEFAULT_KEYS, *keys)]
        bodies = [translate(each) for each in dict.fromkeys(globs)]
        self._key = re.compile("|".join(bodies))
        # The same through the eyes of a search: any key that matches holds one of these.
        self._cores = _cores(globs)
        self._mask = mask
        self._patterns = _VALUES if mail else tuple(each for each in _VALUES if each[0] is not _MAIL)
        self.window = KEPT + max(BEYOND, longest)
        self._known: dict[str, bool] = {}

    def text(self, text: str) -> str:
        """`text` for people, such as an error's message, without what its values betray."""
        return self._values(self._mask(text))

    def hides(self, key: str) -> bool:
        """Whether the value of `key` is never written."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 1000:
                self._known.clear()
            # `apiKey` is one word or two, whoever wrote the glob.
            forms = (key, _HUMP.sub("_", key))
            known = any(self._key.match(_SEPARATORS.sub("_", each.casefold())) for each in forms)
            self._known[key] = known
        return known

    def excerpt(self, text: str, limit: int = KEPT) -> Excerpt:
        """The first `limit` bytes (UTF-8) of a JSON text, redacted; what cannot be encoded becomes "?".

        Reads at most `window` characters. Valid JSON that is not cut stays valid, `mask` apart.
        """
        window = text[: self.window]
        seen = self._json(self._mask(window))
        redacted = seen != window
        if seen.isascii():
            kept = seen[:limit]
        else:
            data = seen.encode("utf-8", "replace")
            seen, kept = data.decode(), data[:limit].decode("utf-8", "ignore")
        return Excerpt(kept, redacted, len(text) > len(window) or len(kept) < len(seen))

    def _json(self, text: str) -> str:
        # An escape may stand for a letter of a key or a slash of an address: then nothing is seen from afar.
        escaped = "\\u" in text or "\\/" in text
        return _Pass(self, text).run() if escaped or self._suspicious(text) else text

    def _suspicious(self, text: str) -> bool:
        """Whether something may have to be taken out of a JSON text without escaped letters."""
        folded = text.lower() if text.isascii() else text.casefold()
        if _betrays(folded):
            return True
        for core in self._cores:  # noqa: SIM110 - `any` takes twice as long, on the text of every record
            if core in folded:
                return True
        return False

    def _values(self, text: str) -> str:
        folded = text.casefold()
        if not _betrays(folded) and not any(word in folded for word in _WORDS):
            return text
        for pattern, mask in self._patterns:
            text = pattern.sub(mask, text)
        return _CARD.sub(_masked_card, text) if _DIGITS.search(text) is not None else text


def _betrays(folded: str) -> bool:
    """Whether a value may stand in a text, in lower case, that shows by its form what it is."""
    for mark in _MARKS:
        if mark in folded:
            return True
    return _DIGITS.search(folded) is not None


class _Pass:
    """One way through the text of a JSON document, whole or cut off."""

    def __init__(self, redaction: Redaction, text: str) -> None:
        self._redaction = redaction
        self._text = text
        self._out: list[str] = []
        self._done = 0
        #: How deep within a hidden value; None: what comes is not hidden. 0: the value itself is awaited.
        self._hidden: int | None = None

    def run(self) -> str:
        for match in _TOKEN.finditer(self._text):
            if self._hidden is not None:
                self._hide(match)
            elif match["string"] is not None:
                self._string(match)
            elif match["number"] is not None:
                self._put(match, "number", self._number(match["number"]))
        if self._hidden is None:
            self._out.append(self._text[self._done :])
        elif self._done < len(self._text):
            self._out.append(json.dumps(MASK))
        return "".join(self._out)

    def _string(self, match: re.Match[str]) -> None:
        string = match["string"]
        content = _content(string)
        if match["colon"] is not None and self._redaction.hides(content):
            self._out.append(self._text[self._done : match.end()])
            self._done = match.end()
            self._hidden = 0
            return
        seen = self._redaction._values(content)
        if seen != content:
            closed = string.endswith('"') and len(string) > 1
            encoded = json.dumps(seen, ensure_ascii=False)
            self._put(match, "string", encoded if closed else encoded[:-1])

    def _number(self, number: str) -> str:
        return number if _CARD.sub(_masked_card, number) == number else json.dumps(_redacted("card"))

    def _hide(self, match: re.Match[str]) -> None:
        """Leave out the value of a hidden key, whatever it is made of; `null` says nothing and may stay."""
        mark = match["mark"]
        depth = self._hidden or 0
        if mark in ("{", "["):
            self._hidden = depth + 1
            return
        if mark in ("}", "]"):
            if depth == 0:  # the value was a bare word (true, null) and the container ends
                self._reveal(match.start())
                return
            self._hidden = depth - 1
            if depth == 1:
                self._reveal(match.end())
            return
        if depth == 0:
            self._reveal(
                match.start() if mark == "," else match.end("string" if match["string"] else "number")
            )

    def _reveal(self, end: int) -> None:
        self._out.append(json.dumps(MASK))
        self._done = end
        self._hidden = None

    def _put(self, match: re.Match[str], group: str, text: str) -> None:
        self._out.append(self._text[self._done : match.start(group)])
        self._out.append(text)
        self._done = match.end(group)


def _content(string: str) -> str:
    """What a string's text says, also when it is cut off or malformed."""
    if "\\" not in string:
        return string.strip('"')
    body = string[1:-1] if len(string) > 1 and string.endswith('"') else string[1:]
    for _ in range(7):  # what is cut off of one escape, `\\ud83d` at the longest
        try:
            said: str = json.loads(f'"{body}"', strict=False)
        except ValueError:
            body = body[:-1]
        else:
            return said
    return string


def _masked_card(match: re.Match[str]) -> str:
    """A card's number may stand before other digits, such as the date to which it is valid."""
    digits = ""
    for group in re.split("[ -]", match.group()):
        digits += group
        if len(digits) in _CARD_LENGTHS[digits[0]] and _luhn(digits):
            return _redacted("card")
    return match.group()


def _luhn(number: str) -> bool:
    digits = [int(each) for each in number]
    doubled = [each * 2 - 9 * (each > 4) for each in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _cores(globs: Iterable[str]) -> tuple[str, ...]:
    """Texts of which every key that matches one of `globs` holds one; "" where a glob asks for no letter."""
    cores = list(_WORDS)
    for glob in globs:
        parts = re.split(r"\[.*?\]|[*?\[_]", glob)
        if not any(core in part for core in cores for part in parts):
            cores.append(min((each for each in parts if len(each) > 2), key=len, default=max(parts, key=len)))
    return tuple(cores)
