"""The rules about words: a verb, what it is about, and what says more about that."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BY_VERB", "FOR_ORDERS", "NEEDS", "RULES", "Rule"]


class Rule(NamedTuple):
    """Words of the classes `needs` near one of `verb`; `a|b` stands for either."""

    type: str
    score: float
    verb: str
    needs: tuple[str, ...] = ()


def rule(type: str, score: float, verbs: str, *needs: str) -> list[Rule]:
    """One rule for each of the verbs."""
    return [Rule(type, score, verb, needs) for verb in verbs.split("|")]


OVERRIDE = "prior|all|your|sysword"

RULES = (
    *rule("injection", 0.9, "ign", OVERRIDE, "rules"),
    *rule("injection", 0.55, "ign", "rules"),
    *rule("injection", 0.75, "ign", "told"),
    *rule("injection", 0.8, "ign", "all", "told"),
    *rule("injection", 0.75, "ign", "upper"),
    *rule("injection", 0.75, "ign", "aforesaid"),
    *rule("injection", 0.95, "ign", "all", "new", "rules"),
    *rule("injection", 0.8, "ign", "all", "known"),
    *rule("injection", 0.75, "ign", "all", "prior"),
    *rule("injection", 0.9, "ign", "sysp"),
    *rule("injection", 0.75, "obey", "neg", OVERRIDE, "rules"),
    *rule("injection", 0.6, "new", "rules", "your"),
    *rule("injection", 0.65, "new", "rules", "fromnow"),
    *rule("injection", 0.75, "toai"),
    *rule("injection", 0.9, "toai", "ign|must|show|send|answer|hide|reveal|use|new"),
    *rule("injection", 0.55, "hide"),
    *rule("injection", 0.75, "hide", "send|reveal|use", "secret|conv|tool|sysp"),
    *rule("jailbreak", 0.85, "dan"),
    *rule("jailbreak", 0.9, "act", "free"),
    *rule("jailbreak", 0.85, "act", "wild", "ai"),
    *rule("jailbreak", 0.85, "act", "without", "limit|safe"),
    *rule("jailbreak", 0.6, "youare", "free"),
    *rule("jailbreak", 0.85, "youare", "free", "ai|fromnow|now|act|answer|nolonger|persona"),
    *rule("jailbreak", 0.85, "youare", "without", "limit|safe", "ai|fromnow|act|answer"),
    *rule("jailbreak", 0.75, "bound", "rules|safe|limit", "fromnow|ign|answer|act|ai"),
    *rule("jailbreak", 0.65, "free", "ai"),
    *rule("jailbreak", 0.85, "free", "answer", "ai|must|youare|fromnow|ign"),
    *rule("jailbreak", 0.65, "answer", "without", "limit"),
    *rule("jailbreak", 0.75, "answer", "without", "safe"),
    *rule("jailbreak", 0.75, "answer", "without", "limit", "all|youare|fromnow|must|ign"),
    *rule("jailbreak", 0.75, "answer", "free"),
    *rule("role-manipulation", 0.6, "fromnow", "youare|act"),
    *rule("role-manipulation", 0.8, "fromnow", "youare|act|answer", "free|nolonger|persona|boss"),
    *rule("role-manipulation", 0.8, "youare", "nolonger", "ai|rules|limit|safe|free"),
    *rule("role-manipulation", 0.45, "act"),
    *rule("role-manipulation", 0.75, "act", "nolonger|persona"),
    *rule("role-manipulation", 0.8, "act", "neg", "ai", "rules|limit|safe"),
    *rule("system-override", 0.65, "off", "safe"),
    *rule("system-override", 0.85, "off", "your", "safe|limit"),
    *rule("system-override", 0.8, "off", "all", "safe"),
    *rule("system-override", 0.45, "mode"),
    *rule("system-override", 0.6, "mode", "on"),
    *rule("system-override", 0.85, "mode", "youare|ai|safe|free|iam"),
    *rule("system-override", 0.65, "ign", "safe"),
    *rule("system-override", 0.85, "ign", "your|all", "safe"),
    *rule("system-override", 0.75, "override"),
    *rule("system-override", 0.6, "iam", "boss"),
    *rule("system-override", 0.75, "iam", "your", "boss"),
    *rule("data-exfiltration", 0.65, "show", "sysp"),
    *rule("data-exfiltration", 0.85, "show", "sysp", "your|all|verbatim"),
    *rule("data-exfiltration", 0.85, "reveal|echo", "sysp"),
    *rule("data-exfiltration", 0.65, "send", "sysp"),
    *rule("data-exfiltration", 0.8, "show|reveal|echo", "your", "sysmsg"),
    *rule("data-exfiltration", 0.55, "show", "your", "rules"),
    *rule("data-exfiltration", 0.75, "show", "your", "prompt"),
    *rule("data-exfiltration", 0.8, "show", "your", "rules", "verbatim|prior"),
    *rule("data-exfiltration", 0.8, "reveal", "your", "rules"),
    *rule("data-exfiltration", 0.65, "echo", "upper"),
    *rule("data-exfiltration", 0.8, "echo", "upper", "verbatim"),
    *rule("data-exfiltration", 0.8, "echo", "allabove"),
    *rule("data-exfiltration", 0.8, "show", "upper", "verbatim"),
    *rule("data-exfiltration", 0.75, "reveal", "secret", "your|all|sysp|conv"),
    *rule("data-exfiltration", 0.65, "show", "secret", "your"),
    *rule("data-exfiltration", 0.7, "send", "secret", "your|all"),
    *rule("data-exfiltration", 0.8, "send", "secret|conv|sysp", "url"),
    *rule("data-exfiltration", 0.75, "send", "secret|sysp", "mail"),
    *rule("data-exfiltration", 0.75, "send", "conv", "mail", "all|hide"),
    *rule("data-exfiltration", 0.6, "send", "conv", "mail"),
    *rule("tool-exfiltration", 0.6, "show", "your|you|all", "tool"),
    *rule("tool-exfiltration", 0.75, "show", "your|you", "tool", "schema"),
    *rule("tool-exfiltration", 0.65, "reveal", "your|you", "tool"),
    *rule("tool-exfiltration", 0.8, "reveal", "your|you", "tool", "schema"),
    *rule("tool-exfiltration", 0.8, "use", "tool", "send|show|reveal", "secret|conv|sysp"),
    *rule("tool-exfiltration", 0.65, "use", "tool", "secret|sysp"),
)
FOR_ORDERS = frozenset(
    r for r in RULES if r.verb in ("show", "send", "off") and 0.65 <= r.score <= 0.7
)
"""Rules that count where the verb gives an order: "how do I show" differs from "show"."""
BY_VERB: dict[str, list[Rule]] = {}
for _rule in RULES:
    BY_VERB.setdefault(_rule.verb, []).append(_rule)
NEEDS = {r: [set(need.split("|")) for need in r.needs] for r in RULES}
