"""What a remote offers: one `git ls-remote` of the memory namespace (import, step 1)."""

from __future__ import annotations

from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import LOCAL_PREFIX, is_object_id, parse_source_ref
from hn_memory.replication.network import Ended, clean_lines, network_environment, run_network
from hn_memory.replication.remote import Remote, command_place
from hn_memory.repository.base import Repository
from hn_memory.values import NamedTuple

# Some 350,000 streams.
_OUTPUT_BYTES: Final = 64 * 1024 * 1024
_FORMATS: Final = {40: "SHA-1", 64: "SHA-256"}


class Offer(NamedTuple):
    """A stream as a remote offers it."""

    actor: str
    stream: str
    commit: str

    @property
    def digest(self) -> str:
        """The 64 digits that name the stream in a ref."""
        return self.stream.removeprefix("sha256:")


class Advert(NamedTuple):
    """All that a remote offers.

    Attributes:
        offers: streams with exactly one owner, sorted.
        disputed: streams offered under more than one owner, with the owners; nothing is requested for them.
        malformed: how many refs in the namespace have other names.
    """

    offers: tuple[Offer, ...]
    disputed: dict[str, tuple[str, ...]]
    malformed: int

    def find(self, stream: str) -> Offer | None:
        """The offer of a stream."""
        return next((offer for offer in self.offers if offer.stream == stream), None)


def advertise(
    repository: Repository,
    remote: Remote,
    *,
    deadline: float,
    interactive: bool = False,
    place: list[str] | None = None,
) -> Advert:
    """Ask the remote.

    Raises:
        HnError `remote-failed`: it cannot be asked; the message holds Git's and the remote's words.
        HnError `object-format-mismatch`: it uses another object format.
    """
    command = [*command_place(repository), f"--git-dir={repository.layout.git_dir}"] if place is None else place
    env = network_environment(interactive=interactive, ssh_command=remote.ssh_command)
    if place is not None or remote.bundle:
        env |= remote.environment()
    done = run_network(
        [*command, "ls-remote", "--refs", "--", remote.name, f"{LOCAL_PREFIX}*"],
        env,
        deadline=deadline,
        secrets=remote.secrets,
        output_limit=_OUTPUT_BYTES,
        interactive=interactive,
    )
    if done.status:
        raise remote_failed(remote, done)
    return parse_advert(done.stdout, repository.oid_length)


def remote_failed(remote: Remote, done: Ended) -> HnError:
    """The refusal when Git could not talk to the remote at all."""
    words = done.words
    hint = "nothing was changed here"
    if done.timed_out:
        hint += "; HN_SYNC_TIMEOUT sets another limit (seconds)"
    if "mismatched algorithms" in words:
        return HnError("object-format-mismatch", f"{remote.name}: {words}", hint=_OTHER_FORMAT)
    return HnError("remote-failed", f"{remote.name}: {words}", hint=hint)


_OTHER_FORMAT: Final = "Git cannot move objects between SHA-1 and SHA-256 repositories."


def parse_advert(output: bytes, oid_length: int) -> Advert:
    """The advert in what `git ls-remote` printed."""
    owners: dict[str, dict[str, str]] = {}
    malformed = 0
    for line in output.decode("utf-8", "surrogateescape").splitlines():
        commit, _, name = line.partition("\t")
        if not name.startswith(LOCAL_PREFIX):
            continue
        try:
            source = parse_source_ref(name)
        except HnError:
            source = None
        if source is None or not is_object_id(commit):
            malformed += 1
            continue
        if len(commit) != oid_length:
            theirs, ours = _FORMATS[len(commit)], _FORMATS[oid_length]
            raise HnError(
                "object-format-mismatch",
                f"the remote's repository is {theirs}, this one is {ours}",
                hint=_OTHER_FORMAT,
            )
        owners.setdefault(source.stream, {})[source.actor] = commit
    single = {stream: found for stream, found in owners.items() if len(found) == 1}
    offers = sorted(Offer(actor, stream, commit) for stream, found in single.items() for actor, commit in found.items())
    disputed = {stream: tuple(sorted(found)) for stream, found in sorted(owners.items()) if len(found) > 1}
    return Advert(tuple(offers), disputed, malformed)


def said(done: Ended) -> list[str]:
    """The remote's own words (`remote: ...`) in what Git printed."""
    return [line.removeprefix("remote: ") for line in clean_lines(done.stderr) if line.startswith("remote: ")]
