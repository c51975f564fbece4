"""The types of our parameters, as click knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic since click 8.4 only


class _Text(_ParamType):
    """An argument that becomes text somewhere and so must have been valid UTF-8."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            at = len(value[: error.start].encode("utf-8", "surrogateescape"))
            self.fail(f"not valid UTF-8 at byte {at}", param, ctx)
        return value


class _File(_ParamType):
    """The name of a file, or `-`."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


TEXT: Final = _Text()
FILE: Final = _File()
