"""Parts that several methods share: active sets, and solvers on working sets, faces and blocks."""
