"""How many tokens a text costs a model, estimated: models count differently, and none of them is asked here.

A word costs a token for every six letters begun, a number one for three digits, a character of Chinese,
Japanese or Korean about one, punctuation one for three marks; blanks go with the word behind them.
"""

from __future__ import annotations

import re
from itertools import islice

IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
#: More characters than this make more than one token, whatever they are: a run of blanks is not free.
CHARS_PER_TOKEN = 16
#: What one token holds. Matches do not overlap, and each costs one step: 1 MB takes about 0.1 s.
_TOKEN = re.compile(rf"[A-Za-z]{{1,6}}|[^\w\s{IDEOGRAPHS}]{{1,3}}|[0-9]{{1,3}}|[{IDEOGRAPHS}]|_|\w{{1,3}}")


def estimated_tokens(text: str) -> int:
    """About as many tokens as common models count: good for comparing and for budgets, not for a bill."""
    return len(_TOKEN.findall(text))


def exceeds(text: str, limit: int) -> bool:
    """Whether `text` has more than `limit` tokens. Takes no longer for a text that has many more."""
    if len(text) <= limit:
        return False
    if len(text) > limit * CHARS_PER_TOKEN:
        return True
    return next(islice(_TOKEN.finditer(text), limit, None), None) is not None
