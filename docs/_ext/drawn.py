"""Directive ``drawn``: a figure that is drawn when the site is built, above the code that draws it."""

import hashlib
import os
from pathlib import Path

import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import STYLE, save


class Drawn(SphinxDirective):
    """The argument says what the figure shows; the content draws it with matplotlib."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        folder = Path(self.env.doctreedir) / "drawn"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha1(code.encode()).hexdigest()[:12]}.png"
        if not path.exists():
            with plt.rc_context({**STYLE, "figure.constrained_layout.use": True}):
                exec(compile(code, self.get_location(), "exec"), {})
                save(plt.gcf(), path)
            plt.close("all")
        here = Path(self.env.doc2path(self.env.docname)).parent
        image = nodes.image(uri=Path(os.path.relpath(path, here)).as_posix(), alt=self.arguments[0], scale=50)
        return [image, nodes.literal_block(code, code, language="python")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
