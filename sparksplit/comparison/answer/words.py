"""The answer in words: at most six lines, for the terminal, the page's first screen and Python's repr."""

from __future__ import annotations

from collections.abc import Iterator

from sparksplit.base.yaml_edits import set_words
from sparksplit.comparison.analysis.goals import goal_of, seconds_of
from sparksplit.comparison.analysis.needed import for_seeds
from sparksplit.comparison.answer.content import Note, Question
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import TO_TARGET, Row
from sparksplit.comparison.numbers import Quantity, bound, compact, count, duration, node_time
from sparksplit.comparison.plan import SINGLE
from sparksplit.pages import with_notes

_NOTES = {
    "no single": "add `single` to `strategies`, and 1 to `nodes`.",
    "no other": "`strategies` needs another one than `single`, and `nodes` a number above 1.",
    "one seed": "one seed cannot tell a real difference from luck.",
    "seeds alone": "intervals count the seeds alone, not the choice of {split} rows, which depend on each other.",
    "diverged": "{row} diverged in {number} of {of} runs: the loss or the metric was no longer a number.",
    "unmet": "{row} did not reach {target} in {number} of {of} runs.",
    "other place": "{row} was not timed where most runs were.",
    "learns better": "learns better than {single}: {row} ({difference} in {metric}).",
    "edge": "a better {key} for {row} may lie beyond those tried: see `tune.tries` and `tune.keys`.",
    "untuned": "no learning rate was tuned, and each strategy may need its own.",
    "no test rows": "there are no test rows, so the validation rows decide.",
    "slow network": "on a slow network, try {row}: {number} times fewer bytes than `batch`, and it learns as well.",
}
"""The sentences of the notes."""
_LEARNS = {
    "better": "better {metric} ({difference})",
    "no difference": "same {metric} (within the tolerance of {margin})",
    "not worse": "{metric} worse by less than {margin}, if at all",
    "worse": "worse {metric} ({difference}), by less than {margin}",
}
"""How the choice learns, by the verdict. It may be `undecided` or `worse` and yet `enough`, within the margin."""
_SURE = (
    "How sure: {seeds} seeds. Of 100 such comparisons, at most {most} recommend a setting that is not faster than "
    "{single}, or learns worse by more than {margin}, or both."
)
_STAY = "How sure: {seeds} seeds. Of 100 such comparisons, at most {most} call a setting wrongly slower or worse."
_TUNE = (
    " To try eight for each, start anew: the same command with --set {within}tune=8 --overwrite. It takes about "
    "{takes} and replaces these runs{steps}."
)
_VERBS = {
    "speed": ("is faster than", "are faster than"),
    "quality": ("learns as well as", "learn as well as"),
    "better": ("learns better than", "learn better than"),
    "faults": ("wins over", "win over"),
}


def words(results: Results, elsewhere: str = "in report.html") -> list[str]:
    """Return the answer of a comparison in at most six lines of text. elsewhere: the words for where the notes are that
    do not fit."""
    lines = [headline(results), *_figures(results), *_how_sure(results), *_next(results)]
    notes = [noted(note, results) for note in results.answer.notes]
    return with_notes(lines, [note for note in notes if note not in lines[0]], elsewhere)


def headline(results: Results) -> str:
    """Return the recommendation, in a sentence. Without a winner, a second sentence says what to use for now."""
    answer, choice, gain, until = results.answer, results.answer.choice, results.answer.gain, results.answer.until
    if answer.decision == "nothing to compare":
        return f"Nothing to compare: {noted(answer.notes[0], results)}"
    if answer.decision == "undecided":
        return _why_open(results) + (f" {_for_now(until, results)}" if until else "")
    if choice is None or gain is None:
        return f"Stay on {results.named()}: nothing else is shown to be faster without learning worse or diverging."
    speed = f"{compact(gain.speed.times)} times as fast as {results.named()} (at least {bound(gain.speed.at_least)})"
    learns = _LEARNS.get(gain.quality.verdict, _LEARNS["not worse"]).format(**_facts(results, gain.quality.mean))
    return f"Use {results.named(choice.name, choice.nodes)}: {speed}, {learns}."


def _for_now(until: Row, results: Results) -> str:
    if until.name != SINGLE:
        shown = f"it is shown to be faster, and to learn no worse by more than {_facts(results)['margin']}"
        return f"For now, use {results.named(until.name, until.nodes)}: {shown}."
    beaten = any(question.against != SINGLE for question in results.answer.open)
    why = ": several nodes win only if they also beat one node with other settings" if beaten else ""
    return f"For now, use {results.named()}{why}."


