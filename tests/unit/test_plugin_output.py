import io
import logging
import threading

import pytest

from hermesd.plugin.output import MAX_LINE_CHARS, CallStream, LineHandler, Printer, current_printer


@pytest.fixture
def lines():
    return []


@pytest.fixture
def printer(lines):
    return Printer(lambda level, message, fields: lines.append((level, message, fields["stream"])))


def test_lines_are_told_whole_and_streams_do_not_mix(lines, printer):
    printer.write("stdout", "半")
    printer.write("stderr", "other\n")
    printer.write("stdout", "行\nnext\n\nrest")
    printer.flush()
    assert lines == [
        ("info", "other", "stderr"),
        ("info", "半行", "stdout"),
        ("info", "next", "stdout"),
        ("info", "rest", "stdout"),
    ]


def test_a_line_without_end_is_told_in_bounded_pieces(lines, printer):
    for _ in range(5):
        printer.write("stdout", "x" * MAX_LINE_CHARS)
    printer.flush()
    assert "".join(message for _, message, _ in lines) == "x" * 5 * MAX_LINE_CHARS
    assert max(len(message) for _, message, _ in lines) <= MAX_LINE_CHARS


def test_outside_of_a_call_text_goes_to_the_stream_below(lines, printer):
    below = io.StringIO()
    stream = CallStream("stdout", below)
    token = current_printer.set(printer)
    print("in the call", file=stream)
    other = threading.Thread(target=print, args=("of another thread",), kwargs={"file": stream})
    other.start()
    other.join()
    current_printer.reset(token)
    print("after", file=stream)
    assert below.getvalue() == "of another thread\nafter\n"
    assert lines == [("info", "in the call", "stdout")]


def test_standard_logging_becomes_lines_with_logger_and_traceback():
    told = []
    handler = LineHandler(lambda: lambda *line: told.append(line))
    logger = logging.Logger("library")
    logger.addHandler(handler)
    logger.warning("a %s", "b")
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("failed")
    assert told[0] == ("warning", "a b", {"logger": "library"})
    assert told[1][:2] == ("error", "failed")
    assert "ValueError: why" in told[1][2]["trace"]
