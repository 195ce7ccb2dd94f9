"""The answer in words: at most six lines, for the terminal, the page's first screen and Python's repr."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparksplit.base.yaml_edits import set_words
from sparksplit.comparison.answer.content import Answer, Note, Option, Question
from sparksplit.comparison.content_table import TO_TARGET
from sparksplit.comparison.numbers import Quantity, bound, compact, count, duration, node_time
from sparksplit.pages import sentence

_NOTES = {
    "untuned": "all strategies used one learning rate; {option}tune=8 tries eight for each.",
    "diverged": "{row} diverged with {number} of {note.of} seeds: the loss or the metric was no longer a number.",
    "unmet": "{row} did not reach {target} with {number} of {note.of} seeds.",
    "other place": "{row} was not timed where most runs were.",
    "edge": "a better {note.key} for {row} may lie beyond those tried.",
    "no test rows": "there are no test rows, so the validation rows decide.",
    "learns better": "learns better than 1 node as configured: {row} ({difference} in {metric}).",
    "slow network": "on a slow network, try {row}: {number} times fewer bytes than `batch`, and it learns as well.",
    "seeds alone": "intervals count the seeds alone, not the choice of {split} rows: {why}.",
}
"""The sentences of notes. The headline covers the other kinds."""
DEPENDENT = {
    "windows": "windows over time depend on each other",
    "text": "sequences of a text depend on each other",
    "features": "rows that `cut.by: features` keeps together depend on each other",
    "key": "rows that `cut.by: key` keeps together depend on each other",
    "time": "rows that are cut by time depend on each other",
}
"""Why the rows are no independent sample, by the manifest's reason."""
_MISSING = {"strategies": ("a strategy for several nodes", "`single`"), "nodes": ("2", "1")}
_ANEW = {
    "tune": "to try other learning rates, which may change the answer",
    "optimizer.learning_rate": "with a lower learning rate",
}
"""The purposes of commands that make all runs anew."""
_OBSTACLES = {
    "one seed": "It takes more seeds, such as {seeds}.",
    "no pair": "More seeds with which both finish would decide it.",
    "same with every seed": "All seeds differ by the same, so more seeds do not decide it.",
    "too small": "The difference is too small to be decided.",
    "incomplete": "",
}


def words(answer: Answer, within: str = "", elsewhere: str = "in report.html") -> list[str]:
    """Return the answer of a comparison in at most six lines of text.

    within: prefix for keys in the commands that the text suggests. With `compare.`, as quickstart needs it, a command
    has `--set compare.seeds=5`. elsewhere: the words for where the notes are that do not fit.
    """
    sure = list(_how_sure(answer))
    lines = [headline(answer), *_figures(answer), *sure, *_next(answer, within)]
    hidden = {"seeds alone"} if sure else set()
    if answer.next is not None and "tune" in answer.next.settings:
        hidden.add("untuned")
    said = [noted(note, answer, f"--set {within}") for note in answer.notes if note.kind not in hidden]
    return with_notes(lines, [line for line in said if line and line not in lines[0]], elsewhere)


def with_notes(lines: list[str], notes: list[str], elsewhere: str) -> list[str]:
    """Return the lines of an answer with the first note, if there are fewer than six, and with the number of the notes
    left."""
    has_room = bool(notes) and len(lines) < 6
    shown = [*lines, *(f"Note: {note}" for note in notes[:1] if has_room)]
    if left := len(notes) - has_room:
        shown[-1] += f" ({left} {'more ' if has_room else ''}note{'s' if left > 1 else ''} {elsewhere}.)"
    return shown


def headline(answer: Answer) -> str:
    """Return the recommendation, in a sentence. Without a winner, a second sentence says what to use for now."""
    choice, gain, note = answer.choice, answer.gain, answer.notes[0] if answer.notes else None
    if answer.decision == "nothing to compare" and note is not None and note.key is not None:
        return f"Nothing to compare: add {_MISSING[note.key][note.name == 'single']} to `{note.key}`."
    if answer.decision == "undecided":
        return _undecided(answer) + ("" if answer.until is None else f" For now, use {called(answer.until)}.")
    if choice is None or gain is None or gain.speed is None or gain.quality is None:
        return "Stay on 1 node as configured: nothing else is shown to be faster without learning worse."
    quantity, pair = Quantity(answer.metric), gain.quality
    speed, least = gain.speed, ""
    if speed.at_least is not None:
        least = f" (at least {bound(speed.at_least)})"
    elif speed.low is not None:
        least = f" ({compact(speed.low)} to {compact(speed.high)})"
    learns = f"{answer.split} {quantity.label}"
    if pair.verdict in ("better", "worse"):
        learns = f"{pair.verdict} {learns} ({quantity.difference(pair.mean)})"
    else:
        learns = f"{'same' if pair.verdict == 'no difference' else 'no worse'} {learns} within {_margin(answer)}"
    return f"Use {called(choice)}: {compact(speed.times)} times as fast as 1 node as configured{least}, {learns}."


