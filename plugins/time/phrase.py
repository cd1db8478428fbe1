"""The words of dates and times, English and Chinese, as patterns and tables."""

from __future__ import annotations

import re
import unicodedata

UNITS = {
    "second": "seconds", "sec": "seconds", "s": "seconds", "秒": "seconds", "秒钟": "seconds",
    "minute": "minutes", "min": "minutes", "m": "minutes", "分": "minutes", "分钟": "minutes",
    "hour": "hours", "hr": "hours", "h": "hours", "小时": "hours", "个小时": "hours", "钟头": "hours",
    "个钟头": "hours", "day": "days", "d": "days", "天": "days", "week": "weeks", "wk": "weeks",
    "w": "weeks", "周": "weeks", "星期": "weeks", "个星期": "weeks", "个礼拜": "weeks", "礼拜": "weeks",
    "month": "months", "mo": "months", "个月": "months",
    "year": "years", "yr": "years", "y": "years", "年": "years",
}  # fmt: skip
ENGLISH_NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine"
    "": 9, "ten": 10, "eleven": 11, "twelve": 12, "a": 1, "an": 1, "half": 0.5, "half an": 0.5, "half a": 0.5,
}  # fmt: skip
MONTHS = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8,
    "september": 9, "october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4,
    "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
WEEKDAYS = {
    "monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6,
    "mon": 0, "tue": 1, "tues": 1, "wed": 2, "thu": 3, "thur": 3, "thurs": 3, "fri": 4, "sat": 5, "sun": 6,
    "1": 0, "2": 1, "3": 2, "4": 3, "5": 4, "6": 5, "7": 6, "日": 6, "天": 6,
}  # fmt: skip
NAMED_DAYS = {
    "today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2,
    "day after tomorrow": 2, "the day before yesterday": -2, "day before yesterday": -2,
    "今天": 0, "今日": 0, "今晚": 0, "今早": 0,
    "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "后天": 2, "大后天": 3,
    "昨天": -1, "昨日": -1, "昨晚": -1, "前天": -2, "大前天": -3,
}  # fmt: skip
#: Half of the day that a named day already tells: 今晚8点 is at 20:00.
DAY_HALVES = {
    "今晚": "晚上",
    "明晚": "晚上",
    "昨晚": "晚上",
    "今早": "早上",
    "明早": "早上",
    "tonight": "晚上",
}
#: Offsets of the abbreviations that RFC 2822 defines; all others mean several zones.
RFC_ZONES = {"est": -5, "edt": -4, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7, "utc": 0, "gmt": 0, "z": 0}
DOUBTFUL_ZONES = {
    "cst": "America/Chicago (-06:00) or Asia/Shanghai (+08:00)",
    "ist": "Asia/Kolkata (+05:30), Europe/Dublin (+01:00) or Asia/Jerusalem (+02:00)",
    "bst": "Europe/London (+01:00) or Asia/Dhaka (+06:00)",
    "ast": "America/Halifax (-04:00) or Asia/Riyadh (+03:00)",
}


