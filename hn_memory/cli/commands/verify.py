"""`hn memory verify`."""

from __future__ import annotations

from hn_memory.cli.declare import FILE, argument
from hn_memory.cli.declare import command as declare
from hn_memory.cli.inputs import file_name
from hn_memory.cli.session import Session
from hn_memory.errors import InvalidSourceError


@declare(
    "verify",
    "Verify every stream from its first commit.",
    argument("file", "[FILE]", type=FILE, required=False),
)
def command(session: Session, file: str | None) -> None:
    """Verify every stream from its first commit, trusting nothing remembered.

    With FILE, verify a bundle instead; that needs no repository. Names each bad
    commit and why. The exit status is 6 when a source does not hold.
    """
    if file is not None:
        from hn_memory.cli.render_replication import file_verified
        from hn_memory.service.bundles import verify_file

        document = verify_file(file_name(file))
        session.reply(document, file_verified, status=0 if document["valid"] else InvalidSourceError.exit_status)
        return
    from hn_memory.cli.render_sources import verified

    with session.service() as service:
        document = service.verify()
    session.reply(document, verified, status=0 if document["valid"] else InvalidSourceError.exit_status)