def _why_open(results: Results) -> str:
    answer, seeds = results.answer, len(results.seeds)
    row = (answer.open[0].name, answer.open[0].nodes) if answer.open else (SINGLE, 1)
    lost = [note for note in answer.notes if (note.name, note.nodes) == row]
    if seeds < 2:
        return f"No winner yet: {_NOTES['one seed']}"
    if lost and (not answer.open or answer.open[0].about == "faults"):
        return f"No winner: {noted(lost[0], results)}"
    return f"No winner yet: {seeds} seeds do not decide {whether(answer.open[0], results)}."


def _figures(results: Results) -> Iterator[str]:
    """Yield the times and costs of the choice and of other rows, and the keys of the choice."""
    answer, quantity, goal = results.answer, Quantity(results.metric.name), goal_of(results.table)
    if answer.choice is None:
        return
    to, told = f" until {results.target_in_words}" if goal == TO_TARGET else " for all passes", list[str]()
    for row in (answer.choice, *answer.runners_up):
        seconds, learnt = seconds_of(row, goal) or 0.0, f"{results.metric.split} {quantity.label}"
        cost = f"{duration(seconds)}{'' if told else to} ({node_time(seconds * row.nodes / 3600)})"
        is_rival = answer.decision == "use" and told and row.name != SINGLE  # it wins too, and is the quicker one
        also = f" (quicker, and learns as well as {results.named()})" if is_rival else ""
        told.append(f"{results.named(row.name, row.nodes)}{also}: {cost}; {learnt} {quantity.value(row.metric.mean)}.")
    is_open = answer.decision == "undecided"
    yield ("The fastest so far that seems to learn as well is " if is_open else "") + " ".join(told)
    advised, begin = (answer.until, "For now, train") if is_open else (answer.choice, "Train")
    if advised and not (is_open and advised.settings.keys() <= {"strategy", "nodes"}):
        yield f"{begin} with: {set_words(advised.settings)}"


def _how_sure(results: Results) -> Iterator[str]:
    answer = results.answer
    if answer.decision in ("use", "stay"):
        yield (_SURE if answer.gain else _STAY).format(**_facts(results))
    elif len(results.seeds) > 1 and answer.open and answer.open[0].seeds is None:
        yield needed(answer.open[0])


def _next(results: Results) -> Iterator[str]:
    after, asked, then = results.answer.next, for_seeds(results.answer.open), ""
    if after is not None:
        begin = "Next, to be surer" if len(results.seeds) < 2 else "Next, to decide it"
        if asked and results.answer.decision != "undecided":
            begin = f"Optional, to see {whether(asked[0], results)}"
            then = f" Then at most {results.wrong_of_100_next} of 100 such comparisons recommend wrongly."
        looks = zip(after.seeds, after.seconds, strict=True)
        told = [f"{seeds} seeds in all ({duration(more)} from now)" for seeds, more in looks]
        early = f"stops once no more seeds are needed, with {told[0]} at the earliest. Decided or not, it stops"
        ends = f"{early} with {told[-1]}" if told[1:] else f"goes on to {told[0]}"
        command = f"the same command with {set_words(after.settings, results.within)}, without --overwrite"
        yield f"{begin}: {command}. It keeps the finished runs and {ends}.{then}"


def _facts(results: Results, number: float | None = None) -> dict[str, str]:
    """The parts of sentences, by name. number: a number or a difference of the metric."""
    metric, quantity = results.metric, Quantity(results.metric.name)
    return {
        "number": compact(number), "difference": quantity.difference(number), "split": metric.split,
        "metric": f"{metric.split} {quantity.label}", "margin": quantity.difference(metric.margin).lstrip("+"),
        "single": results.named(), "target": results.target_in_words, "seeds": str(len(results.seeds)),
        "most": str(results.wrong_of_100), "takes": duration(number), "within": results.within,
        "steps": " and the outputs of all other steps" if results.within else "",
    }  # fmt: skip


def noted(note: Note, results: Results) -> str:
    """Return the sentence of one of the answer's notes."""
    row, facts = results.named(note.name or SINGLE, note.nodes or 1), _facts(results, note.number)
    text = _NOTES[note.kind] + (_TUNE if note.kind == "untuned" and note.number else "")
    return text.format(row=row, of=note.of, key=note.key, **facts)


def whether(question: Question, results: Results) -> str:
    """The question in words, such as `whether 2 nodes with batch are faster than 1 node as configured`."""
    row, other = results.named(question.name, question.nodes), results.named(question.against, 1)
    about = "better" if question.about == "quality" and question.against != SINGLE else question.about
    return f"whether {row} {_VERBS[about][question.nodes > 1]} {other}"


def needed(question: Question) -> str:
    """Return, in words, the seeds or rows that would decide a question."""
    if question.seeds:
        return f"About {count(question.seeds)} seeds would decide it."
    if question.rows:
        return f"About {count(question.rows)} rows to test with would decide it; more seeds do not."
    if question.more_than:
        return f"Even {count(question.more_than)} seeds would not decide it."
    return "More seeds do not help." if question.about == "faults" else "It is not known what would decide it."
