from hermesd.plugin.valve import Valve


def test_what_is_too_much_for_a_second_is_counted_and_the_next_second_is_open():
    now = [0.0]
    valve = Valve(3, clock=lambda: now[0])
    assert [valve.admit() for _ in range(5)] == [True, True, True, False, False]
    assert valve.take_dropped() == 0
    now[0] = 1.0
    assert valve.take_dropped() == 2
    assert valve.take_dropped() == 0
    assert [valve.admit() for _ in range(4)] == [True, True, True, False]
