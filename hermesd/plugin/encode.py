"""Results as JSON text.

What is JSON goes through the C encoder untouched; the rest has one form each, the same that parameters of
the type have: dataclass → object, Enum → its value, date and time → ISO 8601, UUID, Path, Decimal → text,
bytes → base64 text, set → sorted array, timedelta → seconds. A naive datetime keeps no offset.
Parts of content (text, image, resource link) stand beside the data, never within it.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import Any

from hermesd.plugin.content import Content, Part, split
from hermesd.plugin.fault import ResultFault

MAX_DEPTH = 200
_SCALARS = (str, int, float, bool, type(None))
#: What a result with content is: every other kind is data.
_RICH = (Content, Part, list, tuple)


def encode_answer(value: object) -> tuple[str, str]:
    """The JSON texts of a result's data and of its content, "" where it has none. Raises ResultFault."""
    if not isinstance(value, _RICH):
        return encode_result(value), ""
    data, parts = split(value)
    return encode_result(data), encode_result([each.told() for each in parts]) if parts else ""


def encode_result(value: object) -> str:
    """JSON text (UTF-8 encodable, no NaN) of what a tool returned. Raises ResultFault, which says where."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError, ResultFault):
        # The slow way converts keys too, and knows the path of what it cannot convert.
        text = _encode(plain(value))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _find_surrogate(plain(value), "")
            raise ResultFault("has text with half of a surrogate pair") from None
    return text


def plain(value: object) -> Any:
    """`value` made of dict, list, str, int, float, bool and None alone. Raises ResultFault."""
    try:
        return _plain(value, "", ())
    except RecursionError:
        raise ResultFault("nests too deep") from None


def _simplify(value: object) -> object:
    """One step towards JSON for what JSON does not know."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Part | Content):
        raise ResultFault(f"is {_named(value)}, which is no data: return Content(data, [parts])")
    for kind in type(value).__mro__:
        rule = _RULES.get(f"{kind.__module__}.{kind.__qualname__}")
        if rule is not None:
            return rule(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return _fields(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return _ordered(value)
    if isinstance(value, Sequence):
        return list(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ResultFault(f"is {_named(value)}, which is no JSON{_hint(value)}")


def _fields(value: Any) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415 - only a plugin that has dataclasses pays for it

    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _ordered(values: Iterable[Any]) -> list[Any]:
    """Sorted where that has a meaning: the order of a set differs from process to process."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _decimal(value: Any) -> str:
    if not value.is_finite():
        raise ResultFault(f"is {value}, which is no JSON")
    return str(value)


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def _iso(value: Any) -> str:
    return str(value.isoformat())


def _seconds(value: Any) -> float:
    return float(value.total_seconds())


# By name: a type that the plugin does not use is not imported for it.
_RULES: dict[str, Callable[[Any], object]] = {
    "datetime.datetime": _iso,
    "datetime.date": _iso,
    "datetime.time": _iso,
    "datetime.timedelta": _seconds,
    "uuid.UUID": str,
    "decimal.Decimal": _decimal,
    "builtins.bytes": _base64,
    "builtins.bytearray": _base64,
    "builtins.memoryview": _base64,
}


# Made once: json.dumps makes an encoder for each call that has options.
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_simplify
).encode


def _plain(value: Any, path: str, above: tuple[int, ...]) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, path, above)
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultFault(f"is {value!r}, which is no JSON", path)
    if isinstance(value, _SCALARS):
        return value
    if id(value) in above:
        raise ResultFault("holds itself", path)
    if len(above) >= MAX_DEPTH:
        raise ResultFault(f"nests deeper than {MAX_DEPTH} levels", path)
    above = (*above, id(value))
    if isinstance(value, dict):
        return _plain_object(value, path, above)
    if isinstance(value, list | tuple):
        return [_plain(each, f"{path}/{index}", above) for index, each in enumerate(value)]
    try:
        simpler = _simplify(value)
    except ResultFault as fault:
        raise ResultFault(fault.problem, path) from None
    return _plain(simpler, path, above)


def _plain_object(value: dict[Any, Any], path: str, above: tuple[int, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, each in value.items():
        name = _key(key, path)
        if name in result:
            raise ResultFault(f"has two keys that are both {name!r} in JSON", path)
        result[name] = _plain(each, f"{path}/{name.replace('~', '~0').replace('/', '~1')}", above)
    return result


def _key(key: Any, path: str) -> str:
    plain_key = _plain(key, path, ())
    if isinstance(plain_key, str):
        return plain_key
    if isinstance(plain_key, _SCALARS):
        return json.dumps(plain_key)
    raise ResultFault(f"has {_named(key)} as a key, which is no JSON", path)


def _find_surrogate(value: Any, path: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ResultFault("is text with half of a surrogate pair", path) from None
    elif isinstance(value, dict):
        for key, each in value.items():
            _find_surrogate(key, path)
            _find_surrogate(each, f"{path}/{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _find_surrogate(each, f"{path}/{index}")


def _named(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _hint(value: Any) -> str:
    if hasattr(value, "cr_frame"):
        value.close()  # else Python warns that it was never awaited
        return ": make the tool `async def` and await it"
    if hasattr(value, "gi_frame") or hasattr(value, "ag_frame") or hasattr(value, "__next__"):
        return ": return a list"
    return ": return a dict, a list or a dataclass"
