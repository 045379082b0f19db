"""Findings about a server, as its peers see it: why it does not work, and what to do about it. `azplay
status` shows those about a run's health; a doctor also says why a server cannot be reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from azselfplay.diagnostics.advice import ADVICE, link_to
from azselfplay.diagnostics.doctor.findings import Finding, fault, ok, warning
from azselfplay.host.ports import UNKNOWN_NAME
from azselfplay.host.view import trainer_of
from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Goodbye, Welcome

CLOCK_WARNING, CLOCK_FAULT = 5.0, 60.0
"""Seconds of difference between the two clocks from which there is a warning or a fault."""

STARTING_SECONDS = 90.0
"""Seconds after azserver's start during which its evaluators may still be loading torch and the network."""

WRONG_PROTOCOL = (Code.PROTOCOL_TOO_OLD, Code.PROTOCOL_TOO_NEW)


@dataclass(frozen=True)
class PortFacts:
    """One port."""

    name: str
    address: str
    """HOST:PORT."""
    unreachable: str = ""
    """Why no connection is possible; empty: it is possible."""
    answer: Welcome | Goodbye | None = None
    """The answer to HELLO; None: no valid answer came."""
    refused: str = ""
    """Why the server does not let us in, in azclient's words (`link.connection.refusal`)."""


@dataclass(frozen=True)
class ServiceFacts:
    """Facts about a server."""

    ports: Sequence[PortFacts]
    software: str
    """Our version, to compare with that of the server in WELCOME."""
    figures: Mapping[str, Any] | None = None
    """The figures of STATUS."""
    clock_ahead: float | None = None
    """Seconds by which the server's clock is ahead of ours; None: unknown."""
    run: str = ""
    """The expected run, and in the next field the expected game; empty: any."""
    game: str = ""

    @property
    def welcome(self) -> Welcome | None:
        return next((port.answer for port in self.ports if isinstance(port.answer, Welcome)), None)


def service_findings(facts: ServiceFacts) -> list[Finding]:
    """Return all findings about reaching a server and about its answers."""
    first, *others = facts.ports
    wrong = not isinstance(first.answer, Welcome)
    if wrong and all(replace(one, name=first.name, address=first.address) == first for one in others):
        # A problem that all ports share is reported once.
        names = " and ".join(port.name for port in facts.ports)
        address = " and ".join([first.address, *(one.address.rpartition(":")[2] for one in others)])
        findings = [_port(replace(first, address=address), f"{names} port{'s' if others else ''}")]
    else:
        findings = [_port(port, f"{port.name} port") for port in facts.ports]
    host, _, port = first.address.rpartition(":")
    # Both ports answer HELLO alike. Only an unreachable second port suggests that the given port is not the
    # base port.
    if not wrong and others and others[0].unreachable:
        todo = (
            f"{port} may be azserver's bulk port: then give the base port, one less ({host}:{int(port) - 1})"
        )
        findings[1] = replace(findings[1], todo=f"{todo}; otherwise {findings[1].todo}")
    welcome = facts.welcome
    # Nothing else is known of a server that has not let us in.
    if welcome is None:
        return findings
    ours, theirs = facts.software, welcome.software
    if ours == theirs:
        findings.append(ok("version", f"{ours} on both sides"))
    else:
        found = f"here {ours}, there {theirs or 'unknown'}"
        findings.append(warning("version", found, "install the same version on both sides"))
    for check, wanted, there in (("run", facts.run, welcome.run), ("game", facts.game, welcome.game)):
        if wanted and wanted != there:
            todo = "give the address and port of the azserver that you mean"
            findings.append(fault(check, f"the server's is {there}, not {wanted}", todo))
        else:
            findings.append(ok(check, there))
    if (ahead := facts.clock_ahead) is not None:
        found = f"the server's is {abs(ahead):.1f} s {'ahead' if ahead >= 0 else 'behind'}"
        todo = "set both by NTP (timedatectl set-ntp true), or logs and metrics cannot be compared"
        if abs(ahead) >= CLOCK_FAULT:
            findings.append(fault("clock", found, todo))
        else:
            is_off = abs(ahead) >= CLOCK_WARNING
            findings.append(warning("clock", found, todo) if is_off else ok("clock", found))
    if facts.figures is not None:
        findings += figure_findings(facts.figures)
    return findings


