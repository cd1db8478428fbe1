"""How long a call may take: the smallest of all bounds, and what progress may add to it."""

from __future__ import annotations

from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course
from hermesd.serving.policy import CallPolicy


def set_deadline(course: Course, entry: Entry, policy: CallPolicy) -> None:
    """The deadline is the smallest of the tool's timeout, the caller's own, and the caller's deadline.

    Progress moves it up to the ceiling of all calls, but never beyond what the caller itself gave. A detached
    call has the ceiling in the place of its tool's timeout.
    """
    request, began = course.request, course.started
    timeout_ms = (
        policy.max_timeout_ms if request.detach else policy.timeout_ms(entry.definition, entry.source)
    )
    course.allowance_s = timeout_ms / 1000
    limit = began + policy.max_timeout_ms / 1000
    if request.timeout_ms is not None:
        limit = min(limit, began + request.timeout_ms / 1000)
    if request.deadline is not None:
        limit = min(limit, request.deadline)
    course.limit = limit
    course.deadline = min(began + course.allowance_s, limit)


def extend(course: Course, now: float) -> None:
    """The tool got on: from now on it has its timeout anew, as far as the limit allows."""
    later = min(now + course.allowance_s, course.limit)
    if later > course.deadline:
        course.deadline = later
        if course.time_limit is not None:
            course.time_limit.last(later - now)


def had_its_time(course: Course) -> bool:
    """Whether the tool itself, and not a caller in a hurry, set the time that the call had."""
    return course.deadline - course.started >= 0.9 * course.allowance_s
