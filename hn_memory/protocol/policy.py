"""`.hn/policy.json` (section 6): who is trusted to say what. Pure: bytes in, a `Policy` or an error out."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.identifiers import KINDS, is_actor_id
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias


POLICY_PATH: Final = ".hn/policy.json"
POLICY_VERSION: Final = "hn.policy/0"
TRUST_CLASSES: Final = ("qualified", "policy-missing", "actor-untrusted", "kind-untrusted")

_MISSING_TEXT: Final = b"hn-memory-policy-missing-v0"
_SECTIONS: Final = ("version", "maintainers", "proposals", "pipelines", "memory")

PolicyState: TypeAlias = "Literal['present', 'no-memory-section', 'missing']"


class Policy(NamedTuple):
    """What the policy at one commit says of memory. `actors` and `kinds` are empty without a section."""

    digest: str
    state: PolicyState
    actors: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def trust(self, actor: str, kind: str) -> str:
        """The trust class of a record by `actor` of `kind`: the first rule of section 5 that holds."""
        if self.state != "present":
            return "policy-missing"
        if actor not in self.actors:
            return "actor-untrusted"
        return "qualified" if kind in self.kinds else "kind-untrusted"


def missing_policy() -> Policy:
    """The policy of a commit that has no policy file."""
    return Policy(_digest(_MISSING_TEXT), "missing")


def parse_policy(data: bytes) -> Policy:
    """The policy in the exact bytes of a policy file.

    Raises:
        HnError `policy-invalid`, naming the field.
    """
    if len(data) > limits.POLICY_BYTES:
        raise HnError(
            "policy-invalid",
            f"{POLICY_PATH} has {len(data)} bytes, at most {limits.POLICY_BYTES} are allowed",
        )
    # "The inside of other sections is not looked into": repeated fields matter only where a reader opens.
    value = loads(data, "policy-invalid", POLICY_PATH, usage=False, everywhere=False)
    reader = Reader("policy-invalid", usage=False)
    fields = reader.object(value, "", (), _SECTIONS)
    if "version" in fields and fields["version"] != POLICY_VERSION:
        reader.fail(f"version is not {POLICY_VERSION}", "version")
    if "memory" not in fields:
        return Policy(_digest(data), "no-memory-section")
    section = reader.object(fields["memory"], "memory", (), ("trustedActors", "trustedKinds"))
    actors = _sorted_list(reader, section.get("trustedActors", []), "memory.trustedActors")
    for at, actor in enumerate(actors):
        if not is_actor_id(actor):
            reader.fail("an actor is 64 lower-case hex digits", f"memory.trustedActors[{at}]")
    kinds = _sorted_list(reader, section.get("trustedKinds", []), "memory.trustedKinds")
    for at, kind in enumerate(kinds):
        if kind not in KINDS:
            reader.fail(f"unknown kind; kinds are {', '.join(KINDS)}", f"memory.trustedKinds[{at}]")
    return Policy(_digest(data), "present", frozenset(actors), frozenset(kinds))


def _digest(data: bytes) -> str:
    return "sha256:" + sha256(data).hexdigest()


def _sorted_list(reader: Reader, value: object, where: str) -> list[str]:
    items = reader.texts(value, where)
    for at in range(1, len(items)):
        if items[at - 1] >= items[at]:
            reader.fail(f"{where} must be sorted and unique", f"{where}[{at}]")
    return items
