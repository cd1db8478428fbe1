import signal

import pytest

from hermesd.supervise.child import ExitStatus


@pytest.mark.parametrize(
    ("wait_status", "text"),
    [
        (0, "exit status 0"),
        (3 << 8, "exit status 3"),
        (signal.SIGSEGV, "SIGSEGV"),
        (0x80 | signal.SIGABRT, "SIGABRT"),
    ],
)
def test_an_end_is_told_by_code_or_signal(wait_status, text):
    assert str(ExitStatus.from_wait_status(wait_status)) == text


def test_an_end_that_nobody_saw_is_told_as_such():
    assert str(ExitStatus()) == "fate unknown"
    assert str(ExitStatus(signal=63)) == "signal 63"
