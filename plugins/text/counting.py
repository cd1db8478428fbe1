"""How long a text is, counted as people count: characters, words, lines and sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Chinese, Japanese and Korean letters: each a word or syllable, written without blanks.
CJK = r"々-〇぀-ヿ㐀-䶿一-鿿가-힣豈-﫿ｦ-ﾟ\U00020000-\U0003FFFF"
_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[^\W_{CJK}]+(?:['’\-.][^\W_{CJK}]+)*+")
# A full stop ends a sentence only before a blank, so that 3.14 and example.com stay whole.
_SENTENCE_END = re.compile(r"[。！？｡…]++[”’」』）)\"']*+|[.!?]++[”’\"')\]]*+(?=\s|\Z)")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")


@dataclass(frozen=True)
class TextStats:
    """`words` is what a word processor counts: words between blanks, and each CJK character as one.

    `cjk_runs` counts unbroken stretches of CJK characters; `characters` are Unicode code points.
    """

    characters: int
    characters_without_blanks: int
    bytes_utf8: int
    words: int
    words_between_blanks: int
    cjk_characters: int
    cjk_runs: int
    lines: int
    blank_lines: int
    paragraphs: int
    sentences: int


def count(text: str) -> TextStats:
    """All counts of `text` in a few linear passes. A last line without a line feed is a line too."""
    feeds = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = feeds.split("\n")
    if lines[-1] == "":
        lines.pop()
    runs = _CJK_RUN.findall(text)
    words = sum(1 for _ in _WORD.finditer(text))
    cjk = sum(map(len, runs))
    return TextStats(
        characters=len(text),
        characters_without_blanks=len(text) - sum(map(str.isspace, text)),
        bytes_utf8=len(text.encode("utf-8", "surrogatepass")),
        words=words + cjk,
        words_between_blanks=words,
        cjk_characters=cjk,
        cjk_runs=len(runs),
        lines=len(lines),
        blank_lines=sum(not line.strip() for line in lines),
        paragraphs=sum(bool(part.strip()) for part in _PARAGRAPH_BREAK.split(feeds)),
        sentences=_sentences(feeds),
    )


def _sentences(text: str) -> int:
    """Pieces between sentence ends and paragraph breaks that hold a letter or digit."""
    pieces = (piece for part in _PARAGRAPH_BREAK.split(text) for piece in _SENTENCE_END.split(part))
    return sum(any(map(str.isalnum, piece)) for piece in pieces)
