"""`sudare keys create|show|sign`: the key of a steward, and the signature of a release."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.privacy.signatures import SigningKey

keys = LazyGroup(
    "keys",
    help=text(
        "A key signs releases: whoever has its public file can check that a certificate is yours, and that nobody"
        " changed it."
    ),
    places={
        "create": ("sudare.cli.keys:create", text("make a private key and the public one to hand out")),
        "show": ("sudare.cli.keys:show", text("tell the fingerprint of a key")),
        "sign": ("sudare.cli.keys:sign", text("sign a release that is there already")),
    },
)


@click.command(
    cls=Worded,
    help=text(
        "Make FILE, a private key that only you can read, and FILE.pub, the public key to hand out. A lost private key"
        " cannot be replaced: keep a copy where nobody else comes."
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@option(
    "--pass-phrase",
    "has_pass_phrase",
    is_flag=True,
    help=text("lock the private key with a pass phrase (typed, or taken from SUDARE_PASS_PHRASE)"),
)
@json_option
def create(file: Path, has_pass_phrase: bool, as_json: bool) -> None:
    """Make both files and print the fingerprint."""
    from sudare.atomic import check_new_file
    from sudare.errors import KeyFileError
    from sudare.privacy.signatures import PUBLIC_ENDING, create_keys

    check_new_file(file, error=KeyFileError)
    phrase = ask_pass_phrase(file, is_new=True) if has_pass_phrase else None
    public = create_keys(file, pass_phrase=phrase)
    facts = {"private": str(file), "public": f"{file}{PUBLIC_ENDING}", "fingerprint": public.fingerprint}
    if as_json:
        print_json(facts)
        return
    click.echo(say("{private}: the private key; it signs, and stays with you", private=facts["private"]))
    click.echo(say("{public}: the public key; hand it out to whoever reads your releases", public=facts["public"]))
    click.echo(say("fingerprint: {fingerprint}", fingerprint=facts["fingerprint"]))


@click.command(cls=Worded, help=text("Tell the fingerprint of the public key FILE, to compare it with the steward."))
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Print the fingerprint."""
    from sudare.privacy.signatures import PublicKey

    fingerprint = PublicKey.read(file).fingerprint
    if as_json:
        print_json({"file": str(file), "fingerprint": fingerprint})
    else:
        click.echo(say("fingerprint: {fingerprint}", fingerprint=fingerprint))


@click.command(
    cls=Worded,
    help=text("Sign the release in DIR, after it was checked as `sudare verify` does. It must not be signed yet."),
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path),
    help=text("private key file (default: that of SUDARE_KEY)"),
)
@json_option
def sign(directory: Path, key_file: Path | None, as_json: bool) -> None:
    """Check, sign, and tell the key."""
    from sudare.errors import ParameterError
    from sudare.verify.checks import sign_release

    key = open_key(key_file)
    if key is None:
        raise ParameterError("a private key is needed; give --key, or name it in SUDARE_KEY")
    sign_release(directory, key)
    if as_json:
        print_json({"release": str(directory), "signed_with": key.public.fingerprint})
    else:
        click.echo(say("signed with the key {fingerprint}", fingerprint=key.public.fingerprint))


def open_key(file: Path | None) -> SigningKey | None:
    """Read the key that is named, or that of SUDARE_KEY; a locked one asks for its pass phrase on a terminal."""
    from sudare.privacy.signatures import KEY_VARIABLE, PASS_PHRASE_VARIABLE, find_key, is_locked

    named = file or (Path(os.environ[KEY_VARIABLE]) if os.environ.get(KEY_VARIABLE) else None)
    if named is None:
        return None
    is_asked = not os.environ.get(PASS_PHRASE_VARIABLE) and sys.stdin.isatty() and is_locked(named)
    return find_key(named, pass_phrase=ask_pass_phrase(named, is_new=False) if is_asked else None)


def ask_pass_phrase(file: Path, *, is_new: bool) -> str:
    """Take the pass phrase from the environment, or let it be typed, a new one twice."""
    from sudare.privacy.signatures import PASS_PHRASE_VARIABLE

    given = os.environ.get(PASS_PHRASE_VARIABLE)
    if given:
        return given
    typed: str = click.prompt(
        say("pass phrase of {file}", file=file),
        hide_input=True,
        confirmation_prompt=say("the same again") if is_new else False,
        err=True,
    )
    return typed
