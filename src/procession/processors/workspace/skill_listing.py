"""How skills are listed to a model: as XML, JSON or Markdown (B-340)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .skill import Skill

__all__ = ["FORMATS", "Located", "listing"]

Located = Callable[["Skill"], str | None]
"""What the model is told about where a skill is; `None`: nothing."""


def _xml(facts: Iterable[dict[str, str]]) -> str:
    lines: list[str] = []
    for skill in facts:
        fields = [f"<{name}>{escape(text, quote=False)}</{name}>" for name, text in skill.items()]
        lines += ["<skill>", *fields, "</skill>"]
    return "\n".join(["<available_skills>", *lines, "</available_skills>"])


def _json(facts: Iterable[dict[str, str]]) -> str:
    return json.dumps({"available_skills": list(facts)}, ensure_ascii=False)


def _markdown(facts: Iterable[dict[str, str]]) -> str:
    lines: list[str] = []
    for skill in facts:
        where = f" ({skill['location']})" if "location" in skill else ""
        lines.append(f"- **{skill['name']}**: {skill['description']}{where}")
    return "\n".join(["## Available skills", "", *lines])


FORMATS = {"xml": _xml, "json": _json, "markdown": _markdown}


def listing(skills: Iterable[Skill], form: str, located: Located) -> str:
    """The skills in one text, each value on one line, whatever a description says."""
    return FORMATS[form](_facts(skill, located) for skill in skills)


def _facts(skill: Skill, located: Located) -> dict[str, str]:
    facts = {"name": skill.name, "description": " ".join(skill.description.split())}
    where = located(skill)
    if where:
        facts["location"] = " ".join(where.split())
    return facts
