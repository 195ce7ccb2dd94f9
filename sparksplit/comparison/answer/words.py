"""The answer in words: at most six lines, for the terminal, the page's first screen and Python's repr."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparksplit.base.yaml_edits import set_word
from sparksplit.comparison.answer.content import Answer, Note, Option, Question
from sparksplit.comparison.content_table import TO_TARGET, Pair
from sparksplit.comparison.numbers import Quantity, bound, compact, count, duration, node_time
from sparksplit.pages import sentence

_QUALITY = {"no difference": "same", "not worse": "no worse", "better": "better", "worse": "worse"}
_NOTES = {
    "untuned": "all strategies used one learning rate; {option}tune=8 tries eight for each.",
    "diverged": "{row} diverged with {number} of {of} seeds.",
    "unmet": "{row} missed the target with {number} of {of} seeds.",
    "other place": "{row} was not timed where most runs were.",
    "edge": "a better {key} for {row} may lie beyond those tried.",
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
_INCOMPLETE = ("diverged", "unmet", "other place")
"""The kinds of notes on a row that has no times that decide."""
_WHY = {
    "seeds": "to be surer ({value} seeds in all)",
    "max_seeds": "to be surer (up to {value} seeds in all)",
    "tune": "to try other learning rates",
    "optimizer.learning_rate": "with a lower learning rate",
}
"""The purpose of the next command, by its key."""
_OBSTACLES = {
    "no pair": "More seeds with which both finish would decide it.",
    "same with every seed": "All seeds differ by the same, so more seeds do not decide it.",
    "too small": "The difference is too small to be decided.",
}


def words(answer: Answer, within: str = "", elsewhere: str = "in the report") -> list[str]:
    """Return the answer of a comparison in at most six lines of text.

    within: prefix for keys in the commands that the text suggests. With `compare.`, as quickstart needs it, a command
    has `--set compare.seeds=5`. elsewhere: the words for where the notes are that do not fit.
    """
    option = f"--set {within}"
    sure = list(_how_sure(answer))
    lines = [headline(answer), *_figures(answer), *sure]
    if answer.next is not None:
        keys = " ".join(f"--set {set_word(within + key, value)}" for key, value in answer.next.settings.items())
        most = "at most" if "max_seeds" in answer.next.settings else "about"
        long = "" if answer.next.seconds is None else f" It takes {most} {duration(answer.next.seconds)}."
        why = next(_WHY[key].format(value=value) for key, value in answer.next.settings.items())
        again = "" if answer.next.settings.keys() <= {"seeds", "max_seeds"} else " --overwrite"
        lines.append(f"Next, {why}: the same command with {keys}{again}.{long}")
    shown = {"seeds alone"} if sure else set()
    if answer.next is not None and "tune" in answer.next.settings:
        shown.add("untuned")
    notes = [note for note in answer.notes if note.kind in _NOTES and note.kind not in shown]
    told = [note for note in notes if noted(note, answer, option) not in lines[0]]
    has_room = len(lines) < 6
    if told and has_room:
        lines.append(f"Note: {noted(told[0], answer, option)}")
    if (left := len(told) - has_room) > 0:
        more = "more " if has_room else ""
        lines[-1] += f" ({left} {more}note{'s' if left > 1 else ''} {elsewhere}.)"
    return lines


def headline(answer: Answer) -> str:
    """Return the recommendation, in a sentence."""
    choice = answer.choice
    if answer.decision == "nothing to compare":
        return f"Nothing to compare: {_missing(answer.notes[0])}"
    if answer.decision == "use" and choice is not None:
        return f"Use {called(choice)}: {_gain(answer, '1 node')}."
    if answer.decision == "stay" and choice is not None:
        if answer.gain is None:
            nodes = [*(row.nodes for row in answer.runners_up), *(note.nodes or 1 for note in answer.notes)]
            if max(nodes, default=1) == 1:
                return "Stay on 1 node as configured: no other row is decided to be faster without learning worse."
            return "Stay on 1 node: no strategy on several nodes is faster without learning worse."
        return f"Stay on {called(choice)}: {_gain(answer, 'configured')}."
    return _undecided(answer)


def _undecided(answer: Answer) -> str:
    if answer.seeds < 2:
        return "No winner yet: one seed cannot tell a real difference from luck."
    first = answer.open[0] if answer.open else None
    if first is not None and first.obstacle != "incomplete":
        one, several = ("is faster than", "are faster than") if first.about == "speed" else ("learns", "learn")
        what = (one if first.nodes == 1 else several) + ("" if first.about == "speed" else " as well as")
        row, against = named(first.name, first.nodes), named(first.against, 1)
        return f"No winner yet: {answer.seeds} seeds do not decide whether {row} {what} {against}."
    about = ("single", 1) if first is None else (first.name, first.nodes)
    why = [note for note in answer.notes if (note.name, note.nodes) == about and note.kind in _INCOMPLETE]
    return f"No winner: {noted(why[0], answer)}" if why else "No winner: no strategy on several nodes has a time."


def called(option: Option) -> str:
    """A choice in words, such as `2 nodes with local, sync every 32 steps`."""
    return named(option.name, option.nodes)


def named(name: str, nodes: int) -> str:
    """A row's nodes and strategy, such as `1 node, batch_size 64` or `2 nodes with local, sync every 32 steps`."""
    strategy, *settings = re.sub(r"\bH = (\d+)", r"sync every \1 steps", name).replace(" = ", " ").split(", ")
    rows = f"{nodes} node{'s' if nodes > 1 else ''}"
    if strategy == "single":
        return ", ".join([rows, *settings]) if settings else f"{rows} as configured"
    return ", ".join([f"{rows} with `{strategy}`", *settings])


