"""Write one memory of every kind with a fixed key and a fixed clock, and tell what came of it.

    python write_worker.py REPOSITORY BACKEND

One JSON document on stdout: the commits of every stream, newest first.
"""

from __future__ import annotations

import json
import sys

from hn_memory import RecordArguments, Service, open_repository
from hn_memory.protocol.identity import new_identity
from hn_memory.protocol.record import Handoff

# Names that Git writes differently, or that a hostile encoding would.
NAMES = ("Ada Lovelace", "<>", "  Müller, José . ", "김 <script>", "\u202eeve", "...", "x" * 256)
CONTENT = "Grüße, 한국어, \r\n\u2028 <&> \U0001f468\u200d\U0001f680 \x7f\x00 end\r\n"


class Clock:
    """Every question a second and a nanosecond later."""

    def __init__(self) -> None:
        self.now = 1_767_323_045_000_000_000

    def __call__(self) -> int:
        self.now += 1_000_000_001
        return self.now


def write(service: Service) -> None:
    """Every operation, every kind, with every name."""
    keyring = service.environment.keyring
    identities = [keyring.add(new_identity(name, bytes([at]) * 32)) for at, name in enumerate(NAMES)]
    keyring.use(identities[0].actor)
    first = service.record(RecordArguments(kind="decision", content=CONTENT, topics=("Größe", "a")))["memoryId"]
    paths = (("app.py", None), (":/docs/plan.md", None))
    service.record(RecordArguments(kind="observation", content="about files", paths=paths))
    subject = "issue:sha256:" + "a" * 64
    service.record(RecordArguments(kind="assumption", content="x", applies="subject", subject=subject))
    service.record(RecordArguments(kind="attempt", content="tried", outcome="failed", applies="exact"))
    service.record(RecordArguments(kind="verification", content="seen", evidence=(f"memory:{first}",)))
    handoff = Handoff(("done",), ("assumed",), ("blocked",), ("next",))
    service.record(RecordArguments(kind="handoff", content="over", handoff=handoff))
    second = service.record(RecordArguments(kind="decision", content="better"), target=first)["memoryId"]
    service.record_all([RecordArguments(kind="decision", content=f"one of {number}") for number in range(3)])
    service.retract(second, "no-longer-true")
    service.record(RecordArguments(kind="decision", content="aside", stream="sha256:" + "b" * 64))
    for identity in identities[1:]:
        keyring.use(identity.actor)
        service.challenge(first, "evidence-mismatch", evidence=(f"memory:{second}",))
        service.record(RecordArguments(kind="decision", content=f"by {identity.name}"))
    keyring.use(identities[0].actor)


def main() -> int:
    repository, backend = sys.argv[1:]
    with open_repository(repository, backend=backend, clock=Clock()) as service:
        assert service.environment.repository.backend == backend
        write(service)
        refs = {ref.name: ref.target for ref in service.environment.repository.refs("refs/hn")}
        commits = {
            name: [step[0] for step in service.environment.repository.parents(tip)] for name, tip in refs.items()
        }
    print(json.dumps({"refs": refs, "commits": commits}, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
