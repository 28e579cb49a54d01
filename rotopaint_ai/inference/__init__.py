"""Model packs, and inference with onnxruntime.

- `pack` reads a pack, `signing` checks its signature, `pack_folder` replaces its folder; `sample` is the shot that
  ships with the packs.
- `models` gives a pack's models as callables. `onnx_session` runs them in this process; models of others run in a child
  process: `process` starts it, `serve` is its program, `messages` pass between both, `call_limits` bound a call.

From version 1.32 on, onnxruntime sends usage statistics. This package switches that off for this process and its child
processes, unless the environment sets `ORT_DISABLE_TELEMETRY`.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
