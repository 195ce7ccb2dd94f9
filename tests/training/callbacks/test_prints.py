"""What callbacks print: in the log of the node, and in the node's reports."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.training.callbacks.prints import LONGEST, MOST, Prints, new_lines


def test_lines_reach_the_stdout_before_and_the_reports(capsys):
    prints = Prints()
    with prints.taken():
        print("a loss", 0.5)
        print("no end", end="")
        sys.stdout.flush()
    with prints.taken():
        print("10 %\r20 %\r", end="")
        print("x" * 2 * LONGEST)
    assert capsys.readouterr().out == "a loss 0.5\nno end10 %\r20 %\r" + "x" * 2 * LONGEST + "\n"
    assert prints.reported == [3, ["a loss 0.5", "no end", "x" * (LONGEST - 3) + "..."]]
    assert sys.stdout is not prints


def test_what_else_programs_do_with_stdout_works(capfd):
    prints = Prints()
    with prints.taken():
        sys.stdout.buffer.write(b"bytes\n")
        sys.stdout.buffer.flush()
        assert sys.stdout.writable() and not hasattr(sys.stdout, "colour")
        with prints.taken():  # as where a redirection of the user's outlives a hook
            print("inner")
    assert capfd.readouterr().out == "bytes\ninner\n" and prints.reported == [1, ["inner"]]


@given(st.lists(st.integers(0, 2 * MOST)))
def test_reports_give_each_line_once_or_say_how_many_are_left_out(counts):
    prints, seen, shown, printed = Prints(), 0, 0, 0
    prints._beneath = type("Nowhere", (), {"write": lambda self, text: len(text)})()
    for count in counts:
        for _ in range(count):
            prints.write(f"{printed}\n")
            printed += 1
        lines = new_lines(prints.reported, seen)
        if lines and lines[0].startswith("..."):
            assert lines.pop(0).startswith(f"... {count - MOST:,} lines of callbacks are left out")
            shown += count - MOST
        assert lines == [str(number) for number in range(shown, printed)]
        seen, shown = prints.reported[0], printed