def figure_findings(figures: Mapping[str, Any]) -> list[Finding]:
    """Return findings about the run's health from STATUS; `azplay status` shows the same findings."""
    working, rate = figures.get("evaluators") or 0, figures.get("evals_per_s") or 0.0
    if figures.get("players_evaluate"):
        found = f"none is needed: the players evaluate, {rate:,.0f} positions a second now"
        evaluators = ok("evaluators", found)
    elif working:
        evaluators = ok("evaluators", f"{working} at work, {rate:,.0f} evaluations a second now")
    elif is_starting(figures):
        todo = "ask again in a minute"
        evaluators = warning("evaluators", "none is up yet: azserver is starting", todo)
    else:
        todo = "look for the evaluator's error in azserver's log"
        evaluators = fault("evaluators", "none is up, so nobody gets evaluations", todo)

    version = figures.get("weights_version")
    weights = ok("weights", f"version {version}")
    if version is None or version < 0:
        weights = fault("weights", "there are none", "restart azserver: it makes an untrained network")

    said = trainer_of(figures)
    trainer = ok("trainer", "connected")
    if not (figures.get("sessions") or {}).get("trainer"):
        todo = "start it (python -m trainer --server HOST); until then games wait on the players' disks"
        trainer = warning("trainer", "none is connected", todo)
    # The last figures of a trainer that has left say nothing about the present.
    elif trouble := said.get("not_stored"):
        todo = "do as it says; until then games wait on the players' disks, and none is lost"
        trainer = fault("trainer", f"it stores no games: {trouble}", todo)

    findings = [evaluators, weights, trainer]
    if faults := figures.get("faults"):
        todo = "its log has a traceback for each kind; please report them"
        findings.append(warning("faults", f"azserver met {faults} faults of its own", todo))
    for text in map(str, said.get("alerts") or ()):
        advice = ADVICE.get(name := text.partition(":")[0])  # None: a trainer of another version
        log = f"look for {name!r} in the trainer's log"
        todo = f"{advice.first}; more: {link_to(name)}" if advice else log
        findings.append(warning("learning", text, todo))
    return findings


def _port(port: PortFacts, check: str) -> Finding:
    # An unknown host name affects all ports alike, so no port is named.
    if port.unreachable.startswith(UNKNOWN_NAME):
        todo = "check the name of the machine that azserver runs on, or give its address"
        return fault("address", port.unreachable, todo)
    if port.unreachable:
        return fault(
            check,
            f"{port.address}: {port.unreachable}",
            "start azserver there; from another machine it needs --listen 0.0.0.0 (or its address), and no "
            "firewall in between may close it",
        )
    if port.refused:
        found, _, todo = port.refused.partition(": ")
        return fault(check, f"{port.address}: azserver does not let this process in: {found}", todo)
    if port.answer is None:
        return fault(
            check,
            f"{port.address}: something listens there, but it does not answer as azserver does",
            "check the port (azserver's base port, 5600 unless it was told another), and that azserver is "
            "not stuck: its log",
        )
    if isinstance(port.answer, Goodbye):
        goodbye = port.answer
        if goodbye.code in WRONG_PROTOCOL:
            todo = "install the same version on both sides"
            return fault(check, f"{port.address}: {goodbye.reason}", todo)
        # The server will let peers in later, so this is no fault of this machine.
        if goodbye.retry_after:
            found = f"{port.address}: azserver takes nobody in now: {goodbye.reason}"
            return warning(check, found, "wait: it will take peers in later")
        found = f"{port.address}: azserver refuses this peer: {goodbye.reason}"
        return fault(check, found, "do as the reason says")
    return ok(check, f"{port.address} answers, protocol {PROTOCOL_VERSION}")


def is_starting(figures: Mapping[str, Any]) -> bool:
    """Return whether azserver has no evaluator only because it was just started."""
    if figures.get("players_evaluate"):
        return False
    # If a server does not report its uptime, it counts as long started.
    return not figures.get("evaluators") and figures.get("uptime_s", math.inf) < STARTING_SECONDS
