"""The answer of a diagnosis in words: at most six lines, for the terminal and the page's first screen."""

from __future__ import annotations

from collections.abc import Iterator

from sparksplit.base.yaml_edits import set_words
from sparksplit.comparison.numbers import bound, compact, percent, usable
from sparksplit.diagnosis.answer import Advice, Answer, Gain, Limit
from sparksplit.diagnosis.preprocess.preprocess_record import KINDS
from sparksplit.pages import sentence, with_notes

_SAYS = {
    **{kind: f"{text}: {{share}} of the time, in {{places}}" for kind, text in KINDS.items()},
    "work": "nothing costs a tenth of the time, and {places} takes most ({share}). Only more or faster slots help",
    "reading": "nodes wait {share} of the time for rows",
    "transform": "nodes wait {share} of the time for rows, most of it for the transform",
    "copy": "{share} of the time goes into copying rows to the device",
    "synchronise": "{share} of the time goes into synchronising the nodes",
    "compute": "{share} of the time is the model's own arithmetic. {only} nodes or a faster device help",
    "hand-off": "{share} of the time is Spark handing over the rows",
}
"""What each limit is, by its name."""
_UNCLEAR = {
    "one round": "not known: that takes at least two rounds",
    "uncertain": "no single part: of none it is certain that the run would be faster without it",
    "together": "no single part: {names} take about as long, at the same time",
    "alike": "no single part: {without}",
    "small": "no single part: {without}",
}
_OWN_REMEDY = ("compute", "work")
"""Limits that nobody can be without, so what is gained without them tells nothing."""


def words(answer: Answer, elsewhere: str = "in diagnosis.html") -> list[str]:
    """Return the answer in at most six lines of text. elsewhere: the words for where the rest of the notes is."""
    lines = [_limited(answer.limit), *_to_set(answer), *_next(answer), *_how_sure(answer)]
    return with_notes(lines, list(map(sentence, answer.notes)), elsewhere)


def times(gain: Gain | None, computed: bool = False) -> str:
    """A gain in words, such as `1.87 times as fast (at least 1.79)`."""
    if gain is None or usable(gain.mean) is None:
        return "not measured"
    why = "computed, not measured" if computed else "measured once"
    if gain.low is not None and gain.high is not None:
        ends = f"{compact(gain.low)} to {compact(gain.high)}"
        why = f"at least {bound(gain.low)}" if gain.is_certain else f"{ends}, so it may not help"
        why = f"{ends}, so it is slower" if gain.is_loss else why
    return f"{compact(gain.mean)} times as fast ({why})"


def advised(advice: Advice) -> str:
    """Settings with what they bring, such as `--set readers=4: 1.87 times as fast (at least 1.79)`."""
    brings = times(advice.gain, advice.computed) if advice.failed is None else f"could not be tried: {advice.failed}"
    return f"{set_words(advice.settings)}: {brings}"


def _limited(limit: Limit) -> str:
    first = limit.costs[0]
    if limit.name is None:
        text = _UNCLEAR[limit.unclear or "uncertain"]
        without = "; ".join(f"without {cost.name}, the run would be {times(cost.gain)}" for cost in limit.costs)
        return f"What limits: {text.format(names=' and '.join(cost.name for cost in limit.costs), without=without)}."
    known = {"share": percent(first.share), "places": " and ".join(limit.places)}
    text = sentence(_SAYS[limit.name].format(only="Only more" if limit.alone else "More", **known))
    if first.gain is not None and limit.name not in _OWN_REMEDY:
        text += f" Without that, the run would be {times(first.gain, first.gain.low is None)}."
    return f"What limits: {limit.name}. {text}"


def _to_set(answer: Answer) -> Iterator[str]:
    helping = [advice for advice in answer.keeping if advice.helps]
    told = "; ".join(map(advised, helping or answer.keeping))
    if helping:
        is_sparks = all(key.startswith("spark.") for advice in helping for key in advice.settings)
        apply = "" if is_sparks else " `--apply` writes it into your file."
        yield f"What to set: {told}. The result stays the same.{apply}"
    else:
        tried = f"Tried: {told}." if told else "No setting that keeps the result is likely to help."
        yield f"What to set: nothing. {tried}"
    if faster := [advice for advice in answer.changing if advice.helps]:
        yield f"Faster, but the model learns differently: {advised(faster[0])}."


def _next(answer: Answer) -> Iterator[str]:
    if answer.next is not None:
        is_faster = any(advice.helps for advice in answer.changing)
        why = "see whether it learns as well" if is_faster else "try what changes the learning, too"
        yield f"Next, to {why}: {answer.next}"


def _how_sure(answer: Answer) -> Iterator[str]:
    if answer.rounds == 1:
        yield "How sure: one round, so no interval is known."
    elif answer.rounds:
        yield f"How sure: {answer.rounds} rounds. Each `at least` is right in 97 of 100 such diagnoses."
