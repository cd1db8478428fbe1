"""What a running call says on its way, short enough for whoever keeps it until a slow reader has it."""

from __future__ import annotations

#: Characters of one message, and of all that the fields of a log line say.
MAX_MESSAGE = 8 * 1024
MAX_FIELDS = 16 * 1024


def bounded(kind: str, payload: dict[str, object]) -> dict[str, object]:
    """The payload, or a shorter one that says that it was cut."""
    message = payload.get("message")
    if isinstance(message, str) and len(message) > MAX_MESSAGE:
        cut = len(message) - MAX_MESSAGE
        payload = {**payload, "message": f"{message[:MAX_MESSAGE]}… ({cut} characters more)"}
    if kind == "log" and (fields := payload.get("fields")) and _left(fields, MAX_FIELDS) < 0:
        payload = {**payload, "fields": {"cut": f"more than {MAX_FIELDS} characters"}}
    return payload


def _left(value: object, room: int) -> int:
    """What is left of `room` characters; looks no further once it is used up."""
    room -= len(value) if isinstance(value, str) else 1
    if isinstance(value, dict):
        for key, each in value.items():
            if room < 0:
                break
            room = _left(each, room - len(str(key)))
    elif isinstance(value, list | tuple):
        for each in value:
            if room < 0:
                break
            room = _left(each, room)
    return room