def noted(note: Note, answer: Answer, option: str = "--set ") -> str:
    """Return the sentence of one of the answer's notes; empty for kinds that the headline covers. option: the text
    before a key."""
    quantity = Quantity(answer.metric)
    return _NOTES.get(note.kind, "").format(
        row=named(note.name or "", note.nodes or 1),
        number=compact(note.number),
        difference=quantity.difference(note.number),
        metric=f"{answer.split} {quantity.label}",
        of=note.of,
        key=(note.key or "").rpartition(".")[2],
        option=option,
        split=answer.split,
        why=DEPENDENT.get(note.key or "", "the rows depend on each other"),
    )


def _gain(answer: Answer, base: str) -> str:
    """The gain in words, such as `1.6 times as fast as 1 node (at least 1.5), same accuracy (97.72 %)`."""
    assert answer.gain is not None and answer.gain.speed is not None and answer.gain.quality is not None
    speed = answer.gain.speed
    least = "" if speed.at_least is None else f" (at least {bound(speed.at_least)})"
    return f"{compact(speed.times)} times as fast as {base}{least}, {_quality(answer, answer.gain.quality)}"


def _quality(answer: Answer, pair: Pair) -> str:
    quantity, choice = Quantity(answer.metric), answer.choice
    value = quantity.value(None if choice is None else choice.metric)
    by = f", {quantity.difference(pair.mean)}" if pair.verdict in ("better", "worse") else ""
    return f"{_QUALITY.get(pair.verdict, 'undecided')} {answer.split} {quantity.label} ({value}{by})"


def _figures(answer: Answer) -> Iterator[str]:
    """Yield the times and costs of the choice and of other rows, and the keys of the choice."""
    choice, quantity = answer.choice, Quantity(answer.metric)
    if choice is None:
        return
    goal = "for all passes"
    if answer.goal == TO_TARGET:
        goal = f"to {quantity.value(answer.target)} validation {quantity.label}"
    if answer.decision == "use":
        single = answer.runners_up[-1]
        yield (
            f"Time {goal}: {duration(choice.seconds)}; 1 node: {duration(single.seconds)}. "
            f"Cost: {_cost(choice)}; 1 node: {_cost(single)}."
        )
    else:
        begin = "Fastest so far: " if answer.decision == "undecided" else ""
        metric = f"{answer.split} {quantity.label}"
        yield (
            f"{begin}{called(choice)}: {duration(choice.seconds)} {goal} ({_cost(choice)}); "
            f"{metric} {quantity.value(choice.metric)}."
        )
        if rest := [*answer.runners_up[:1], *answer.runners_up[1:][-1:]]:
            yield " ".join(
                f"{called(row)}: {duration(row.seconds)} ({_cost(row)}); {metric} {quantity.value(row.metric)}."
                for row in rest
            )
    if answer.decision != "undecided":
        yield f"Train with: {' '.join(f'--set {set_word(key, value)}' for key, value in choice.settings.items())}"


def _cost(option: Option) -> str:
    return node_time(None if option.seconds is None else option.seconds * option.nodes / 3600)


def _how_sure(answer: Answer) -> Iterator[str]:
    """Yield the line on how sure the answer is, if there is one. It has the note on what the seeds do not tell, so that
    no other line takes its room."""
    line = ""
    if answer.decision in ("use", "stay"):
        line = f"How sure: {answer.seeds} seeds; of 100 such answers at most {answer.wrong_of_100} are wrong."
    elif answer.decision == "undecided" and answer.open and answer.seeds > 1:
        line = needed(answer.open[0])
    if line:
        alone = (sentence(noted(note, answer)) for note in answer.notes if note.kind == "seeds alone")
        yield " ".join([line, *alone])


def needed(question: Question) -> str:
    """Return, in words, the seeds or rows that would decide a question; empty for a row that is incomplete."""
    if question.obstacle == "one seed":
        return f"It takes more seeds, such as {question.seeds}."
    if question.seeds is not None:
        return f"About {count(question.seeds)} seeds would decide it."
    if question.rows is not None:
        return f"About {count(question.rows)} rows to test with would decide it; more seeds do not."
    return _OBSTACLES.get(question.obstacle or "", "")


def _missing(note: Note) -> str:
    """Return what to add to the configuration, so that a comparison is possible."""
    if note.name == "single":
        return "add `single` to `strategies`." if note.key == "strategies" else "add 1 to `nodes`."
    return "add a strategy for several nodes to `strategies`." if note.key == "strategies" else "add 2 to `nodes`."
