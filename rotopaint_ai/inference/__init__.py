"""Model packs, and inference with onnxruntime.

From version 1.32 on, onnxruntime sends usage statistics. This package switches that off for this process and its child
processes, unless the environment sets `ORT_DISABLE_TELEMETRY`.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
