"""Every scenario that the library can run gives the expected trace; the others say why not."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import features
from conformance.compare import compare
from conformance.run import run_directory, run_file, run_scenario, summary

DATA = Path(__file__).parent.parent / "data" / "conformance"
MANIFEST: dict[str, Any] = json.loads((DATA / "manifest.json").read_text())["scenarios"]
BUILT = {group for group in features.GROUPS if features.has(features.Need(group))} - {"builtins"}


def load(kind: str, name: str) -> dict[str, Any]:
    return json.loads((DATA / kind / f"{name}.json").read_text(encoding="utf-8"))


def runnable(name: str) -> bool:
    return not features.missing(load("scenarios", name))


@pytest.mark.parametrize("name", [name for name in MANIFEST if runnable(name)])
async def test_trace(name: str) -> None:
    """What the scenario does is what it should do, event by event."""
    trace = await run_scenario(load("scenarios", name))
    # A trace is JSON: what is compared is what a file of it would hold.
    mismatches = compare(load("expected", name), json.loads(json.dumps(trace)))
    assert not mismatches, "\n".join(map(str, mismatches[:20]))


def test_the_core_is_complete() -> None:
    """No scenario that needs only what every version has is put off."""
    core = {name for name, entry in MANIFEST.items() if set(entry["needs"]) <= features.ALWAYS}
    assert len(core) == 91
    assert {name for name in core if not runnable(name)} == set()


def test_every_scenario_has_an_expected_trace() -> None:
    names = [{path.stem for path in (DATA / kind).iterdir()} for kind in ("scenarios", "expected")]
    assert names == [set(MANIFEST), set(MANIFEST)]


@pytest.mark.parametrize("name", MANIFEST)
def test_needs_are_those_of_the_manifest(name: str) -> None:
    """What is found in a scenario is what its author says it needs."""
    found = {need.group for need in features.needs(load("scenarios", name))}
    assert found | {"core-loop"} == set(MANIFEST[name]["needs"])


def test_the_rest_is_reported_by_feature(tmp_path: Path) -> None:
    """A scenario that cannot run yet is named, with exactly the groups that are missing."""
    waiting = {name for name in MANIFEST if not runnable(name)}
    for name in waiting:
        (tmp_path / f"{name}.json").symlink_to(DATA / "scenarios" / f"{name}.json")
    out = tmp_path / "out"
    outcomes = run_directory(tmp_path, out)
    assert {outcome.name for outcome in outcomes} == waiting
    assert {outcome.verdict for outcome in outcomes} <= {"not yet"}
    for outcome in outcomes:
        wanted = set(MANIFEST[outcome.name]["needs"]) - BUILT
        assert set(outcome.groups) <= wanted
        assert set(outcome.groups) >= wanted - {"builtins"}
        assert all(group in outcome.detail for group in outcome.groups)
    assert f"{len(waiting)} not yet" in summary(outcomes)
    assert list(out.iterdir()) == []


def test_what_is_no_scenario_fails(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert run_file(broken, tmp_path).verdict == "failed"


def test_unknown_keys_fail_loudly(tmp_path: Path) -> None:
    """Nothing of a scenario is left out in silence."""
    scenario = load("scenarios", "order_text_stream")
    scenario["agent"]["mood"] = "good"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(scenario))
    outcome = run_file(path, tmp_path)
    assert (outcome.verdict, "mood" in outcome.detail) == ("failed", True)
