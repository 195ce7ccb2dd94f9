"""The benchmark of what grows with the nodes, with few of them."""

import json
import sys

from benchmarks import thousand_nodes


def test_it_prints_its_figures(monkeypatch, capsys):
    sizes = ["--nodes", "20", "--lanes", "60", "--rows", "50000", "--partitions", "3"]
    monkeypatch.setattr(sys, "argv", ["thousand_nodes.py", *sizes])
    thousand_nodes.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["nodes"] == 20
    for name in ("dealing_a_pass", "lines_of_two_seconds", "tables_of_partitions"):
        assert found[f"{name}_seconds"] >= 0 and found[f"{name}_mb"] >= 0