def _either(words: object) -> str:
    return "|".join(re.escape(each) for each in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


# Every number is bounded, and so is the text that is read at all: no pattern here can run for long.
_AMOUNT = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|(?<![a-z])(?:{_either(ENGLISH_NUMBERS)})(?![a-z])|半)"
_CHINESE_UNIT = _either(each for each in UNITS if not each.isascii())
_ENGLISH_UNIT = _either(each for each in UNITS if each.isascii())
_UNIT = rf"(?:{_CHINESE_UNIT}|(?:{_ENGLISH_UNIT})s?(?![a-z]))"
ONE_AMOUNT = re.compile(rf"({_AMOUNT})\s?({_UNIT})(半)?")
RELATIVE = re.compile(
    rf"(?P<future>in\s|再过)?\s?(?P<spans>{_AMOUNT}\s?{_UNIT}半?(?:\s?(?:,|and|零|又)?\s?{_AMOUNT}\s?{_UNIT}半?){{0,5}})"
    r"\s?(?P<way>ago|from now|later|hence|earlier|以前|之前|以后|之后|前|后)?"
)
NAMED_DAY = re.compile(rf"(?<![a-z])(?:{_either(NAMED_DAYS)})(?![a-z])")
_WEEKDAY_WORDS = _either(each for each in WEEKDAYS if each.isascii() and each.isalpha())
WEEKDAY = re.compile(
    rf"(?<![a-z])(?P<which>next|last|this|coming|past)?\s?(?P<day>{_WEEKDAY_WORDS})\.?(?![a-z])"
    r"|(?P<zh>上上个?|上个?|本|这个?|下下个?|下个?)?(?:周|星期|礼拜)(?P<zhday>[1-7日天])"
)
CHINESE_DATE = re.compile(
    r"(?:(\d{4})年\s?)?(\d{1,2})月\s?(?:(\d{1,2})[日号])?|(\d{4})年|(?<!\d)(\d{1,2})[日号]"
)
ISO_DATE = re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?(?!\d)")
SLASH_DATE = re.compile(r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d)")
_MONTH_WORDS = _either(MONTHS)
DAY_MONTH = re.compile(
    rf"(?<![\da-z])(\d{{1,2}})(?:st|nd|rd|th)?\s?(?:of\s|-)?\s?({_MONTH_WORDS})\.?(?![a-z])(?:,?[\s-]?(\d{{4}})(?!\d))?"
)
MONTH_DAY = re.compile(
    rf"(?<![a-z])({_MONTH_WORDS})\.?\s?(\d{{1,2}})(?:st|nd|rd|th)?(?![\d:a-z])(?:,?\s?(\d{{4}})(?!\d))?"
)
#: `Nov 28 10:00:00 2026`, as C's ctime and git write it: the year stands after the clock.
CTIME = re.compile(rf"((?:{_MONTH_WORDS})\.? \d{{1,2}}) (\d{{1,2}}:\d{{2}}:\d{{2}}) (\d{{4}})(?!\d)")
MONTH_YEAR = re.compile(rf"(?<![a-z])({_MONTH_WORDS})\.?\s(\d{{4}})(?!\d)")
_HALF = "凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|半夜"
CLOCK = re.compile(
    rf"(?P<half>{_HALF})?\s?(?:t(?=\d))?(?<![\d:])(?P<h>\d{{1,2}}):(?P<m>\d{{2}})(?::(?P<s>\d{{2}})(?:[.,](?P<f>\d{{1,9}}))?)?"
    r"\s?(?P<ap>[ap]\.?m\.?(?![a-z]))?"
)
CHINESE_CLOCK = re.compile(
    rf"(?P<half>{_HALF})?\s?(?<!\d)(?P<h>\d{{1,2}})[点时](?:钟|整)?(?:(?P<part>半|[13]刻)|(?P<m>\d{{1,2}})分?(?:(?P<s>\d{{1,2}})秒)?)?"
)
AMPM = re.compile(r"(?<![\d:])(?P<h>\d{1,2})\s?(?P<ap>[ap]\.?m\.?)(?![a-z])")
NAMED_CLOCK = re.compile(
    rf"(?<![a-z])(?P<word>noon|midday|midnight|正午|午夜)(?![a-z])|(?P<half>{_HALF})(?!\d)"
)
OFFSET = re.compile(
    r"(?P<lead>:\d{2}(?:[.,]\d{1,9})?|[ap]\.?m\.?|[点时分秒半整钟]|(?<![a-z])(?:utc|gmt))"
    r"\s?(?P<offset>[+-]\d{1,2}(?::?\d{2})?)(?:\s?\([a-z]{1,5}\))?\s*\Z"
)
ZONE_WORD = re.compile(
    r"(?<![a-z/])\(?(?P<abbr>[a-z]{1,5})\)?\s*\Z"
    r"|(?<=\s)\(?(?P<iana>[a-z][a-z_]*(?:/[a-z0-9_+-]+){1,2})\)?\s*\Z"
    r"|(?P<zh>北京时间|北京時間)"
)
FILLER = re.compile(r"[\s,，、。.()]+|(?<![a-z])(?:at|on|the|of|t)(?![a-z])|的|在")

_DIGITS = {char: index for index, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_AND_A_HALF = re.compile(r"(\d)个半(小时|钟头|月|星期)")
_NUMERAL = re.compile(r"[零〇一二两三四五六七八九十百]+")


def normalise(text: str) -> str:
    """Lower case, half-width, single blanks, Chinese numerals as digits."""
    text = unicodedata.normalize("NFKC", text).lower().strip()
    text = re.sub(r"\s+", " ", text)
    return _AND_A_HALF.sub(r"\1.5\2", _NUMERAL.sub(_as_digits, text))


def _as_digits(match: re.Match[str]) -> str:
    """`二〇二六` reads digit by digit, `二十三` by place, as they are spoken."""
    word = match.group()
    if "十" not in word and "百" not in word:
        return "".join(str(_DIGITS[char]) for char in word)
    hundreds, _, rest = word.rpartition("百")
    total = (
        100 * (_DIGITS[hundreds[-1]] if hundreds and hundreds[-1] in _DIGITS else 1) if "百" in word else 0
    )
    if "十" not in rest:
        return str(total + (_DIGITS[rest[-1]] if rest and rest[-1] in _DIGITS else 0))
    tens, _, ones = rest.partition("十")
    total += 10 * (_DIGITS[tens[-1]] if tens and tens[-1] in _DIGITS and tens[-1] not in "零〇" else 1)
    return str(total + (_DIGITS[ones[0]] if ones and ones[0] in _DIGITS else 0))
