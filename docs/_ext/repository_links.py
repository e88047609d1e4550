"""Pages are read on the site and in the repository: links to its files lead to the pages that stand for them."""

import re

from sphinx.application import Sphinx


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the targets of links, and nothing else."""
    for file, page in app.config.repository_pages.items():
        source[0] = re.sub(rf"\]\({file}\)", rf"]({page})", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen."""
    app.add_config_value("repository_pages", {}, "env")
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
