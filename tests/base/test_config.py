"""Configuration: what is accepted, and the one line that says where and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import Config, Origin, digest, documented_keys, load, nested, parse
from sparksplit.base.errors import ConfigError, exit_status


class Virtual(Config):
    virtual: pydantic.PositiveInt
    """How many."""


class Optimizer(Config):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str = "sgd"
    """By name."""
    learning_rate: pydantic.PositiveFloat | dict[str, Any] = 0.01
    """A number or a schedule."""


class Strategy(Config):
    split: Literal["batch", "local"]
    """The split."""
    every: Literal["epoch"] | pydantic.PositiveInt = 1
    """Steps."""


class Train(Config):
    epochs: int = pydantic.Field(1, ge=1, le=100)
    """Passes."""
    nodes: pydantic.PositiveInt | Virtual = 1
    """A number, or {virtual: N}."""
    seed: int | None = None
    """Of everything."""
    shuffle: bool = True
    """Or not."""
    name: str = "x"
    """Of the run."""
    strategies: list[Strategy | str] = []  # noqa: RUF012
    """Names or mappings."""
    named: dict[str, Strategy] | None = None
    """By a name of the user's."""
    optimizer: Optimizer = Optimizer()
    """How weights change."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Train:
        if self.name == "forbidden":
            raise ValueError("this name and these epochs do not fit")
        return self


class Nested(Config):
    output: str
    """A folder."""
    train: Train = Train()
    """The run."""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write c.yaml and give its name."""
    monkeypatch.chdir(tmp_path)

    def written(text: str) -> str:
        Path("c.yaml").write_text(text, encoding="utf-8")
        return "c.yaml"

    return written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs: 2\nepocs: 3\n", "c.yaml:2: epocs: unknown key; did you mean 'epochs'?"),
        ("zzz: 3\n", "c.yaml:1: zzz: unknown key"),
        ("learning_rate: 3\n", "c.yaml:1: learning_rate: unknown key; did you mean 'optimizer.learning_rate'?"),
        ("nodes: {virtual: 2, epochs: 3}\n", "c.yaml:1: nodes.epochs: unknown key; did you mean 'epochs'?"),
        ("split: batch\n", "c.yaml:1: split: unknown key"),
        ("\n\nepochs: 0\n", "c.yaml:3: epochs: must be at least 1 (is 0)"),
        ("epochs: 101\n", "c.yaml:1: epochs: must be at most 100 (is 101)"),
        ("epochs: two\n", 'c.yaml:1: epochs: must be a whole number (is "two")'),
        ("epochs: 1.5\n", "c.yaml:1: epochs: must be a whole number (is 1.5)"),
        ("epochs:\n", "c.yaml:1: epochs: must be a whole number (is null)"),
        ("epochs: true\n", "c.yaml:1: epochs: must be a whole number (is true)"),
        ('epochs: "2"\n', 'c.yaml:1: epochs: must be a whole number (is "2")'),
        ("epochs: [2]\n", "c.yaml:1: epochs: must be a whole number (is [2])"),
        ("seed: x\n", 'c.yaml:1: seed: must be a whole number (is "x")'),
        ("shuffle: 7\n", "c.yaml:1: shuffle: must be true or false (is 7)"),
        ("name: 7\n", "c.yaml:1: name: must be text (is 7)"),
        ("name: forbidden\n", "c.yaml: this name and these epochs do not fit"),
        (
            "optimizer: sgd\n",
            "c.yaml:1: optimizer: must be a mapping of keys to values (is \"sgd\"); did you mean 'optimizer.name'?",
        ),
        ("optimizer: 3\n", "c.yaml:1: optimizer: must be a mapping of keys to values (is 3)"),
        ("optimizer:\n  learning_rate: -0.1\n", "c.yaml:2: optimizer.learning_rate: must be above 0 (is -0.1)"),
        (
            "optimizer: {learning_rate: fast}\n",
            "c.yaml:1: optimizer.learning_rate: must be a number or a mapping of keys",
        ),
        ("nodes: 0\n", "c.yaml:1: nodes: must be above 0 (is 0)"),
        ("nodes: {virtual: 0}\n", "c.yaml:1: nodes.virtual: must be above 0 (is 0)"),
        ("nodes:\n  virtul: 8\n", "c.yaml:2: nodes.virtul: unknown key; did you mean 'virtual'?"),
        ("named: {a: {split: local, evry: 2}}\n", "c.yaml:1: named.a.evry: unknown key; did you mean 'every'?"),
        ("named:\n  '1':\n    evry: 2\n", "c.yaml:3: named.1.evry: unknown key; did you mean 'every'?"),
        ("nodes: {}\n", "c.yaml:1: nodes.virtual: is required"),
        ("strategies: batch\n", 'c.yaml:1: strategies: must be a list (is "batch")'),
        (
            "strategies:\n- batch\n- split: loca\n",
            "c.yaml:3: strategies.1.split: must be one of 'batch' or 'local' (is \"loca\")",
        ),
        (
            "strategies:\n- batch\n- split: local\n  evry: 2\n",
            "c.yaml:4: strategies.1.evry: unknown key; did you mean 'every'?",
        ),
        ("strategies: [{split: local, every: 0}]\n", "c.yaml:1: strategies.0.every: must be above 0 (is 0)"),
        (
            "strategies: [{split: local, every: e}]\n",
            "c.yaml:1: strategies.0.every: must be 'epoch' or a whole number (is \"e\")",
        ),
        ("strategies: [3]\n", "c.yaml:1: strategies.0: must be a mapping of keys to values or text (is 3)"),
        ("seed: 1\nname: a\nseed: 2\n", "c.yaml:3: seed: is given twice"),
        ("optimizer:\n  name: a\n  name: b\n", "c.yaml:3: optimizer.name: is given twice"),
        ("a: b: c\n", "c.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("epochs: 2\n name: 3\n", "c.yaml:2: not valid YAML: mapping values are not allowed here"),
        ("epochs: [2\n", "c.yaml:2: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("epochs: !python/object:os.system 2\n", "c.yaml:1: not valid YAML: could not determine a constructor"),
        ("- epochs\n", "c.yaml:1: must be a mapping of keys to values"),
        ("just text\n", "c.yaml:1: must be a mapping of keys to values"),
        ("2: 3\n", "c.yaml:1: 2: unknown key"),
        ("[a, b]: 3\n", "c.yaml:1: not valid YAML: found unhashable key"),
        ("---\nepochs: 1\n---\nepochs: 2\n", "c.yaml:3: not valid YAML: but found another document"),
        ("name: \x01\n", "c.yaml: not valid YAML: "),
        ("name: !!int x\n", "c.yaml: not valid YAML: invalid literal for int()"),
        ("strategies: &a [*a]\n", "c.yaml:1: not valid YAML: an alias inside its own anchor"),
        (
            "optimizer: {learning_rate: .inf}\n",
            "c.yaml:1: optimizer.learning_rate: must be a finite number (is Infinity)",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(write: Callable[[str], str], text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(Train, write(text))
    assert str(error.value).startswith(message)
    assert exit_status(error.value) == 2
    assert "\n" not in str(error.value)


def test_the_first_of_several_errors_is_named(write: Callable[[str], str]) -> None:
    with pytest.raises(ConfigError, match=r"^c.yaml:1: shuffle: "):
        load(Train, write("shuffle: maybe\nepochs: 0\nzzz: 1\n"))


def test_a_key_of_several_sections_is_named_with_all_of_them() -> None:
    class Two(Config):
        one: Train = Train()
        other: Train = Train()

    expected = "^learning_rate: unknown key; did you mean 'one.optimizer.learning_rate' or 'other.optimizer."
    with pytest.raises(ConfigError, match=expected):
        parse(Two, {"learning_rate": 1})


def test_files_that_cannot_be_read(write: Callable[[str], str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^missing.yaml: cannot be read: No such file or directory$"):
        load(Train, "missing.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        load(Train, str(tmp_path))
    Path("train-table.yaml").touch()
    with pytest.raises(ConfigError, match=r"^train-tabel.yaml: cannot be read: .*; did you mean 'train-table.yaml'\?$"):
        load(Train, "train-tabel.yaml")
    Path("latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"^latin.yaml: is not UTF-8 text \(byte 9\)$"):
        load(Train, "latin.yaml")


def test_an_empty_file_and_no_file_are_the_defaults(write: Callable[[str], str]) -> None:
    assert load(Train, write("")) == load(Train, write("# nothing\n")) == load(Train, None) == Train()


def test_unions_and_open_sections(write: Callable[[str], str]) -> None:
    assert load(Train, write("nodes: 3")).nodes == 3
    assert load(Train, write("nodes: {virtual: 8}")).nodes == Virtual(virtual=8)
    config = load(Train, write("optimizer: {name: adam, beta_1: 0.5, learning_rate: {name: CosineDecay}}"))
    assert config.optimizer.model_extra == {"beta_1": 0.5}
    assert config.optimizer.learning_rate == {"name": "CosineDecay"}
    assert load(Train, write("strategies: [batch, {split: local, every: 32}]")).strategies == [
        "batch",
        Strategy(split="local", every=32),
    ]


def test_numbers_as_people_write_them(write: Callable[[str], str]) -> None:
    # YAML 1.1, which PyYAML reads, takes a number without a dot before its exponent for text.
    assert load(Train, write("optimizer: {learning_rate: 1e-3}")).optimizer.learning_rate == 0.001
    assert load(Train, write("optimizer: {learning_rate: 1}")).optimizer.learning_rate == 1.0
    assert load(Train, write("optimizer: {learning_rate: {rate: 1e-3}}")).optimizer.learning_rate == {"rate": 0.001}
    assert load(Train, write("epochs: 1_0")).epochs == 10
    assert load(Train, write("name: 2026-01-31")).name == "2026-01-31"
    assert load(Train, None, ["optimizer.learning_rate=5e-2"]).optimizer.learning_rate == 0.05


def test_anchors_and_merges_are_yaml_as_usual(write: Callable[[str], str]) -> None:
    config = load(Nested, write("output: x\ntrain: {optimizer: &o {name: adam}, strategies: []}\n"))
    assert config.train.optimizer.name == "adam"
    merged = "train:\n  strategies:\n  - &local {split: local, every: 4}\n  - <<: *local\n    every: 8\noutput: x\n"
    assert load(Nested, write(merged)).train.strategies[1] == Strategy(split="local", every=8)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["epocs=3"], "--set epocs=3: epocs: unknown key; did you mean 'epochs'?"),
        (["epochs=0"], "--set epochs=0: epochs: must be at least 1 (is 0)"),
        (["optimizer.learning_rate=-1"], "--set optimizer.learning_rate=-1: optimizer.learning_rate: must be above 0"),
        (["epochs"], "--set epochs: must have the form key.path=value"),
        (["=3"], "--set =3: must have the form key.path=value"),
        (["a..b=3"], "--set a..b=3: must have the form key.path=value"),
        (["epochs=[1"], "--set epochs=[1: the value is not valid YAML"),
        (["optimizer={name: a, name: b}"], "--set optimizer={name: a, name: b}: optimizer.name: is given twice"),
        (["epochs.x=1"], "--set epochs.x=1: epochs: must be a whole number"),
        (["strategies.0.split=x"], "--set strategies.0.split=x: strategies: must be a list"),
    ],
)
def test_what_is_wrong_with_set_names_the_argument(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(Train, None, overrides)
    assert str(error.value).startswith(message)


def test_set_overrides_the_file_in_order(write: Callable[[str], str]) -> None:
    file = write("epochs: 2\nnodes: 2\noptimizer: {name: adam, learning_rate: 0.5}\nstrategies: [batch]\n")
    config = load(Train, file, ["epochs=3", "epochs=4", "optimizer.learning_rate=0.1", "nodes.virtual=8", "seed="])
    assert (config.epochs, config.seed, config.nodes) == (4, None, Virtual(virtual=8))
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("adam", 0.1)
    assert load(Train, file, ["strategies=[{split: local}]"]).strategies == [Strategy(split="local")]


@pytest.mark.parametrize("mark", ["\t", "\x01", "|", ";", ",", ":", "#", "*", "&", "-", " ", '"', "\u00a7"])
def test_set_takes_one_mark_as_it_is(mark: str) -> None:
    assert load(Train, None, [f"optimizer.name={mark}"]).optimizer.name == mark


def test_set_takes_what_is_no_mark_as_yaml() -> None:
    config = load(Train, None, ["seed=~", "epochs=7", "optimizer.name=x"])
    assert (config.seed, config.epochs, config.optimizer.name) == (None, 7, "x")


def test_set_reaches_an_entry_of_a_list(write: Callable[[str], str]) -> None:
    file = write("strategies:\n- split: local\n- batch\n")
    assert load(Train, file, ["strategies.0.every=8"]).strategies == [Strategy(split="local", every=8), "batch"]
    with pytest.raises(ConfigError, match=r"^--set strategies.2.every=8: strategies: has no entry 2$"):
        load(Train, file, ["strategies.2.every=8"])


def test_what_set_did_not_touch_keeps_its_line(write: Callable[[str], str]) -> None:
    file = write("output: x\ntrain:\n  epochs: 0\n")
    with pytest.raises(ConfigError, match=r"^c.yaml:3: train.epochs: must be at least 1"):
        load(Nested, file, ["train.seed=3"])
    with pytest.raises(ConfigError, match=r"^--set train=\{epochs: 0\}: train.epochs: must be at least 1"):
        load(Nested, file, ["train={epochs: 0}"])


def test_dotted_keys_and_sections_go_together_and_the_later_one_wins() -> None:
    section = {"name": "adam", "learning_rate": 0.1}
    given = {
        "optimizer": section,
        "optimizer.learning_rate": 0.2,
        "sync.every": 4,
        "nodes": 2,
        "sync": {"outer": "none"},
    }
    assert nested(given) == {
        "optimizer": {"name": "adam", "learning_rate": 0.2}, "sync": {"every": 4, "outer": "none"}, "nodes": 2
    }  # fmt: skip
    assert section == {"name": "adam", "learning_rate": 0.1}
    assert nested({"nodes": 2, "nodes.virtual": 4}) == {"nodes": {"virtual": 4}}
    of_numpy = nested({"epochs": np.int64(3), "optimizer": {"learning_rate": np.float32(0.5)}, "x": [np.int8(1)]})
    assert json.dumps(of_numpy) == '{"epochs": 3, "optimizer": {"learning_rate": 0.5}, "x": [1]}'


def test_required_keys_and_errors_of_a_nested_validator(write: Callable[[str], str]) -> None:
    with pytest.raises(ConfigError, match=r"^c.yaml: output: is required$"):
        load(Nested, write("train: {epochs: 1}"))
    with pytest.raises(ConfigError, match=r"^c.yaml:2: train: this name and these epochs do not fit$"):
        load(Nested, write("output: x\ntrain: {name: forbidden}"))


def test_errors_that_the_command_finds_name_the_place(write: Callable[[str], str]) -> None:
    config = load(
        Nested, write("output: x\ntrain:\n  optimizer:\n    name: sdg\n  strategies: [a, b]\n"), ["train.epochs=3"]
    )
    assert str(config.error("train.optimizer.name", "no")) == "c.yaml:4: train.optimizer.name: no"
    assert str(config.train.optimizer.error("name", "no")) == "c.yaml:4: train.optimizer.name: no"
    assert str(config.train.error("epochs", "no")) == "--set train.epochs=3: train.epochs: no"
    assert str(config.train.error("strategies.1", "no")) == "c.yaml:5: train.strategies.1: no"
    assert str(config.train.error("seed", "no")) == "c.yaml:2: train.seed: no"
    assert str(parse(Train, {"epochs": 3}).error("epochs", "no")) == "epochs: no"
    assert str(Train().error("epochs", "no")) == "epochs: no"


def test_sections_in_lists_know_their_place(write: Callable[[str], str]) -> None:
    config = load(Train, write("strategies:\n- batch\n- split: local\n  every: 4\n"))
    strategy = config.strategies[1]
    assert isinstance(strategy, Strategy)
    assert str(strategy.error("every", "no")) == "c.yaml:4: strategies.1.every: no"


def test_places_survive_the_way_to_another_process(write: Callable[[str], str]) -> None:
    config = load(Nested, write("output: x\ntrain:\n  strategies:\n  - {split: local}\n"), ["train.epochs=3"]).train
    again = parse(Train, config.model_dump(), Origin.from_json(json.loads(json.dumps(config.origin.to_json()))))
    assert str(again.error("strategies.0.split", "no")) == "c.yaml:4: train.strategies.0.split: no"
    assert str(again.error("epochs", "no")) == "--set train.epochs=3: train.epochs: no"
    assert str(again.error("seed", "no")) == "c.yaml:2: train.seed: no"


def test_configuration_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError):
        Train().epochs = 3  # type: ignore[misc]


def test_describe_lists_every_key() -> None:
    rows = {key: (kind, default, text) for key, kind, default, text in documented_keys(Nested)}
    assert rows["output"] == ("text", "required", "A folder.")
    assert rows["train.epochs"] == ("whole number", "1", "Passes.")
    assert rows["train.nodes"][0] == "whole number | mapping"
    assert rows["train.nodes.virtual"][1] == ""  # another form of a key that has a default
    assert rows["train.seed"] == ("whole number | null", "null", "Of everything.")
    assert rows["train.shuffle"] == ("true | false", "true", "Or not.")
    assert rows["train.strategies"][0] == "list of mapping | text"
    assert rows["train.optimizer.learning_rate"][0] == "number | mapping"
    assert rows["train.optimizer"] == ("mapping", "", "How weights change.")


def test_digest_ignores_key_order_only() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1, "b": [2, 1]}) != digest({"a": 1, "b": [1, 2]})
    assert len(digest(None)) == 16


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Train.model_fields, "other"]) | st.text(max_size=5), plain, max_size=4))
def test_any_mapping_is_read_or_refused_with_one_line(values: dict[str, Any]) -> None:
    try:
        parse(Train, values)
    except ConfigError as error:
        assert "\n" not in str(error).strip()


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_its_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load(Train, str(file))
    except ConfigError as error:
        assert str(error).startswith(str(file))


@given(st.dictionaries(st.sampled_from(["epochs", "seed", "name", "shuffle"]), plain, max_size=4))
def test_values_mean_the_same_from_a_file_and_from_set(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "same.yaml"
    file.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False), encoding="utf-8")
    flow = [
        f"{key}={yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)}"
        for key, value in values.items()
    ]
    outcomes = []
    for arguments in ((str(file), []), (None, flow)):
        try:
            outcomes.append(load(Train, arguments[0], arguments[1]).model_dump())
        except ConfigError as error:
            outcomes.append(str(error).rpartition(": ")[2])
    assert outcomes[0] == outcomes[1]
