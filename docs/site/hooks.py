"""What MkDocs does besides: pages from outside docs/, links that work in the repository and on the site, tight lists.

Proofs, papers and the notes at the root stay where they are; `- Proofs: proofs/` in the nav stands for all pages there.
Where a page says `<!-- every command -->`, the command line is described from its own code (commands.py).
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDERS = {"proofs/": "proofs/*.md", "papers/": "papers/*/*.md"}
ALONE = ("CONTRIBUTING.md", "CHANGELOG.md")
COMMANDS = "<!-- every command -->"
PICTURES = ("proofs/**/*.svg", "papers/**/*.svg", "papers/**/*.png")

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|/)([^)\s#]+)(#[^)\s]*)?\)")
_ITEM = re.compile(r"( {0,3})([-*] |\d+\. )")
_FENCE = re.compile(r"\s*(```|~~~)")


def outside() -> list[str]:
    """List the pages and pictures of the site that live outside docs/, as paths from the root of the repository."""
    patterns = (*FOLDERS.values(), *PICTURES)
    return [*(file.relative_to(ROOT).as_posix() for each in patterns for file in sorted(ROOT.glob(each))), *ALONE]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Speak English whatever the locale, and write folders of the nav out as pages."""
    os.environ["SUDARE_LANG"] = "en"
    config.nav = [_written_out(entry) for entry in config.nav or []]
    return config


def _written_out(entry: Any) -> Any:
    if isinstance(entry, dict):
        title, place = next(iter(entry.items()))
        if isinstance(place, str) and place in FOLDERS:
            return {title: [page for page in outside() if page.startswith(place) and page.endswith(".md")]}
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Bring in what lives outside."""
    from mkdocs.structure.files import File

    for page in outside():
        files.append(File(page, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write the commands out, and mend links and lists before the page is rendered."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, _commands())
    return _loosen(_relink(markdown, page.file.src_uri))


def _commands() -> str:
    """Describe every command; commands.py lies beside this file, which is on no path."""
    spec = importlib.util.spec_from_file_location("commands", Path(__file__).with_name("commands.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.described()
    return text


def _relink(markdown: str, uri: str) -> str:
    """Turn links between files of the repository into links of the site; a file that is not there loses its link."""
    brought = set(outside())
    here = uri if uri in brought else f"docs/{uri}"

    def mended(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[2]))
        if target in brought:
            place = target
        elif target.startswith("docs/"):
            place = target.removeprefix("docs/")
        else:
            return link[1] if (ROOT / target).exists() else link[0]
        return f"[{link[1]}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{link[3] or ''})"

    return _LINK.sub(mended, markdown)


def _loosen(markdown: str) -> str:
    """Put a blank line before a list that follows a paragraph at once: GitHub sees a list there, MkDocs does not."""
    lines: list[str] = []
    is_code = False
    for line in markdown.splitlines():
        before = lines[-1] if lines else ""
        is_after_text = before.strip() and not before.startswith((" ", "#", "|")) and not _ITEM.match(before)
        if not is_code and _ITEM.match(line) and is_after_text:
            lines.append("")
        if _FENCE.match(line):
            is_code = not is_code
        lines.append(line)
    return "\n".join(lines) + "\n"