def _undecided(answer: Answer) -> str:
    first = answer.open[0] if answer.open else Question(name="single", nodes=1, against="", about="speed")
    row, is_one = named(first.name, first.nodes), first.nodes == 1
    if answer.seeds < 2:
        return "No winner yet: one seed cannot tell a real difference from luck."
    if answer.open and first.obstacle != "incomplete":
        verb = ("is" if is_one else "are") if first.about == "speed" else "learns" if is_one else "learn"
        what = "faster than" if first.about == "speed" else "as well as"
        against = named(first.against, 1)
        return f"No winner yet: {answer.seeds} seeds do not decide whether {row} {verb} {what} {against}."
    notes = [note for note in answer.notes if note.kind in ("diverged", "unmet", "other place")]
    why = [noted(note, answer) for note in notes if (note.name, note.nodes) == (first.name, first.nodes)]
    return f"No winner: {[*why, f'{row} has no time.'][0]}"


def called(option: Option) -> str:
    """A choice in words, such as `2 nodes with local, sync every 32 steps`."""
    return named(option.name, option.nodes)


def named(name: str, nodes: int) -> str:
    """A row's nodes and strategy, such as `1 node with batch_size 64` or `2 nodes with local, sync every 32 steps`."""
    strategy, *settings = re.sub(r"\bH = (\d+)", r"sync every \1 steps", name).replace(" = ", " ").split(", ")
    parts = ", ".join(settings if strategy == "single" else [f"`{strategy}`", *settings])
    return f"{nodes} node{'s' if nodes > 1 else ''} {f'with {parts}' if parts else 'as configured'}"


def noted(note: Note, answer: Answer, option: str = "--set ") -> str:
    """Return the sentence of one of the answer's notes; empty for kinds that the headline covers. option: the text
    before a key."""
    quantity, row, number = Quantity(answer.metric), named(note.name or "", note.nodes or 1), compact(note.number)
    metric, difference = f"{answer.split} {quantity.label}", quantity.difference(note.number)
    known = {"metric": metric, "difference": difference, "target": target(answer), "option": option}
    known |= {"split": answer.split, "why": DEPENDENT.get(note.key or "", "the rows depend on each other")}
    return _NOTES.get(note.kind, "").format(note=note, row=row, number=number, **known)


def target(answer: Answer) -> str:
    """The target in words, such as `89.28 % validation accuracy`."""
    quantity = Quantity(answer.metric)
    return f"{quantity.value(answer.target)} validation {quantity.label}"


def _margin(answer: Answer) -> str:
    return Quantity(answer.metric).difference(answer.margin).lstrip("+")


def _figures(answer: Answer) -> Iterator[str]:
    """Yield the times and costs of the choice and of other rows, and the keys of the choice."""
    choice, quantity, is_used = answer.choice, Quantity(answer.metric), answer.decision == "use"
    if choice is None:
        return
    goal = f" to {target(answer)}" if answer.goal == TO_TARGET else " for all passes"
    rest = [*answer.runners_up[:1], *answer.runners_up[1:][-1:]]
    told = [
        f"{called(row)}: {duration(row.seconds)}{goal if row is choice else ''} "
        f"({node_time(None if row.seconds is None else row.seconds * row.nodes / 3600)}); "
        f"{answer.split} {quantity.label} {quantity.value(row.metric)}."
        for row in (choice, *(rest[-1:] if is_used else rest))
    ]
    begin = "The fastest so far is " if answer.decision == "undecided" else ""
    lines = [" ".join(told)] if is_used else [begin + told[0], " ".join(told[1:])]
    yield from filter(None, lines)
    if answer.decision != "undecided":
        yield f"Train with: {set_words(choice.settings)}"


def _how_sure(answer: Answer) -> Iterator[str]:
    """Yield the line on how sure the answer is, if there is one. It has the note on what the seeds do not tell, so that
    no other line takes its room."""
    line = ""
    if answer.decision in ("use", "stay"):
        most = f"at most {answer.wrong_of_100}"
        line = (
            f"How sure: {answer.seeds} seeds. Of 100 such answers, {most} claim a difference that is not there, and "
            f"{most} call values the same that are more than {_margin(answer)} apart."
        )
    elif answer.seeds > 1 and answer.open and answer.open[0].seeds is None:
        line = needed(answer.open[0])
    if line:
        alone = (sentence(noted(note, answer)) for note in answer.notes if note.kind == "seeds alone")
        yield " ".join([line, *alone])


def _next(answer: Answer, within: str) -> Iterator[str]:
    after = answer.next
    if after is None:
        return
    begin = "Next" if answer.decision == "undecided" else "Optional"
    (key, value), command = (
        next(iter(after.settings.items())),
        f"the same command with {set_words(after.settings, within)}",
    )
    first, last = ("" if some is None else f" ({duration(some)} more)" for some in (after.first_seconds, after.seconds))
    if key in _ANEW:
        long = "" if after.seconds is None else f" and takes about {duration(after.seconds)}"
        yield f"{begin}, {_ANEW[key]}: {command} --overwrite. It replaces this comparison{long}."
        return
    goes_on = f"goes on to {value} seeds{last}"
    if after.first_seeds is not None:
        goes_on = f"stops when it is decided: after {after.first_seeds} seeds{first} at the earliest, "
        goes_on += f"after {value}{last} at the latest"
    yield f"{begin}, to be surer: {command}. It keeps the finished runs and {goes_on}."


def needed(question: Question) -> str:
    """Return, in words, the seeds or rows that would decide a question; empty for a row that is incomplete."""
    if question.obstacle is not None:
        return _OBSTACLES[question.obstacle].format(seeds=question.seeds)
    if question.seeds is not None:
        return f"About {count(question.seeds)} seeds would decide it."
    return f"About {count(question.rows)} rows to test with would decide it; more seeds do not."
