"""``smlab claims`` as scripts and people meet it."""

from dataclasses import replace

import pytest

from answers import document
from smlab.cli.main import run
from smlab.commands.claims import api as command
from smlab.validation.papers.claims import Ledger, load_ledger

KEYS = {"id", "source", "claim", "expected", "observed", "evidence", "verdict", "needs", "command", "note"}
VERDICTS = {"holds", "holds in part", "does not hold", "cannot be judged here"}


def test_claims_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "claims", "--only", "gpa", "--only", "vl-mape", "--only", "dp-cas-costs-more")[
        "claims"
    ]
    assert {c["id"].split("-")[0] for c in found} == {"gpa", "vl", "dp"}  # type: ignore[attr-defined]
    for claim in found:
        assert set(claim) >= KEYS
        assert claim["verdict"] in VERDICTS
        judged = claim["verdict"] != "cannot be judged here"
        assert (claim["evidence"] in ("simulated", "measured", "published")) == judged
        assert bool(claim["needs"]) != judged
        assert bool(claim["conditions"]) == judged
    by_id = {c["id"]: c["verdict"] for c in found}
    # Arithmetic on printed tables does not change with the simulator.
    assert by_id["gpa-error-average"] == "does not hold"
    assert by_id["gpa-error-geometric"] == "holds"
    assert by_id["gpa-text-and-table"] == "holds in part"
    assert by_id["vl-mape-range"] == "does not hold"
    assert by_id["vl-mape-lulesh"] == "cannot be judged here"


def test_claims_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "--only", "gpa-error-average", "--only", "dp-cas-costs-more"]) == 0
    printed = capsys.readouterr().out
    assert "2 claims: 0 hold, 0 hold in part, 1 do not hold, 1 cannot be judged here" in printed
    assert "gpa-error-average" in printed
    assert "6.991 %" in printed


def test_quick_leaves_out_what_takes_longer(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "claims", "--quick", "--only", "coyne-stalls-simulated", "--only", "coyne-sms")
    assert [c["id"] for c in found["claims"]] == ["coyne-sms"]
    assert found["left_out"] == ["coyne-stalls-simulated"]


def test_an_unknown_claim_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "--only", "dp-sprad"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "dp-spread" in printed.err


def test_a_claim_that_could_be_judged_by_now_makes_the_command_fall_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = load_ledger()
    (waiting,) = (c for c in shipped.claims if c.id == "dp-cas-costs-more")
    overdue = Ledger(shipped.papers, (replace(waiting, needs=()),))
    monkeypatch.setattr(command, "load_ledger", lambda: overdue)
    assert run(["claims"]) == 1
    assert "dp-cas-costs-more" in capsys.readouterr().err


def test_claims_of_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--quick", "--source", "van lanker")
    found = document(capsys, "claims", *arguments)["claims"]
    assert {c["source"].split(",")[0] for c in found} == {"Van Lanker et al."}  # type: ignore[attr-defined]
    assert run(["claims", *arguments]) == 0
    told = capsys.readouterr().out
    assert "Van Lanker et al." in told
    assert "Coyne" not in told
    assert run(["claims", "--source", "Knuth"]) == 2
    assert "one of Dong & Pai; " in capsys.readouterr().err
