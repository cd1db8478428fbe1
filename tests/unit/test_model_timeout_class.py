"""The classes that a tool may name are those for which the operator sets a time."""

from hermesd.config.load import load_configuration
from hermesd.config.table import TABLE
from hermesd.model.definition import TIMEOUT_CLASSES


def test_a_tool_may_name_each_class_that_the_configuration_knows_and_no_other() -> None:
    prefix = "defaults.timeouts_ms."
    known = {key.path.removeprefix(prefix) for key in TABLE.rows if key.path.startswith(prefix)}
    assert known == set(TIMEOUT_CLASSES)
    assert load_configuration(None, environ={}).defaults.timeouts_ms.keys() <= known
